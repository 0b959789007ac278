"""The dreams: consolidation in stages, a gate and a report. The only room that may talk to a language model."""
