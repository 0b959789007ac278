"""The dreams: one file a stage. The only room that may talk to a language model."""
