"""What changes the memory: what comes in, runs and their undo, edits, deletions and decisions."""
