"""Texts to vectors: the models, and the cache of what was embedded."""
