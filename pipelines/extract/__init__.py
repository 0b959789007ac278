"""Turns to drafts of facts."""
