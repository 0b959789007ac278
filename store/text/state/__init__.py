"""State: what a later statement does to an earlier one: repeats, replaces or disputes it, or nothing."""
