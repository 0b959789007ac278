"""The list of English stop words that fastembed's BM25 wants beside it, laid out as its cache has it.

It has no weights, but it downloads the lists of seventeen languages as one model; here there is no hub, and what is
asked is English.
"""

from __future__ import annotations

from pathlib import Path

from ..scoring import STOP_WORDS

LANGUAGES = (
    "arabic danish dutch english finnish french german greek hungarian italian norwegian portuguese romanian russian "
    "spanish swedish turkish"
).split()


def lay_out(cache: Path) -> Path:
    """Write the cache of `Qdrant/bm25` into a folder; return it."""
    model = cache / "models--Qdrant--bm25"
    snapshot = model / "snapshots" / "local"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("local")
    (snapshot / "config.json").write_text("{}")
    for language in LANGUAGES:
        words = sorted(STOP_WORDS) if language == "english" else []
        (snapshot / f"{language}.txt").write_text("\n".join(words))
    return cache
