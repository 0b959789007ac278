"""dreamd: one long-term memory for a person's AI agents, kept on their own machine."""

__version__ = "0.1.0"
