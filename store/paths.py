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

    @property
    def checkpoint(self) -> Path:
        """The file of finished units that one dream leaves to the next."""
        return self.runs.with_name("checkpoint")

    @property
    def models(self) -> Path:
        """The folder of models that were prepared or fetched."""
        return self.ledger.with_name("models")

    @property
    def purge(self) -> Path:
        """The file that says which purge is under way."""
        return self.ledger.with_name("purge.json")
