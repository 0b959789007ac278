"""A model's claims, checked against the words that were said."""
