"""Language: dates, sentences, words."""
