"""The home of words: lists and tables, normal form, stems, terms, chunks, token counts, comparison of statements."""
