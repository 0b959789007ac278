"""The places of a store's parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StorePaths:
    """Where each part of a store lies. `runs` holds the folders of dreams that are being planned."""

    vault: Path
    ledger: Path
    index: Path
    embeddings: Path
    runs: Path
