"""The stages of a dream, one file each, and what they are made of."""
