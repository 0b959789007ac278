"""Purge: what a person names is erased from files, history, index and caches, and then searched for in every byte.

Each step may be done again. The intent is on the disk before the first of them and goes after the last, so that a
purge which the end of the process interrupts is finished by the next start; it holds ids and hashes, no content.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import stat
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from ..background.relevance_feedback import RelevanceFeedback
from ..changes.deletions import Deletions
from ..changes.erasure import Erasure
from ..changes.purge_plan import Planner, PurgePlan, Selection
from ..changes.runs import PURGE, new_run_id
from ..embedding.vector_cache import EmbeddingCache
from ..engine.database import may_pass, tried_again
from ..index.opening import OpenIndex
from ..ledger import records
from ..ledger.journal import FileChange, sha256
from ..ledger.ledger import START_WAITS_S, Ledger
from ..ledger.records import Run
from ..ledger.salvage import kept_copies
from ..model import Kind, Level, StoreBusy
from ..paths import StorePaths
from ..redaction import redact
from ..regular_files import opened
from ..results import Purged, PurgePreview
from ..vault import traces
from ..vault.intent import Intent
from ..vault.leftovers import Leftovers
from ..vault.vault import Vault, is_derived, is_kept, largest
from ..writer.derived import DerivedFiles
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .damage import refuse_without_history
from .tombstones import TURN, Tombstones
from .visibility import Visibility

logger = logging.getLogger(__name__)

SALT_BYTES: Final = 16
FILES_AT_ONCE: Final = 16
SETTLED_WITHIN_S: Final = 120.0
JOURNAL_EMPTY_WITHIN_S: Final = 60.0
LOOKED_EVERY_S: Final = 0.05
LONGEST_REST_S: Final = 0.05
ROUNDS: Final = 5
"""Looks at the same files or rows, while others write to them, before a purge is put off."""

AGAIN_S: Final = 5.0
"""The wait before a purge that could not be finished (a full disk, a vault that is away) is tried again."""

NO_CONTENT: Final = (".onnx", ".lock", "-shm")
"""The endings of files that hold nothing of a person's."""

NOT_OURS: Final = (".git", "models", "minilm-")
"""The beginnings of folders that hold nothing of ours, or a model."""

GOES_ON: Final = "It goes on by itself."

Progress = Callable[[str, int, int], None]


