"""The stages of a dream, one file each."""
