"""What is done while nobody waits: linking, relevance feedback, embedding."""
