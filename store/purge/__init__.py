"""Purge: erase what a person names from files, history, index and caches, and prove it by searching every byte."""
