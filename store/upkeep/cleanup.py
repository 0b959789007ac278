"""Cleanup: removal of expired documents, old history, unused vectors, and hidden files that killed writes left.

Beside it are the inputs of decay: the facts that may fade, and the uses, verdicts and pages that keep them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from ..changes.apply import Changes
from ..changes.documents import Documents
from ..core import Core
from ..ledger.ledger import Reinforced, Usage
from ..ledger.questions import Probe, prune_questions
from ..ledger.records import prune_events
from ..model import Kind, Level, Memory, NodeId, StoreError
from ..vault.disk import is_aside, is_temp, pid_of_temp
from ..vault.vault import Vault

logger = logging.getLogger(__name__)

OLD_AFTER: Final = timedelta(minutes=1)
"""No write takes longer: an older file is not in use."""

MOST_AT_ONCE: Final = 1000


class Leftovers:
    """Sweeps the vault. `is_known` says if the ledger holds a content.

    If the process is killed during an exchange, such a file may be the only copy of a save that a person made at that
    moment. One whose content is not known is therefore kept and reported, never removed.
    """

    def __init__(self, vault: Vault, is_known: Callable[[bytes], bool], started_at: datetime) -> None:
        self._vault = vault
        self._is_known = is_known
        self._started_at = started_at
        self.held: tuple[str, ...] = ()

    def sweep(self, now: datetime, stopping: Callable[[], bool] = lambda: False) -> int:
        """Remove the files of an earlier process, or too old to be in use; return their number."""
        held: list[str] = []
        swept = 0
        for path in self._found():
            if stopping() or swept == MOST_AT_ONCE:
                break
            with contextlib.suppress(OSError):  # whoever used it was done with it, or it cannot be read
                if not self._is_over(path, now):
                    continue
                if self._is_ours(path):
                    self._vault.disk.unlink(path)
                    swept += 1
                else:
                    held.append(self._vault.relative(path) or str(path))
        self.held = tuple(sorted(held))
        return swept

    def remove(self, is_wanted: Callable[[bytes], bool]) -> int:
        """Remove the files whose content `is_wanted` gone, also a person's; return their number."""
        removed = 0
        for path in list(self._found()):
            with contextlib.suppress(OSError):  # it is gone, or no regular file
                if is_wanted(self._vault.disk.read(path)):
                    self._vault.disk.unlink(path)
                    removed += 1
        return removed

    def _found(self) -> Iterator[Path]:
        """Yield all files with such a name; other programs' hidden folders are not entered, links not followed."""
        for folder, folders, names in os.walk(self._vault.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(folder, name) for name in names if is_temp(name))

    def _is_over(self, path: Path, now: datetime) -> bool:
        """Return True if a file is no longer in use; an exchange changes its ctime, not its mtime."""
        status = self._vault.disk.stat(path)
        changed = datetime.fromtimestamp(status.st_ctime, now.tzinfo)
        before_us = pid_of_temp(path.name) != os.getpid() and changed < self._started_at
        return stat.S_ISREG(status.st_mode) and (before_us or changed < now - OLD_AFTER)

    def _is_ours(self, path: Path) -> bool:
        if not is_aside(path.name):
            return True
        content = self._vault.disk.read(path)
        # NULs alone: a power cut came before the content reached the disk.
        return not content.strip(b"\0") or self._is_known(content) or self._lies_beside(path, content)

    def _lies_beside(self, path: Path, content: bytes) -> bool:
        """Return True if another file of the same folder has the same content."""
        beside = [
            Path(entry.path)
            for entry in os.scandir(path.parent)
            if not is_temp(entry.name)
            and entry.is_file(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_size == len(content)
        ]
        return any(self._vault.disk.read(other) == content for other in beside)


class Cleanup:
    """Removes what is no longer needed. Every method may be called from any thread."""

    def __init__(self, core: Core, changes: Changes, documents: Documents) -> None:
        self._core = core
        self._changes = changes
        self._documents = documents
        self.leftovers = Leftovers(core.vault, core.ledger.holds, core.now())
        self._thread = threading.Thread(target=self.sweep, name="dreamd-sweep", daemon=True)

    def start(self) -> None:
        """Sweep once, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the end of that sweep; `core.closing` is set by then."""
        if self._thread.is_alive():
            self._thread.join()

    def tidy(self) -> None:
        """Remove expired documents, old history, vectors of texts that are gone, leftovers; look at the databases."""
        now = self._core.now()
        with contextlib.suppress(StoreError):  # the vault is away: the next time
            self._documents.sweep()
        self._changes.prune(now)
        self.sweep()
        self._core.writer.write(
            *prune_questions(now), *prune_events(now - timedelta(days=self._core.settings.history_days))
        ).result()
        self._core.embeddings.prune(self._core.index.text_hashes())
        self._core.ledger.look_through()  # damage in rows that are seldom read is found here
        self._core.opened.problems()

    def sweep(self) -> None:
        """Remove what killed writes left in the vault."""
        try:
            swept = self.leftovers.sweep(self._core.now(), self._core.closing.is_set)
        except (OSError, StoreError) as error:  # of no consequence but the files: the next start looks again
            logger.warning("what interrupted writes left was not swept (%s)", type(error).__name__)
        else:
            if swept:
                logger.info("removed %d files that interrupted writes had left", swept)


# ---- what fades


@dataclass(frozen=True, slots=True)
class DecayInputs:
    """The contents of ledger and index from which decay is computed.

    `citations` are pairs of a living page and a living fact that it cites; `living` counts the living facts. `facts`
    yields the facts stated before a moment, with id, path and time only; `read` returns a file's content, None if
    there is none.
    """

    tombstones: frozenset[str]
    usage: Mapping[NodeId, Usage]
    feedback: Mapping[NodeId, Mapping[str, int]]
    probes: Sequence[Probe]
    reinforced: Mapping[NodeId, Reinforced]
    citations: Sequence[tuple[NodeId, NodeId]]
    living: int
    facts: Callable[[datetime], Iterator[Memory]]
    read: Callable[[str], bytes | None]


def read_decay_inputs(core: Core) -> DecayInputs:
    """Read the inputs of decay, after acknowledged writes can be found."""
    core.settle()
    ledger, catalog = core.ledger, core.catalog

    def facts(before: datetime) -> Iterator[Memory]:
        for node_id, path, at in catalog.old_facts(before):
            yield Memory(node_id=node_id, level=Level.FACT, kind=Kind.FACT, title="", text="", path=path, created_at=at)

    return DecayInputs(
        tombstones=frozenset(ledger.tombstones()),
        usage=ledger.usage(),
        feedback=ledger.feedback(),
        probes=ledger.probes(),
        reinforced=ledger.reinforced(),
        citations=catalog.resting(),
        living=catalog.counts()["facts"],
        facts=facts,
        read=core.vault.read_if_any,
    )
