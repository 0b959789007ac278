"""Secrets out of what is kept: their issuers' shapes, rules for places, weights for what is near a name."""

from .file_mask import FileMask
from .redaction import REDACTED, Redacted, bounds_of_secret, find, masked, places_of_secrets, redact

__all__ = ["REDACTED", "FileMask", "Redacted", "bounds_of_secret", "find", "masked", "places_of_secrets", "redact"]
