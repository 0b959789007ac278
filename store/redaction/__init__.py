"""Redaction of secrets: issuers' forms, rules for places, and weights for values near a name."""

from .redaction import (
    REDACTED,
    FileMask,
    Redacted,
    bounds_of_secret,
    find,
    masked,
    places_of_secrets,
    redact,
    version_of_rules,
)

__all__ = [
    "REDACTED",
    "FileMask",
    "Redacted",
    "bounds_of_secret",
    "find",
    "masked",
    "places_of_secrets",
    "redact",
    "version_of_rules",
]
