"""The one writer: group commit into the ledger, then the files."""
