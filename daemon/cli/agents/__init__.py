"""The commands for agent programs: what an agent starts itself, what connects it, and whose sessions are followed."""