class Purge:
    """Plans, carries out and finishes purges, one at a time. Every method may be called from any thread."""

    def __init__(
        self,
        paths: StorePaths,
        vault: Vault,
        ledger: Ledger,
        writer: Writer,
        opened: OpenIndex,
        cache: EmbeddingCache,
        derived: DerivedFiles,
        deletions: Deletions,
        leftovers: Leftovers,
        relevance: RelevanceFeedback,
        tombstones: Tombstones,
        visibility: Visibility,
        intent: Intent,
        is_busy: Callable[[], bool],
        now: Callable[[], datetime],
        closing: threading.Event,
        work_gate: threading.Lock,
        forget_working: Callable[[], None],
    ) -> None:
        self._forget_working = forget_working
        self._work_gate = work_gate
        self._paths = paths
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._opened = opened
        self._cache = cache
        self._derived = derived
        self._deletions = deletions
        self._leftovers = leftovers
        self._relevance = relevance
        self._tombstones = tombstones
        self._visibility = visibility
        self._intent = intent
        self._is_busy = is_busy
        self._now = now
        self._closing = closing
        self._planner = Planner(
            opened.catalog,
            vault.read_if_any,
            ledger.images,
            vault.contents,
            lambda: ((path, data) for path in self._beside_index() if (data := vault.read_if_any(path)) is not None),
            ledger.names_of_document,
            ledger.work,
            self._rest,
        )
        self._rested_at = 0.0
        self._looked = traces.Search(lambda word: False, self._rest)
        self._one_at_a_time = threading.Lock()
        self._finishing: threading.Thread | None = None

    # ---- asked by a person

    def preview(self, selection: Selection) -> PurgePreview:
        """Return what a purge would remove; nothing is changed."""
        return self._shown(self._plan(selection))

    def purge(self, selection: Selection, on_progress: Progress = lambda step, done, total: None) -> Purged:
        """Erase what is selected, for good. No dream may be running.

        Raises NotFound and InvalidInput for the selection, StoreBusy while another purge is under way, or when this
        one cannot be finished now: then it goes on by itself.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            raise StoreBusy("a purge is under way", hint="Try again when it is done.")
        try:
            plan = self._plan(selection)
            preview = self._shown(plan)
            if plan.is_empty and not (preview.files_removed or preview.files_changed):
                return Purged(None, preview, (), tuple(self._still_saying(plan.erasure)))
            run = Run(new_run_id(self._now(), PURGE), PURGE, "applied", self._now(), summary=_summary(preview))
            try:
                self._write_intent(run, plan.erasure)
                found = self._carry_out(run, plan.erasure, on_progress)
            except BaseException:
                self.start()
                raise
            traced = tuple(f"{trace.path} ({trace.times})" for trace in found)
            beyond = [*self._still_saying(plan.erasure), *self._out_of_reach(plan.erasure)]
            return Purged(run.run_id, preview, traced, tuple(dict.fromkeys(beyond)))
        finally:
            self._one_at_a_time.release()

    # ---- a purge that was interrupted

    @property
    def is_under_way(self) -> bool:
        """Return True while a purge is being carried out, or waits to be finished."""
        return self._intent.is_there

    def expect(self) -> None:
        """Tell the rest, before anything is compared, that an interrupted purge removed files on purpose.

        A disk that cannot be read is waited for, as long as the ledger's. Raises OSError then.
        """
        if (found := tried_again(self._read_intent, may_pass, START_WAITS_S)) is not None:
            self._deletions.is_purged = _going(found[1])

    def start(self) -> None:
        """Finish what was interrupted, if anything, in a thread of its own."""
        if self._intent.is_there and not self._closing.is_set():
            self._finishing = threading.Thread(target=self._keep_trying, name="dreamd-purge", daemon=True)
            self._finishing.start()

    def stop(self) -> None:
        """End it: the next start goes on. `closing` is set by then."""
        if (finishing := self._finishing) is not None:
            finishing.join()
        with self._one_at_a_time:  # one that a person asked for ends at its next step
            pass

    def _keep_trying(self) -> None:
        while self._intent.is_there and not self._closing.is_set():
            try:
                self._finish()
            except Exception as error:  # a job's boundary: the purge stays written down, and is tried again
                frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
                place = f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
                logger.warning("a purge waits to be finished (%s)", place)
                self._closing.wait(AGAIN_S)

    def _finish(self) -> None:
        """Carry out what is left. Raises StoreError or OSError where that cannot be done now."""
        self._settle()
        if note := self._opened.note:
            raise StoreBusy(note)
        with self._one_at_a_time:
            if (found := self._read_intent()) is not None:
                traced = self._carry_out(*found, lambda step, done, total: None)
                logger.info("an interrupted purge is finished; traces in %d files", len(traced))

    def _write_intent(self, run: Run, erasure: Erasure) -> None:
        try:
            self._intent.write({"run_id": run.run_id, "erasure": erasure.to_json(), "summary": dict(run.summary)})
        except OSError as error:
            raise StoreBusy("the purge cannot be written down", hint="Look at the disk, and try again.") from error

    def _read_intent(self) -> tuple[Run, Erasure] | None:
        try:
            written = self._intent.read()
            if written is None:
                return None
            run = Run(str(written["run_id"]), PURGE, "applied", self._now(), summary=written["summary"])
            return run, Erasure.from_json(written["erasure"])
        except (KeyError, TypeError, ValueError):  # it was not whole on the disk, so that no step was done yet
            logger.warning("a purge that had not begun is dropped")
            self._intent.remove()
            return None

    # ---- the plan

    def _plan(self, selection: Selection) -> PurgePlan:
        self._vault.raise_if_away()
        refuse_without_history(self._paths.ledger)
        if self._ledger.is_copy:
            raise StoreBusy("the disk cannot be written", hint="Make room; dreamd goes on by itself.")
        self._visibility.settle(SETTLED_WITHIN_S)
        if note := self._opened.note:
            raise StoreBusy(note, hint="Try again in a moment.")
        plan = self._planner.plan(selection, secrets.token_bytes(SALT_BYTES))
        if selection.secrets and not plan.secrets:  # in what was asked, perhaps
            return replace(plan, secrets=len(self._ledger.erasures(plan.erasure)))
        return plan

    def _shown(self, plan: PurgePlan) -> PurgePreview:
        paths = self._affected(plan.erasure)
        files = {path: data for path in paths if (data := self._vault.read_if_any(path)) is not None}
        kept = {path: plan.erasure.scrubbed(path, data) for path, data in files.items()}
        return PurgePreview(
            sessions=len(plan.erasure.sessions),
            turns=len(plan.erasure.turns),
            memories=len(plan.erasure.gone) + plan.work,
            secrets=plan.secrets,
            files_removed=sum(after is None for after in kept.values()),
            files_changed=sum(after is not None and after != files[path] for path, after in kept.items()),
            titles=plan.titles,
            repeated_in=plan.repeated_in,
            copies=tuple(path.name for path in kept_copies(self._paths.ledger) if path.suffix == ".db"),
        )

    def _affected(self, erasure: Erasure) -> list[str]:
        """Return the files that may hold something of it; with secrets, every file."""
        catalog = self._opened.catalog
        if erasure.secrets:
            return sorted(stamp.path for stamp in self._vault.walk())
        named = erasure.ids | erasure.sessions
        nodes = catalog.nodes(named | catalog.pointing_at(erasure.ids))
        paths = {node.path for node in nodes.values()}.union(self._beside_index())
        for node in catalog.listing():
            is_page = node.level in {Level.SCENARIO, Level.PROFILE}
            if (is_page and erasure.words.tells(f"{node.title}\n{node.text}")) or (
                node.kind is Kind.SESSION and erasure.words.holds_whole(node.title)
            ):
                paths.add(node.path)
        return sorted(paths)

    def _beside_index(self) -> list[str]:
        """Return the files that the index does not hold, or not wholly: of a doubled id, or beyond its bound."""
        catalog = self._opened.catalog
        known = catalog.files().keys() - {path for path, _ in catalog.problems()} - set(catalog.cut_files())
        return [stamp.path for stamp in self._vault.walk() if stamp.path not in known]

    # ---- the steps

    def _carry_out(self, run: Run, erasure: Erasure, on_progress: Progress) -> list[traces.Trace]:
        """Do all steps, each of which may have been done before; return where traces are left."""
        steps: Sequence[tuple[str, Callable[[], None]]] = (
            ("files", lambda: self._erase_from_files(run, erasure)),
            ("history", lambda: self._erase_from_ledger(run, erasure)),
            ("index", lambda: self._erase_from_index(erasure)),
            ("pages", lambda: self._erase_from_pages(erasure)),
            ("caches", self._erase_caches),
            ("compact", self._compact),
        )
        self._deletions.is_purged = _going(erasure)
        with ExitStack() as held:
            for number, (name, step) in enumerate(steps):
                if self._closing.is_set():
                    raise StoreBusy("the store is closing", hint="The next start goes on.")
                on_progress(name, number, len(steps) + 1)
                if name == "index":  # one that is being made anew may have read the files before
                    held.enter_context(self._opened.no_other_file(self._closing))
                step()
            on_progress("search", len(steps), len(steps) + 1)
            found = self._search(erasure)
            if any(self._is_of_index(trace.path) for trace in found):
                self._opened.rebuild()
                self._deletions.relearn()
                found = self._search(erasure)
        left = {"traces": sum(trace.times for trace in found)}
        self._writer.write(records.record_run(_ended(run, self._now(), left))).result()
        self._intent.remove()
        self._deletions.is_purged = lambda path, image: False
        return found

    def _erase_from_files(self, run: Run, erasure: Erasure) -> None:
        """Rewrite or remove the files, as changes that go through the journal, until none holds anything of it."""
        touched: set[str] = set()
        for _ in range(ROUNDS):
            paths = [path for path in self._affected(erasure) if self._holds_some(path, erasure)]
            touched.update(paths)
            if not paths:
                break
            for start in range(0, len(paths), FILES_AT_ONCE):
                some = paths[start : start + FILES_AT_ONCE]
                self._writer.submit(partial(_scrub, paths=some, erasure=erasure, run_id=run.run_id)).result()
            self._settle()
        else:
            raise StoreBusy("files are being changed while they are purged", hint=GOES_ON)
        self._vault.remove_empty_folders(touched)
        self._wait_for_journal()

    def _holds_some(self, path: str, erasure: Erasure) -> bool:
        data = self._vault.read_if_any(path)
        return data is not None and (erasure.scrubbed(path, data) != data or erasure.renamed(path) != path)

    def _settle(self) -> None:
        if not self._visibility.settle(SETTLED_WITHIN_S):
            raise self._writer.trouble or StoreBusy("the vault is still being written", hint=GOES_ON)

    def _wait_for_journal(self) -> None:
        """Wait until the journal has let go of every change that was acknowledged before."""
        until, seq = time.monotonic() + JOURNAL_EMPTY_WITHIN_S, self._writer.acknowledged()
        while (first := self._ledger.first_pending()) is not None and first <= seq:
            if time.monotonic() > until or self._closing.is_set():
                raise StoreBusy("the journal still holds what is purged", hint=GOES_ON)
            self._writer.checkpoint_soon()
            time.sleep(LOOKED_EVERY_S)

    def _erase_from_ledger(self, run: Run, erasure: Erasure) -> None:
        """Remove it from every row, and record that something was purged; repeated while others write."""
        self._forget_working()
        self._relevance.forget()
        self._relevance.settle(SETTLED_WITHIN_S)
        turns = [records.lift_tombstone(f"{TURN}{turn}") for turn in erasure.turns]
        withheld = self._deletions.withheld
        self._erase_rows([records.record_run(run), *turns])
        for _ in range(ROUNDS):
            with self._work_gate:  # else an anchor that is being changed brings its old words back
                if not (rows := self._ledger.erasures(erasure)):
                    break
                self._erase_rows(rows)
        self._tombstones.read()
        self._deletions.reload()
        for path in withheld:
            self._hold_again(path)

    def _erase_rows(self, rows: Sequence[records.Write]) -> None:
        def erase(files: PendingFiles) -> Planned[None]:
            self._ledger.erase(rows)
            return Planned(None)

        self._writer.submit(erase).result()

    def _hold_again(self, path: str) -> None:
        """Index a vanished file as it is withheld now; one that is withheld no more is unlearned."""
        image = self._ledger.withheld_image(path)
        if image is None:
            self._opened.index.unlearn([path])
        elif not self._vault.exists(path) and (known := self._opened.catalog.file(path)) is not None:
            self._opened.index.apply_held(path, image, known.mtime_ns)

    def _erase_from_index(self, erasure: Erasure) -> None:
        """Unlearn what is gone; what changed was read again when it was written."""
        index = self._opened.index
        paths = {node.path for node in self._opened.catalog.nodes(erasure.gone | erasure.sessions).values()}
        index.unlearn(sorted(path for path in paths if not self._vault.exists(path)))
        self._opened.remove_set_aside()

    def _erase_from_pages(self, erasure: Erasure) -> None:
        """Rewrite the derived pages that are ours; the next dream makes them whole."""
        wanted: dict[str, str | None] = {}
        for path in self._derived.ours():
            data = self._vault.read_if_any(path)
            clean = data if data is None else erasure.scrubbed(path, data)
            if data is not None and clean is not None and clean != data:
                wanted[path] = clean.decode("utf-8", "replace")
        if wanted:
            self._derived.write(wanted)
            self._settle()
            self._wait_for_journal()
        self._leftovers.remove(lambda data: erasure.words.tells(data.decode("utf-8", "replace")))

    def _erase_caches(self) -> None:
        """Drop the vectors of texts that are gone, what dreams keep for the next, and set-aside ledgers."""
        self._cache.prune(self._opened.index.text_hashes())
        self._paths.checkpoint.unlink(missing_ok=True)
        for folder in self._paths.runs.glob("*") if self._paths.runs.is_dir() else ():
            shutil.rmtree(folder, ignore_errors=True)
        for path in kept_copies(self._paths.ledger):
            path.unlink(missing_ok=True)

    def _compact(self) -> None:
        """Write the databases anew, so that no page holds what is gone, and cut their write-ahead logs."""
        _patiently(self._opened.index.compact)
        _patiently(self._cache.compact)
        _patiently(self._compact_ledger)

    def _compact_ledger(self) -> None:
        def compact(files: PendingFiles) -> Planned[None]:
            self._ledger.compact()
            return Planned(None)

        self._writer.submit(compact).result()

    # ---- the proof

    def _search(self, erasure: Erasure) -> list[traces.Trace]:
        """Look for what was purged in every byte of ours, and in the images as they are kept."""
        self._looked = traces.Search(erasure.words.is_trace, self._rest)
        found = self._looked.through(self._own_files())
        if self._ledger.erasures(erasure):
            found.append(traces.Trace(self._paths.ledger, 1))
        return found

    def _own_files(self) -> Iterator[Path]:
        seen: set[Path] = set()
        for folder in (self._vault.root, self._paths.ledger.parent, self._paths.index.parent):
            for path in _regular_files(Path(os.path.realpath(folder))):
                if path not in seen:
                    seen.add(path)
                    yield path

    def _still_saying(self, erasure: Erasure) -> Iterator[str]:
        """Yield, in sentences, the files of the vault that are left as they are and hold some of it still.

        Those are what no memory is made of (hidden files, other kinds of files), and what is too large to be rewritten.
        """
        yield from (f"{path} cannot be read to its end." for path in dict.fromkeys(self._looked.missed))
        for path in _regular_files(self._vault.root):
            name = self._vault.relative(path) or ""
            is_rewritten = (is_kept(name) or is_derived(name)) and path.stat().st_size <= largest(name)
            is_sure = is_rewritten and not (erasure.words.phrases and is_kept(name) and not erasure.secrets)
            if not is_sure and self._says(path, erasure):
                yield f"{path} is left as it is, and holds some of it."

    def _says(self, path: Path, erasure: Erasure) -> bool:
        try:
            with opened(path) as file:
                for piece in traces.pieces_of(file):
                    self._rest()
                    text = piece.decode("utf-8", "replace")
                    if redact(text).found if erasure.secrets else erasure.words.tells(text):
                        return True
        except OSError:
            pass
        return False

    def _rest(self) -> None:
        """Leave the interpreter to requests, while any come in, for as long as it was worked since the last time.

        Raises StoreBusy when it is time to stop.
        """
        if self._closing.is_set():
            raise StoreBusy("the store is closing", hint="The next start goes on.")
        worked_s = time.monotonic() - self._rested_at
        if self._is_busy():
            time.sleep(min(worked_s, LONGEST_REST_S))
        self._rested_at = time.monotonic()

    def _is_of_index(self, path: Path) -> bool:
        return path.name.startswith(self._paths.index.stem)

    def _out_of_reach(self, erasure: Erasure) -> Iterator[str]:
        """Yield, in sentences, where it may still be."""
        for folder in (self._vault.root, *self._vault.root.parents):
            if (folder / ".git").exists():
                yield f"{folder} is under git, whose history keeps the old files."
                break
        for path, data in self._derived.foreign():
            if erasure.scrubbed(path, data) != data:
                yield f"{path} is yours: it is left as it is, and holds some of it."
        yield "Backups and snapshots of the disk that others make, and what agents keep themselves, are not reached."


def _scrub(files: PendingFiles, paths: Sequence[str], erasure: Erasure, run_id: str) -> Planned[None]:
    """Plan the changes of some files. Runs in the writer's thread: nothing is written between reading and writing."""
    changes = []
    for path in paths:
        if not files.exists(path):
            continue
        before = files.read(path)
        after, target = erasure.scrubbed(path, before), erasure.renamed(path)
        if after is None or target != path:
            changes.append(FileChange("delete", path, b"", 0, sha256(before), run_id, 0))
            if after is not None and not files.exists(target):
                changes.append(FileChange("create", target, after, 0, None, run_id, 0))
        elif after != before:
            changes.append(FileChange("replace", path, after, 0, sha256(before), run_id, 0))
    return Planned(None, changes)


