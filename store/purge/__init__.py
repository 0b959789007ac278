"""Purge: erase selected memories from files, history, index and caches, and prove it by searching every byte."""
