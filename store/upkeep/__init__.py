"""Upkeep of an open store: index and vault in step, background work after an answer, health, repair."""
