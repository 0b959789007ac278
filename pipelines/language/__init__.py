"""English for the dreams: sentences, dates, verbs, nouns, content words."""
