"""Texts to vectors: the models, and the caches of vectors."""
