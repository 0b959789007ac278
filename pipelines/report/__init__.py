"""The reports that a person reads of a dream: digest, page, catalogue."""
