"""Documents: what an agent keeps under a name, replaces and deletes by it. Files of the vault like any memory."""
