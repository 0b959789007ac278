"""The texts of pages: episodes and their titles, current facts, topics; all in quotes."""
