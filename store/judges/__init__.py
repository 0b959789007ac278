"""Learned judges: a small encoder with several heads reads turns in their places."""
