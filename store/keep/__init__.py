"""Durable storage: the vault of files, the ledger, and the writer of both."""
