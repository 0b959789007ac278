"""The workspace of stages: the snapshot, the view of it, proposals."""
