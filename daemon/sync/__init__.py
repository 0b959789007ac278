"""One memory on several machines: segments of entries in git, each with one writer, let in by the one writer here."""
