"""dreamctl: the commands a person types."""
