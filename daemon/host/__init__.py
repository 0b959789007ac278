"""The machine under the daemon: service, lock, log, watched folders, checks of the settings."""
