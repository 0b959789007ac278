"""Connecting agent programs: the entries in their settings that start our hooks and our tools."""
