"""Following: agents' sessions, imported as they are written."""
