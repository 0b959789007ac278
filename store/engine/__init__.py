"""Engines behind the VectorStore seam."""
