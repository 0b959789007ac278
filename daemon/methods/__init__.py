"""The methods of the wire that are the daemon's own."""
