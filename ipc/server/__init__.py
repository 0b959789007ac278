"""The server: connections in, handlers called, answers out."""
