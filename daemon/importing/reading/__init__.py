"""The parts that formats share: opening files, lines, timestamps, text, batches."""
