"""The commands about work that is under way."""
