"""The vault's files: where they lie, how they are written, whether they are there."""
