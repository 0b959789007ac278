"""The making of pages: clusters of facts, titles, lists."""
