"""The projection of the vault that is searched, and how it is opened, filled and mended."""
