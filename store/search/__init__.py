"""A question to its hits: candidates, fusion, supersession, the text that is shown."""
