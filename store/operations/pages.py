"""The derived pages (catalogue, log, digests), and what they are made of."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path

from .. import okf
from ..changes.outgoing import outgoing
from ..door import Door
from ..index.catalog import Catalog, Content
from ..redaction import masked
from ..results import Digest
from ..vault.vault import Vault, is_digest
from ..writer.derived import DerivedFiles, unmarked
from .visibility import Visibility


class Pages:
    """Reads and writes derived pages. Every method may be called from any thread.

    `folder` is the vault's as it was given: the paths of digests are shown as paths in it.
    """

    def __init__(
        self, derived: DerivedFiles, catalog: Catalog, vault: Vault, folder: Path, visibility: Visibility, door: Door
    ) -> None:
        self._door = door
        self._derived = derived
        self._catalog = catalog
        self._vault = vault
        self._folder = folder
        self._visibility = visibility

    def written(self) -> Collection[str]:
        """Return the paths that we wrote once, also those that a person has changed since."""
        return self._derived.ours()

    def may_write(self, path: str) -> bool:
        """Return whether a path may be written: nothing is there, or what we wrote last."""
        return self._derived.is_ours(path)

    def write(self, pages: Mapping[str, str | None]) -> Sequence[str]:
        """Write these derived pages (None: delete); return the paths of a person's own files, which stay.

        A digest quotes files; every other page is made of the index, which holds no secret.
        """
        foreign = self._derived.write(
            {path: self._door.page(text) if text and is_digest(path) else text for path, text in pages.items()}
        )
        if gone := [path for path, text in pages.items() if text is None]:
            self._visibility.settle()
            self._vault.remove_empty_folders(gone)
        return foreign

    def contents(self) -> Sequence[Content]:
        """Return a line for every memory and session whose file is there, after what was acknowledged is found."""
        self._visibility.settle()
        return [
            line for line in self._catalog.contents() if self._vault.exists(line.path)
        ]  # what is gone stays a while

    def text(self, path: str) -> str:
        """Return a page's text, "" where there is no such file."""
        return unmarked(self._vault.read_if_any(path) or b"").decode("utf-8", "replace")

    def description(self, path: str) -> str:
        """Return the description in a memory's frontmatter, "" where there is no such file."""
        data = self._vault.read_if_any(path)
        return "" if data is None else okf.to_memory(path, okf.parse(masked(data))).description

    def digest(self, day: date | None = None) -> Digest | None:
        """Return a day's digest, or the newest; None where there is none."""
        name = f"{day.isoformat()}.md" if day else "*.md"
        found = (path for path in self._folder.glob(f"digests/{name}") if is_digest(f"digests/{path.name}"))
        for path in sorted(found, reverse=True):
            if (data := self._vault.read_if_any(f"digests/{path.name}")) is not None:
                page = path.with_suffix(".html")
                text = outgoing(okf.parse(unmarked(data)).body)
                return Digest(path.stem, path, page if page.exists() else None, text)
        return None
