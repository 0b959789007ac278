"""The machine under the daemon: installation, locks, logs, limits, the service manager."""
