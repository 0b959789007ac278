"""The landing of a dream: its changeset read and applied, recall checked again, and the derived pages written."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from loguru import logger

from ...pipelines.messages import Done, MessageError, RunRequest, read_changeset
from ...store import LINK, AppliedRun, Run, is_digest
from ...store.model import ActionKind, Changeset, NotFound, StoreError
from .child import DreamError

if TYPE_CHECKING:
    from ...store import MemoryStore

LOG_RUNS = 1000


class Landing:
    """Applies the plans of dreams. All methods block."""

    def __init__(self, store: MemoryStore, pages: DerivedPages, changeset_mib: int) -> None:
        self._store = store
        self._pages = pages
        self._changeset_mib = changeset_mib

    def read(self, done: Done, request: RunRequest) -> Changeset:
        """Read the changeset that the child wrote. Raises DreamError if it is incomplete, or another run's."""
        if done.changeset_path is None:
            return Changeset(run_id=request.run_id)
        path = done.changeset_path
        # The child's message is not trusted: it may not name a file elsewhere.
        if not path.resolve().is_relative_to(request.folder.resolve()):
            raise DreamError("its changeset is not in its own folder")
        limit = self._changeset_mib * 2**20
        try:
            if path.stat().st_size > limit:
                raise DreamError(f"its changeset is larger than {limit} bytes", "Raise pipelines.limits.changeset_mib.")
            changeset = read_changeset(path)
        except (OSError, MessageError) as error:
            raise DreamError(f"its changeset cannot be read: {error}") from error
        if changeset.run_id != request.run_id:
            raise DreamError("its changeset belongs to another run")
        return changeset

    def land(self, request: RunRequest, done: Done, changeset: Changeset, spent: Mapping[str, Any]) -> AppliedRun:
        """Apply a plan, check that recall is not worse for it, then write the derived pages.

        `spent` is the part of the run's summary about its time and its model.
        """
        from ...pipelines.gate.gate import Recheck

        for path in done.derived:
            if not is_digest(path):
                raise DreamError(f"it wanted to write {path} as if it were a digest")
        kinds = Counter(action.kind for action in changeset.actions)
        summary = {
            **done.report,
            **spent,
            "actions": changeset.changes_by_stage,
            "created": kinds[ActionKind.CREATE],
            "replaced": kinds[ActionKind.REPLACE],
            "deleted": kinds[ActionKind.DELETE],
        }
        if note := note_on_edited(done):
            summary["note"] = note
        # The scores from before the changes are taken now, and compared after them.
        recheck = Recheck(self._store, done.checks if changeset.changes_something else (), lambda: self._store.is_busy)
        applied = self._apply(request, changeset, summary)
        reasons: Sequence[str] = ()
        with _failure_logged(request, "looking at recall again"):
            self._store.embed({action.node_id for action in changeset.actions})  # otherwise found by words alone
            reasons = recheck.reasons()
        pages = _pages_with_left_out(applied, done)
        if reasons:
            with _failure_logged(request, "taking it back"):
                pages = self._take_back(request, done, "; ".join(reasons))
                applied = replace(applied, undone=True)
        # A dream without changes writes no digest.
        if applied.applied or pages:
            with _failure_logged(request, "writing its digest"):
                self._pages.write(pages)
        with _failure_logged(request, "tidying up"):
            if request.checkpoint is not None:
                request.checkpoint.unlink(missing_ok=True)
            self._store.tidy()
        return applied

    def _apply(self, request: RunRequest, changeset: Changeset, summary: dict[str, Any]) -> AppliedRun:
        """Apply a changeset. Once it is in the journal it will be applied: a later error is not the dream's failure."""
        try:
            return self._store.apply(changeset, kind=request.kind, started_at=request.now, summary=summary)
        except Exception as error:
            run = self._recorded(request.run_id)
            if run is None:
                raise
            logger.opt(exception=True).error(
                "dream {} is journaled, and applying it met {}", request.run_id, type(error).__name__
            )
            return AppliedRun(run.run_id, len(changeset.actions) if run.state == "applied" else 0)

    def _take_back(self, request: RunRequest, done: Done, reason: str) -> dict[str, str]:
        """Undo a dream that made recall worse, note it in its run, and return the digest that remains."""
        from ...pipelines.report.html import disowned

        note = f"it made recall worse once it was applied: {reason}"
        logger.warning("dream {}: {}", request.run_id, note)
        self._store.undo(request.run_id)
        run = self._store.run(request.run_id)
        self._store.record_run(replace(run, summary={**run.summary, "note": note}))
        remark = f"{note}. Nothing of it is proposed again."
        return {path: disowned(text, request.run_id, remark) for path, text in done.derived.items()}

    def record_ended(self, run: Run) -> None:
        """Record a run without changes. One in the journal is recorded already, and applied now or at a start."""
        if self._recorded(run.run_id) is None:
            self._store.record_run(run)

    def _recorded(self, run_id: str) -> Run | None:
        with contextlib.suppress(NotFound):
            return self._store.run(run_id)
        return None