def _regular_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder that may hold something, in order; links are not followed."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(NOT_OURS))
        for name in sorted(names):
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                if not name.endswith(NO_CONTENT) and stat.S_ISREG(path.lstat().st_mode):
                    yield path


def _going(erasure: Erasure) -> Callable[[str, bytes], bool]:
    return lambda path, image: erasure.scrubbed(path, image) is None


def _patiently(step: Callable[[], None]) -> None:
    """Try a step again while readers are in its way. Raises StoreBusy where the disk has no room for it, either."""
    for _ in range(ROUNDS - 1):
        with contextlib.suppress(StoreBusy, apsw.BusyError, apsw.LockedError):
            step()
            return
    try:
        step()
    except apsw.Error as error:
        raise StoreBusy(f"a database cannot be written anew ({type(error).__name__})", hint=GOES_ON) from error


def _summary(preview: PurgePreview) -> dict[str, Any]:
    counted = {"sessions": preview.sessions, "turns": preview.turns, "memories": preview.memories}
    parts = [f"{name}: {number}" for name, number in (counted | {"secrets": preview.secrets}).items() if number]
    note = f"purged for good; {', '.join(parts)}"
    return {"note": note, "purged": counted, "deleted": preview.files_removed, "replaced": preview.files_changed}


def _ended(run: Run, now: datetime, left: Mapping[str, Any]) -> Run:
    return Run(run.run_id, run.kind, run.state, run.started_at, now, summary={**run.summary, **left})
