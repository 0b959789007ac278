"""The state of work that is under way: what the agent of a session is doing right now."""
