"""The derived pages (catalogue, log, digests), and the lines from which they are made."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date

from .. import okf
from ..core import Core
from ..door import outgoing
from ..index.catalog import Content
from ..redaction import masked
from ..results import Digest
from ..vault.vault import is_digest
from ..writer.derived import DerivedFiles, unmarked


class Pages:
    """Reads and writes derived pages. Every method may be called from any thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._vault = core.vault
        self._folder = core.paths.vault  # not resolved: digests are shown with the path that a person gave
        self.derived = DerivedFiles(core.vault, core.ledger, core.writer)

    def written(self) -> Collection[str]:
        """Return the paths that we wrote once, also those that a person has changed since."""
        return self.derived.ours()

    def may_write(self, path: str) -> bool:
        """Return whether a path may be written: nothing is there, or what we wrote last."""
        return self.derived.is_ours(path)

    def write(self, pages: Mapping[str, str | None]) -> Sequence[str]:
        """Write these derived pages (None: delete); return the paths of a person's own files, which stay.

        A digest quotes files; every other page is made of the index, which holds no secret.
        """
        foreign = self.derived.write(
            {path: self._core.door.page(text) if text and is_digest(path) else text for path, text in pages.items()}
        )
        if gone := [path for path, text in pages.items() if text is None]:
            self._core.settle()
            self._vault.remove_empty_folders(gone)
        return foreign

    def contents(self) -> Sequence[Content]:
        """Return a line for every memory and session whose file is there, after acknowledged writes can be found."""
        self._core.settle()
        return [
            line for line in self._core.catalog.contents() if self._vault.exists(line.path)
        ]  # the index knows a deleted file for a moment longer

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
