"""Optional language models: text in, checked JSON out."""
