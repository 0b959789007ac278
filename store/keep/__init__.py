"""What is kept: the vault of files, the ledger, changes."""
