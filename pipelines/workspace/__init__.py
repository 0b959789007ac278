"""What stages work on: the snapshot, its view, what they propose."""
