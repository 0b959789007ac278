"""The methods for documents, which an agent keeps by key."""
