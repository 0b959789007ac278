"""The making of pages: episodes and their titles, what holds now, topics, what comes up again; all in quotes."""
