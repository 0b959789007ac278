"""Imports: transcripts, chats and notes of other programs, kept as sessions and memories."""
