"""The ledger: journal, runs, questions and cursors, in one database."""
