"""The living process: settings, wiring, schedule, supervision, file watching, the commands."""
