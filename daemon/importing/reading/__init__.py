"""What the formats share: opening files, lines, timestamps, text, batches."""
