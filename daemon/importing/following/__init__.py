"""Following: agents' sessions, taken in as they are written."""
