"""The answers to writes that a client may send again: kept for a day, in the transaction of the write itself."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Final

from .records import Write, stored

ANSWER: Final = "SELECT answer FROM answered WHERE key = ?"
KEPT: Final = timedelta(days=1)
MOST: Final = 10_000


def hashed(method: str, key: str) -> str:
    """Return the name under which the answer to a write is kept: keys of two methods are two."""
    return hashlib.sha256(f"{method}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def keep_answer(key: str, answer: str, now: datetime) -> list[Write]:
    """Keep an answer, and let go of those that are too old or too many. The first under a key stays."""
    return [
        Write("INSERT OR IGNORE INTO answered VALUES (?, ?, ?)", (key, stored(now), answer)),
        Write("DELETE FROM answered WHERE at < ?", (stored(now - KEPT),)),
        Write(
            "DELETE FROM answered WHERE key IN (SELECT key FROM answered ORDER BY at DESC LIMIT -1 OFFSET ?)", (MOST,)
        ),
    ]


def forget_answers() -> Write:
    """Let go of all of them."""
    return Write("DELETE FROM answered", ())
