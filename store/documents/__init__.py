"""Documents: values that an agent keeps, replaces and deletes by a key. Files of the vault like any memory."""
