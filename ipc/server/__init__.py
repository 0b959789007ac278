"""The server: connections in, methods run, answers out."""