@contextlib.contextmanager
def _failure_logged(request: RunRequest, step: str) -> Iterator[None]:
    """Log an error inside, and continue: the dream is applied by now, and did not fail."""
    try:
        yield
    except Exception as error:
        log = logger if isinstance(error, StoreError | OSError) else logger.opt(exception=True)
        _, reason = state_and_reason(error)
        log.warning("dream {} is applied, and {} failed: {}", request.run_id, step, reason)


def note_on_edited(done: Done) -> str:
    """Return a note on the pages that were left as the person had edited them; "" without any."""
    kept = int(done.report.get("held", 0))
    pages = "page that you edited was" if kept == 1 else "pages that you edited were"
    return f"{kept:,} {pages} left alone; `dreamctl digest` names {'it' if kept == 1 else 'them'}" if kept else ""


def _pages_with_left_out(applied: AppliedRun, done: Done) -> dict[str, str]:
    """Return the pages derived from a dream, with the actions that were left out named in its digest."""
    from ...pipelines.report.html import with_left_out

    if not applied.skipped:
        return done.derived
    left_out = [(refused.path, refused.reason) for refused in applied.skipped]
    return {path: with_left_out(text, applied.run_id, left_out) for path, text in done.derived.items()}


def state_and_reason(error: BaseException) -> tuple[str, str]:
    """Return the state of a run that an error ended, and the reason in words."""
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "it was cancelled"
    if isinstance(error, OSError):
        return "failed", f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    if isinstance(error, DreamError | StoreError):
        return "failed", str(error).rstrip(".")
    return (
        "failed",
        f"dreamd met {type(error).__name__}, and the log has the place",
    )  # its message may hold a person's text


class DerivedPages:
    """Writes the pages derived from the memory: digests, catalogue and log. All methods block."""

    def __init__(self, store: MemoryStore, local_now: Callable[[], datetime]) -> None:
        self._store = store
        self._local_now = local_now

    def write(self, digests: Mapping[str, str]) -> None:
        """Write digests, and refresh the catalogue."""
        if left := self._store.write_derived(digests):
            logger.info("{} is a person's own; the digest is not written there", left[0])
        self.refresh()

    def refresh(self) -> None:
        """Make the catalogue and the log true; a vault whose `index.md` is its person's gets no catalogue of ours."""
        from ...pipelines.report import catalogue

        store = self._store
        contents = store.pages.contents()
        ours = store.pages.written()
        zone = self._local_now().tzinfo
        assert zone is not None
        wanted: dict[str, str | None] = dict(
            catalogue.pages(
                contents,
                [path for path in ours if is_digest(path)],
                store.runs(LOG_RUNS, hidden=[LINK]),
                zone,
                store.pages.description,
            )
        )
        if not store.pages.may_write("index.md"):
            wanted = {"log.md": wanted["log.md"]}
        # Pages of an earlier version, or of channels that are gone.
        gone = [path for path in ours if path not in wanted and not is_digest(path)]
        store.write_derived(wanted | dict.fromkeys(gone))

    def undone(self, run_id: str, kept: int) -> None:
        """Mark a run as undone in its digest, except for `kept` changes, and refresh the catalogue."""
        from ...pipelines.report.html import disowned, noted

        if not self._store.pages.written():
            return  # no dream has been applied yet
        pages: dict[str, str] = {}
        for path in self._digests_of(run_id):
            text = self._store.pages.text(path)
            if kept:
                pages[path] = noted(text, run_id, "Partly undone:", f"{kept} of its changes stayed.")
            else:
                pages[path] = disowned(text, run_id, "what it changed is as it was before.")
        self.write(pages)

    def redone(self, run_id: str, left: int) -> None:
        """Mark a run as done again in its digest, except for `left` changes, and refresh the catalogue."""
        from ...pipelines.report.html import noted

        if not self._store.pages.written():
            return
        rest = f", but for {left} of its changes" if left else ""
        said = f"what was undone holds again{rest}."
        texts = {path: self._store.pages.text(path) for path in self._digests_of(run_id)}
        self.write({path: noted(text, run_id, "Done again:", said) for path, text in texts.items()})

    def _digests_of(self, run_id: str) -> list[str]:
        """Return the digests of the day with which a dream's id begins."""
        day = f"digests/{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"
        return [path for path in self._store.pages.written() if path in (f"{day}.md", f"{day}.html")]
