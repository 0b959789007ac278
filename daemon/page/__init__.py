"""The web page over the memory: its door, its views, and its acts, each a method of the daemon's table."""
