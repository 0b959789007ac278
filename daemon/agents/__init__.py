"""The agent programs: what their hooks are answered, and how they are connected."""
