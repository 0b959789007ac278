"""The pages that are made of the memory: written after a dream and after an undo, as they are true then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from loguru import logger

from ...store.keep import okf
from ...store.keep.files.vault import is_digest
from ...store.keep.ledger.records import LINK

if TYPE_CHECKING:
    from ...store.memory import MemoryStore

LOG_RUNS = 1000


class DerivedPages:
    """Keeps digests, catalogue and log; all methods block."""

    def __init__(self, store: MemoryStore, local_now: Callable[[], datetime]) -> None:
        self._store = store
        self._local_now = local_now

    def write(self, digests: Mapping[str, str]) -> None:
        """Write a day's digest, and the catalogue anew."""
        if left := self._store.write_derived(digests):
            logger.info("{} is a person's own; the digest is not written there", left[0])
        self.refresh()

    def refresh(self) -> None:
        """Make the catalogue and the log true; a vault whose `index.md` is its person's gets no catalogue of ours."""
        from ...pipelines.report import catalogue  # what it needs has time until the first dream

        store = self._store
        store.settle()
        ours = store.derived.ours()
        zone = self._local_now().tzinfo
        assert zone is not None
        there = [
            one for one in store.catalog.contents() if store.vault.exists(one.path)
        ]  # what is gone is known a while
        wanted: dict[str, str | None] = dict(
            catalogue.pages(
                there,
                [path for path in ours if is_digest(path)],
                store.runs(LOG_RUNS, hidden=[LINK]),
                zone,
                self._description,
            )
        )
        if not store.derived.is_ours("index.md"):
            wanted = {"log.md": wanted["log.md"]}
        gone = [path for path in ours if path not in wanted and not is_digest(path)]
        store.write_derived(wanted | dict.fromkeys(gone))

    def undone(self, run_id: str, kept: int) -> None:
        """Say in its digest that a run was undone (`kept`: but for so many changes), and make the catalogue true."""
        from ...pipelines.report.html import disowned, noted

        if not self._store.derived.ours():
            return  # no dream has landed yet
        pages: dict[str, str] = {}
        for path in self._digests_of(run_id):
            text = (self._store.vault.read_if_any(path) or b"").decode("utf-8", "replace")
            if kept:
                pages[path] = noted(text, run_id, "Partly undone:", f"{kept} of its changes stayed.")
            else:
                pages[path] = disowned(text, run_id, "it was undone.")
        self.write(pages)

    def _digests_of(self, run_id: str) -> list[str]:
        """The pages of the day that a dream's name begins with."""
        day = f"digests/{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"
        return [path for path in self._store.derived.ours() if path in (f"{day}.md", f"{day}.html")]

    def _description(self, path: str) -> str:
        data = self._store.vault.read_if_any(path)
        return "" if data is None else okf.to_memory(path, okf.parse(data)).description
