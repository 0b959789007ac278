"""Retrieval: index, embedding, fusion, search."""
