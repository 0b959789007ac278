"""The gate: rules and probes that decide which stages of a dream become real."""
