"""Carry out a purge: step by step, finished after a crash, and proved by a search of every byte.

The intent is on the disk before the first step and goes after the last; it holds ids and hashes, no content. Each step
may be done again. Their order:

1. files: they are the truth, and index and pages are made of them. The changes go through the journal, so the step
   waits until the journal holds no older content of them.
2. history: images, questions, anchors and every other row of the ledger; then the run that records the purge.
3. index, pages, caches: they are derived from the files. No other index may be built meanwhile: it may have read the
   files before the first step.
4. compact: the databases are rewritten, since the pages that the other steps freed still hold the bytes.
5. search: the proof. An index in which a trace is found is rebuilt, and all is searched once more.

Example: the process is killed in step 2. The next start reads the intent before it compares files, so that those which
the purge removed are not kept for a person as files that vanished (`expect`). Then all steps run again in a thread
(`start`): 1 finds each file as it should be, 2 finds the rows that are left, and the run is recorded under the same id.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import apsw

from ..changes.deletions import Deletions
from ..changes.run_kinds import PURGE, new_run_id
from ..core import Core
from ..engine.database import may_pass, tried_again
from ..index.repairs import refuse_without_history
from ..index.tombstones import TURN, UNTOLD
from ..ledger import records
from ..ledger.journal import FileChange, sha256
from ..ledger.ledger import START_WAITS_S
from ..ledger.records import Run
from ..ledger.salvage import kept_copies
from ..model import StoreBusy
from ..results import Purged
from ..upkeep.cleanup import Leftovers
from ..vault.disk import Disk
from ..vault.vault import is_derived, is_kept, largest
from ..writer.derived import DerivedFiles
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .plan import Planner, PurgePlan, Selection
from .prove import holds_any, pieces_in, regular_files, search
from .scrub import Erasure, row_erasures

logger = logging.getLogger(__name__)

FILES_AT_ONCE: Final = 16
SETTLED_WITHIN_S: Final = 120.0
JOURNAL_EMPTY_WITHIN_S: Final = 60.0
LOOKED_EVERY_S: Final = 0.05
LONGEST_REST_S: Final = 0.05
ROUNDS: Final = 5
"""Looks at the same files or rows, while others write to them, before a purge is put off."""

AGAIN_S: Final = 5.0
"""The wait before a purge that could not be finished (a full disk, a vault that is away) is tried again."""

GOES_ON: Final = "It goes on by itself."

Progress = Callable[[str, int, int], None]


class Intent:
    """One small file beside the databases, for a step that must be finished once it is begun.

    Every method raises OSError as the disk does.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    @property
    def is_there(self) -> bool:
        """Return True while a step is under way, or was when the process ended."""
        return self._path.exists()

    def write(self, intent: Mapping[str, Any]) -> None:
        """Write it durably."""
        self._disk.write_durably(self._path, json.dumps(intent).encode())

    def read(self) -> dict[str, Any] | None:
        """Return the intent, None where there is none."""
        try:
            found = json.loads(self._disk.read(self._path))
        except FileNotFoundError:
            return None
        return found if isinstance(found, dict) else None

    def remove(self) -> None:
        """Overwrite it, and remove it durably: the step is done."""
        with self._path.open("r+b") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            os.fsync(file.fileno())
        self._disk.unlink(self._path)
        self._disk.fsync_dir(self._path.parent)


@dataclass(frozen=True, slots=True)
class PurgeOrder:
    """A purge that was begun: the run that records it, and the erasure."""

    run: Run
    erasure: Erasure

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        run = self.run
        return {"run_id": run.run_id, "erasure": self.erasure.to_json(), "summary": dict(run.summary)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any], now: datetime) -> PurgeOrder:
        """Read it back. Raises KeyError, TypeError or ValueError for anything else."""
        run = Run(str(written["run_id"]), PURGE, "applied", now, summary=written["summary"])
        return cls(run, Erasure.from_json(written["erasure"]))


