"""Words: normal form, terms, chunks, token counts, and the comparison of two statements."""
