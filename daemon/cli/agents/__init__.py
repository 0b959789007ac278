"""The commands for agent programs: what an agent starts itself, and what connects it."""
