"""Changes to the memory: intake, runs and their undo, edits, deletions and decisions."""
