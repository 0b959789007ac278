"""Words for the dreams: days, content words, overlap."""
