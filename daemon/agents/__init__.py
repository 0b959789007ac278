"""The agent programs: the answers to their hooks, and our entries in their settings."""
