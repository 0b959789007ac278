"""The places of a store's parts, by the settings."""

from __future__ import annotations

from ..store import StorePaths
from .settings import Settings


def store_paths(settings: Settings) -> StorePaths:
    """Return the places of the store that the settings name."""
    return StorePaths(
        vault=settings.vault,
        ledger=settings.data_dir / "ledger.db",
        index=settings.data_dir / "index" / "index.db",
        embeddings=settings.data_dir / "index" / "embeddings.db",
        runs=settings.data_dir / "runs",
    )
