"""Background work between requests: linking, relevance feedback, embedding."""