class Purge:
    """Plans, carries out and finishes purges, one at a time. Every method may be called from any thread.

    `forget` drops the rows of the ledger that are held in memory, and is called before they are erased. `work_gate` is
    held while an anchor or a goal is changed.
    """

    def __init__(
        self,
        core: Core,
        deletions: Deletions,
        derived: DerivedFiles,
        leftovers: Leftovers,
        forget: Callable[[], None],
        work_gate: threading.Lock,
    ) -> None:
        self._core = core
        self._deletions = deletions
        self._derived = derived
        self._leftovers = leftovers
        self._forget = forget
        self._work_gate = work_gate
        self.intent = Intent(core.paths.purge, core.vault.disk)
        self.on_erased: Callable[[frozenset[str], bool], None] = lambda ids, secrets: None
        """Called, once or more, with the ids that a purge erased, and True if it took secrets out of any file."""
        self._planner = Planner(core.vault, core.ledger, core.catalog, self._rest)
        self._rested_at = 0.0
        self._missed: Sequence[Path] = ()  # by the last search
        self._one_at_a_time = threading.Lock()
        self._finishing: threading.Thread | None = None

    # ---- asked by a person

    def preview(self, selection: Selection, on_progress: Progress = lambda step, done, total: None) -> Purged:
        """Return the amount that a purge would remove, with the things themselves; nothing is changed."""
        return self._plan(selection, on_progress, is_listed=True).preview

    def purge(self, selection: Selection, on_progress: Progress = lambda step, done, total: None) -> Purged:
        """Erase a selection for good. No dream may be running.

        Raises NotFound and InvalidInput for the selection, StoreBusy while another purge is under way, or when this
        one cannot be finished now: then it goes on by itself.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            raise StoreBusy("a purge is under way", hint="Try again when it is done.")
        try:
            # Planned under the lock: a purge that is under way changes what there is to find.
            plan = self._plan(selection, on_progress)
            if plan.is_empty:
                return replace(plan.preview, out_of_reach=tuple(self._left_alone(plan.erasure)))
            now = self._core.now()
            run = Run(new_run_id(now, PURGE), PURGE, "applied", now, summary=_summary(plan.preview))
            order = PurgeOrder(run, plan.erasure)
            try:
                self._write_intent(order)
                found = self._carry_out(order, on_progress)
            except BaseException:
                # The intent is (or may be) on the disk: whatever ended this attempt, the purge must be finished.
                self.start()
                raise
            traces = tuple(f"{path} ({times})" for path, times in found.items())
            beyond = [*self._left_alone(plan.erasure), *self._out_of_reach(plan.erasure)]
            unreached = tuple(dict.fromkeys(beyond))
            return replace(plan.preview, run_id=order.run.run_id, traces=traces, out_of_reach=unreached)
        finally:
            self._one_at_a_time.release()

    def _plan(self, selection: Selection, on_progress: Progress, *, is_listed: bool = False) -> PurgePlan:
        core = self._core
        on_progress("plan", 0, 0)
        core.vault.raise_if_away()
        refuse_without_history(core.paths.ledger)
        if core.ledger.is_copy:
            raise StoreBusy("the disk cannot be written", hint="Make room; dreamd goes on by itself.")
        core.settle(SETTLED_WITHIN_S)
        if note := core.opened.note:
            raise StoreBusy(note, hint="Try again in a moment.")
        return self._planner.plan(selection, lambda number: on_progress("plan", number, 0), is_listed=is_listed)

    # ---- a purge that was interrupted

    def expect(self) -> None:
        """Have files that an interrupted purge removed count as removed on purpose; call it before they are compared.

        A disk that cannot be read is waited for, as long as the ledger's. Raises OSError then.
        """
        if (order := tried_again(self._read_intent, may_pass, START_WAITS_S)) is not None:
            self._deletions.is_purged = _removed_by(order.erasure)

    def start(self) -> None:
        """Finish an interrupted purge, if there is one, in a thread of its own."""
        if self.intent.is_there and not self._core.closing.is_set():
            self._finishing = threading.Thread(target=self._keep_trying, name="dreamd-purge", daemon=True)
            self._finishing.start()

    def stop(self) -> None:
        """End it: the next start goes on. `closing` is set by then."""
        if (finishing := self._finishing) is not None:
            finishing.join()
        with self._one_at_a_time:  # one that a person asked for ends at its next step
            pass

    def _keep_trying(self) -> None:
        while self.intent.is_there and not self._core.closing.is_set():
            try:
                self._finish()
            except Exception as error:  # a job's boundary: the intent stays, and the purge is tried again
                frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
                place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
                logger.warning("a purge waits to be finished (%s)", place)
                self._core.closing.wait(AGAIN_S)

    def _finish(self) -> None:
        """Carry out the steps that are left. Raises StoreError or OSError where that cannot be done now."""
        # Acknowledged changes must be in their files before these are searched.
        self._settle()
        if note := self._core.opened.note:
            raise StoreBusy(note)
        with self._one_at_a_time:
            if (order := self._read_intent()) is not None:
                found = self._carry_out(order, lambda step, done, total: None)
                logger.info("an interrupted purge is finished; traces in %d files", len(found))

    def _write_intent(self, order: PurgeOrder) -> None:
        try:
            self.intent.write(order.to_json())
        except OSError as error:
            raise StoreBusy("the purge cannot be written down", hint="Look at the disk, and try again.") from error

    def _read_intent(self) -> PurgeOrder | None:
        try:
            written = self.intent.read()
            return None if written is None else PurgeOrder.from_json(written, self._core.now())
        except (KeyError, TypeError, ValueError):  # it was not whole on the disk, so no step was begun
            logger.warning("a purge that had not begun is dropped")
            self.intent.remove()
            return None

    # ---- the steps

    def _carry_out(self, order: PurgeOrder, on_progress: Progress) -> Mapping[Path, int]:
        """Do all steps, each of which may have been done before; return the traces that are left, by file."""
        core, erasure = self._core, order.erasure
        steps: Sequence[tuple[str, Callable[[PurgeOrder], None]]] = (
            ("files", self._erase_files),
            ("history", self._erase_history),
            ("index", self._erase_index),
            ("pages", self._erase_pages),
            ("caches", self._erase_caches),
            ("compact", self._compact),
        )
        # Before the first file goes: the indexer must not keep the content of a file that vanishes now.
        self._deletions.is_purged = _removed_by(erasure)
        with ExitStack() as held:
            for number, (name, step) in enumerate(steps):
                if core.closing.is_set():
                    raise StoreBusy("the store is closing", hint="The next start goes on.")
                on_progress(name, number, len(steps))
                if name == "index":  # held until the proof
                    held.enter_context(core.opened.no_other_file(core.closing))
                step(order)
            found = self._search(erasure, on_progress)
            if any(path.name.startswith(core.paths.index.stem) for path in found):
                core.opened.rebuild()
                self._deletions.relearn()
                found = self._search(erasure, on_progress)
        summary = {**order.run.summary, "traces": sum(found.values())}
        self.on_erased(erasure.ids | erasure.sessions, erasure.secrets)
        # The outcome first, the intent last: a crash between them repeats a purge that finds nothing left.
        core.writer.write(records.record_run(replace(order.run, ended_at=core.now(), summary=summary))).result()
        self.intent.remove()
        self._deletions.is_purged = lambda path, image: False
        return found

    def _erase_files(self, order: PurgeOrder) -> None:
        """Rewrite or remove files until none holds purged content: others may write such files meanwhile."""
        touched: set[str] = set()
        for _ in range(ROUNDS):
            # Looked for again in each round: a client may have written the same words meanwhile.
            paths = [path for path in self._planner.affected(order.erasure) if self._has_some(path, order.erasure)]
            touched.update(paths)
            if not paths:
                break
            for start in range(0, len(paths), FILES_AT_ONCE):
                some = paths[start : start + FILES_AT_ONCE]
                self._core.writer.submit(partial(_scrub, paths=some, order=order)).result()
            self._settle()
        else:
            raise StoreBusy("files are being changed while they are purged", hint=GOES_ON)
        self._core.vault.remove_empty_folders(touched)
        # An older entry of the journal could hold the content, and would survive in the database's pages.
        self._wait_for_journal()

    def _has_some(self, path: str, erasure: Erasure) -> bool:
        data = self._core.vault.read_if_any(path)
        return data is not None and (erasure.scrubbed(path, data) != data or erasure.renamed(path) != path)

    def _erase_history(self, order: PurgeOrder) -> None:
        """Remove purged content from every row, and record the run; repeated while others write."""
        self._forget()
        turns = [records.lift_tombstone(f"{key}{turn}") for turn in order.erasure.turns for key in (TURN, UNTOLD)]
        withheld = self._deletions.withheld
        # The run first: it must be recorded even if the rest of this step is interrupted.
        self._erase_rows([records.record_run(order.run), *turns])
        for _ in range(ROUNDS):
            with self._work_gate:  # else an anchor that is being changed brings its old words back
                if not (rows := list(row_erasures(self._core.ledger.ask, order.erasure))):
                    break
                self._erase_rows(rows)
        self._core.tombstones.read()
        self._deletions.reload()
        for path in withheld:
            self._index_withheld(path)

    def _erase_rows(self, rows: Sequence[records.Write]) -> None:
        self._in_writer(lambda: self._core.ledger.erase(rows))

    def _index_withheld(self, path: str) -> None:
        """Index a vanished file as it is withheld now; one that is withheld no more is unlearned."""
        opened, image = self._core.opened, self._core.ledger.withheld_image(path)
        if image is None:
            opened.index.unlearn([path])
        elif not self._core.vault.exists(path) and (known := opened.catalog.file(path)) is not None:
            opened.index.apply_held(path, image, known.mtime_ns)

    def _erase_index(self, order: PurgeOrder) -> None:
        """Unlearn the files that are gone; those that changed were read again when they were written."""
        opened = self._core.opened
        paths = {node.path for node in opened.catalog.nodes(order.erasure.gone | order.erasure.sessions).values()}
        opened.index.unlearn(sorted(path for path in paths if not self._core.vault.exists(path)))
        opened.remove_set_aside()

    def _erase_pages(self, order: PurgeOrder) -> None:
        """Rewrite the derived pages that are ours; the next dream makes them whole."""
        wanted: dict[str, str | None] = {}
        for path in self._derived.ours():
            data = self._core.vault.read_if_any(path)
            clean = data if data is None else order.erasure.scrubbed(path, data)
            if data is not None and clean is not None and clean != data:
                wanted[path] = clean.decode("utf-8", "replace")
        if wanted:
            self._derived.write(wanted)
            self._settle()
            self._wait_for_journal()
        self._leftovers.remove(lambda data: order.erasure.words.mentions(data.decode("utf-8", "replace")))

    def _erase_caches(self, order: PurgeOrder) -> None:
        """Remove the vectors of texts that are gone, the memo and the folders of dreams, and set-aside ledgers."""
        paths = self._core.paths
        # Vectors are kept by the hash of their text; whatever hash the index no longer has is of a text that is gone.
        self._core.embeddings.prune(self._core.opened.index.text_hashes())
        paths.checkpoint.unlink(missing_ok=True)
        for folder in paths.runs.glob("*") if paths.runs.is_dir() else ():
            shutil.rmtree(folder, ignore_errors=True)
        for path in kept_copies(paths.ledger):
            path.unlink(missing_ok=True)

    def _compact(self, order: PurgeOrder) -> None:
        """Rewrite the databases, so that no page holds purged content, and truncate their write-ahead logs."""
        core = self._core
        _patiently(core.opened.index.compact)
        _patiently(core.embeddings.compact)
        _patiently(lambda: self._in_writer(core.ledger.compact))

    def _in_writer(self, step: Callable[[], None]) -> None:
        def plan(files: PendingFiles) -> Planned[None]:
            step()
            return Planned(None)

        self._core.writer.submit(plan).result()

    def _settle(self) -> None:
        if not self._core.settle(SETTLED_WITHIN_S):
            raise self._core.writer.trouble or StoreBusy("the vault is still being written", hint=GOES_ON)

    def _wait_for_journal(self) -> None:
        """Wait until the journal no longer holds any change that was acknowledged before."""
        ledger, writer = self._core.ledger, self._core.writer
        until, seq = time.monotonic() + JOURNAL_EMPTY_WITHIN_S, writer.acknowledged()
        while (first := ledger.first_pending()) is not None and first <= seq:
            if time.monotonic() > until or self._core.closing.is_set():
                raise StoreBusy("the journal still holds what is purged", hint=GOES_ON)
            writer.checkpoint_soon()
            time.sleep(LOOKED_EVERY_S)

    def _rest(self) -> None:
        """Leave the interpreter to requests, while any come in, for as long as it was worked since the last time.

        Raises StoreBusy when it is time to stop.
        """
        if self._core.closing.is_set():
            raise StoreBusy("the store is closing", hint="The next start goes on.")
        worked_s = time.monotonic() - self._rested_at
        if self._core.is_busy():
            time.sleep(min(worked_s, LONGEST_REST_S))
        self._rested_at = time.monotonic()

    # ---- the proof

    def _search(self, erasure: Erasure, on_progress: Progress) -> Mapping[Path, int]:
        """Search every byte of ours, and the rows with their images, for purged content."""
        files = list(self._own_files())
        pieces, read = pieces_in(files), count(1)

        def rest() -> None:
            on_progress("search", min(next(read), pieces), pieces)
            self._rest()

        proof = search(files, erasure.words.is_trace, rest)
        self._missed = proof.missed
        ledger = self._core.paths.ledger
        left_in_rows = any(row_erasures(self._core.ledger.ask, erasure))
        return {**proof.traces, ledger: proof.traces.get(ledger, 0) + 1} if left_in_rows else proof.traces

    def _own_files(self) -> Iterator[Path]:
        paths = self._core.paths
        seen: set[Path] = set()
        for folder in (self._core.vault.root, paths.ledger.parent, paths.index.parent):
            for path in regular_files(Path(os.path.realpath(folder))):
                if path not in seen:
                    seen.add(path)
                    yield path

    def _left_alone(self, erasure: Erasure) -> Iterator[str]:
        """Yield, in sentences, the files of the vault that are left as they are and hold purged content still.

        No memory is made of these (hidden files, other kinds of files), or they are too large to be rewritten. A memory
        that stays may hold a phrase that a person named in a place of the file that no rule erases.
        """
        yield from (f"{path} cannot be read to its end." for path in dict.fromkeys(self._missed))
        vault = self._core.vault
        for path in regular_files(vault.root):
            name = vault.relative(path) or ""
            is_rewritten = (is_kept(name) or is_derived(name)) and path.stat().st_size <= largest(name)
            is_sure = is_rewritten and not (erasure.words.phrases and is_kept(name) and not erasure.secrets)
            if not is_sure and holds_any(path, erasure.is_in, self._rest):
                yield f"{path} is left as it is, and holds some of it."

    def _out_of_reach(self, erasure: Erasure) -> Iterator[str]:
        """Yield, in sentences, the places that a purge does not reach."""
        root = self._core.vault.root
        if (under_git := next((each for each in (root, *root.parents) if (each / ".git").exists()), None)) is not None:
            yield f"{under_git} is under git, whose history keeps the old files."
        for path, data in self._derived.foreign():
            if erasure.scrubbed(path, data) != data:
                yield f"{path} is yours: it is left as it is, and holds some of it."
        if (server := self._core.opened.server()) is not None:
            then = "`dreamctl status` says when it is in step"
            yield f"The copy on {server.name} is written anew without it in the background, once it answers: {then}."
            yield f"What {server.name} logs and backs up itself is not reached."
        if self._core.opened.left_copy(self._core.paths.dsn):
            then = f"`dreamctl migrate --to {self._core.settings.backend} --drop` removes it, while no daemon runs"
            yield f"The copy of the index that a server has from before (store.dsn) is not reached: {then}."
        yield (
            "Backups and snapshots of the disk that others make, what agents keep themselves, and what was shared with "
            "colleagues (`dreamctl review --shared`) are not reached."
        )


def _scrub(files: PendingFiles, paths: Sequence[str], order: PurgeOrder) -> Planned[None]:
    """Plan the changes of some files. Runs in the writer's thread: nothing is written between reading and writing."""
    changes = []
    for path in paths:
        if not files.exists(path):
            continue
        before = files.read(path)
        after, target = order.erasure.scrubbed(path, before), order.erasure.renamed(path)
        change = partial(FileChange, run_id=order.run.run_id, ordinal=0)
        # A path with a secret in it cannot stay: the file is deleted and created under another name.
        if after is None or target != path:
            changes.append(change("delete", path, pre_sha256=sha256(before)))
            if after is not None and not files.exists(target):
                changes.append(change("create", target, after))
        elif after != before:
            changes.append(change("replace", path, after, pre_sha256=sha256(before)))
    return Planned(None, changes)


def _removed_by(erasure: Erasure) -> Callable[[str, bytes], bool]:
    return lambda path, image: erasure.scrubbed(path, image) is None


def _patiently(step: Callable[[], None]) -> None:
    """Try a step again while readers are in its way. Raises StoreBusy also where the disk has no room for it."""
    # VACUUM needs a moment without readers; each attempt waits for the busy timeout of the database.
    for _ in range(ROUNDS - 1):
        with contextlib.suppress(StoreBusy, apsw.BusyError, apsw.LockedError):
            step()
            return
    try:
        step()
    except apsw.Error as error:
        raise StoreBusy(f"a database cannot be written anew ({type(error).__name__})", hint=GOES_ON) from error


def _summary(preview: Purged) -> dict[str, Any]:
    counted = {"sessions": preview.sessions, "turns": preview.turns, "memories": preview.memories}
    parts = [f"{name}: {number}" for name, number in (counted | {"secrets": preview.secrets}).items() if number]
    note = f"purged for good; {', '.join(parts)}"
    return {"note": note, "purged": counted, "deleted": preview.files_removed, "replaced": preview.files_changed}
