"""Secrets out of what is kept: the table of their issuers' shapes, and rules for what people type."""

from .file_mask import FileMask
from .redaction import REDACTED, Redacted, bounds_of_secret, find, masked, places_of_secrets, redact

__all__ = ["REDACTED", "FileMask", "Redacted", "bounds_of_secret", "find", "masked", "places_of_secrets", "redact"]
