"""When a dream runs, in which process, within which bounds, and what becomes of it."""
