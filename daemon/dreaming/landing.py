"""The pages that are made of the memory: written after a dream and after an undo, as they are true then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from loguru import logger

from ...store import LINK, is_digest

if TYPE_CHECKING:
    from ...store import MemoryStore

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
        from ...pipelines.report import catalogue

        store = self._store
        there = store.pages.contents()
        ours = store.pages.written()
        zone = self._local_now().tzinfo
        assert zone is not None
        wanted: dict[str, str | None] = dict(
            catalogue.pages(
                there,
                [path for path in ours if is_digest(path)],
                store.runs(LOG_RUNS, hidden=[LINK]),
                zone,
                store.pages.description,
            )
        )
        if not store.pages.may_write("index.md"):
            wanted = {"log.md": wanted["log.md"]}
        gone = [path for path in ours if path not in wanted and not is_digest(path)]
        store.write_derived(wanted | dict.fromkeys(gone))

    def undone(self, run_id: str, kept: int) -> None:
        """Say in its digest that a run was undone (`kept`: but for so many changes), and make the catalogue true."""
        from ...pipelines.report.html import disowned, noted

        if not self._store.pages.written():
            return  # no dream has landed yet
        pages: dict[str, str] = {}
        for path in self._digests_of(run_id):
            text = self._store.pages.text(path)
            if kept:
                pages[path] = noted(text, run_id, "Partly undone:", f"{kept} of its changes stayed.")
            else:
                pages[path] = disowned(text, run_id, "what it changed is as it was before.")
        self.write(pages)

    def _digests_of(self, run_id: str) -> list[str]:
        """Return the pages of the day that a dream's id begins with."""
        day = f"digests/{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"
        return [path for path in self._store.pages.written() if path in (f"{day}.md", f"{day}.html")]
