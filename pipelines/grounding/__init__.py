"""A language model's claims, checked against their sources."""
