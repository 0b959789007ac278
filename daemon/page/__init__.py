"""The web page over the memory: who may look, what is shown, and the acts, each a method of the daemon's table."""
