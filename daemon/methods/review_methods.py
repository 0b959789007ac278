"""The methods by which a person keeps the memory in order: decay, restore, review."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.channels import node_of
from ...ipc.params import Folder, Offset, UserParams
from ...ipc.protocol import Refused
from ...store import LANDED, Decision, Waiting
from ...store.channel import may_read
from ...store.model import Kind, NotFound
from ...store.names import Name
from ...store.results import Decided, FileProposal, Restored
from ..agents.skills import SkillDraft, Skills
from ..clock import utc_now
from ..settings import Settings

if TYPE_CHECKING:
    from ...store import MemoryStore

MOST_FADING = 500
MOST_DECISIONS, MOST_MARKS = 50, 50
LONGEST_TEXT, LONGEST_MARKED = 4000, 1000
LINTING = ("daily", "weekly")
"""The runs that look for secrets."""

RUNS_LOOKED_AT = 20


class DecayParams(UserParams):
    """The days to look ahead."""

    days: Annotated[int, Field(strict=True, ge=1, le=3650)] = 30


class RestoreParams(UserParams):
    """The archived memory to bring back."""

    node_id: Name


class ReviewParams(UserParams):
    """The marks to pass over."""

    offset: Offset = 0


class DecideParams(UserParams):
    """A person's decision about two memories; `edit` comes with the `text` that holds instead.

    `accept` and `reject` are about a memory or the change of a file that waits, whose id is the `decision`, or a skill,
    which is written below the folder `to`.
    """

    decision: Name
    keep: Literal["newer", "older", "both", "edit", "accept", "reject"]
    text: Annotated[str, Field(max_length=2**16)] = ""
    to: Folder | None = None
    by: Annotated[str, Field(pattern=r"^[\w.@-]{1,64}$")] | None = None


@dataclass(frozen=True, slots=True)
class FadingAnswer:
    """A memory that would be archived."""

    node_id: str
    kind: Kind
    title: str
    channel: str
    confidence: float
    fades_at: datetime | None


@dataclass(frozen=True, slots=True)
class DecayAnswer:
    """The memories that would be archived within `days`."""

    days: int
    most_a_night: int
    total: int
    fading: Sequence[FadingAnswer]


@dataclass(frozen=True, slots=True)
class LeakAnswer:
    """A file with text that looks like a secret."""

    node_id: str
    path: str
    kinds: str


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """The decisions that wait, the marks that may be taken back, what agents wrote, and the drafts of skills.

    `files` are the changes that are proposed of files which programs read by themselves.
    """

    decisions: Sequence[Decision]
    total: int
    marks: Sequence[Decision]
    marks_total: int
    waiting: Sequence[Waiting]
    drafts: Sequence[SkillDraft]
    leaks: Sequence[LeakAnswer]
    files: Sequence[FileProposal]


class ReviewMethods:
    """The methods; all of them block, so they run in the server's threads."""

    def __init__(self, store: MemoryStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._skills = Skills(store)

    def decay_preview(self, params: DecayParams, call: Call) -> DecayAnswer:
        """Return the memories that would be archived within `days`; nothing is changed."""
        # Imported here: the pipelines cost a start of the daemon more than this method is worth.
        from ...pipelines.stages import decay

        now = utc_now()

        def on_progress(done: int) -> None:
            call.raise_if_cancelled()
            call.progress("decay", done)

        found = decay.preview(self._store.decay_inputs(), self._settings.pipelines.decay, now, params.days, on_progress)
        fading = [one for one in found.fading if _is_seen(params.user_id, one[1].memory.channel)]
        return DecayAnswer(
            days=params.days,
            most_a_night=found.most_per_run,
            total=len(fading),
            fading=[
                FadingAnswer(
                    node_id=confidence.memory.node_id,
                    kind=confidence.memory.kind,
                    title=confidence.memory.title[:200],
                    channel=confidence.memory.channel,
                    confidence=round(confidence.at(now), 3),
                    fades_at=at,
                )
                for at, confidence in fading[:MOST_FADING]
            ],
        )

    def restore(self, params: RestoreParams, call: Call) -> Restored:
        """Bring an archived memory back."""
        return self._store.restore(node_of(self._store, params.user_id, params.node_id))

    def review_list(self, params: ReviewParams, call: Call) -> ReviewAnswer:
        """Return the decisions and claims that wait, a page of the marks, and the files with secrets."""
        # All of them are read, since the answer has their number; only the first are sent.
        user = params.user_id
        waiting = [one for one in self._store.decisions() if _is_seen_whole(user, one)]
        marked, marks_total = self._marks(user, params.offset)
        claims = [one for one in self._store.waiting() if _is_seen(user, one.channel)][:MOST_DECISIONS]
        drafts = [one for one in self._skills.drafts() if _is_seen(user, one.channel)][:MOST_DECISIONS]
        files = [one for one in self._store.file_proposals() if _is_seen(user, one.channel)][:MOST_DECISIONS]
        return ReviewAnswer(
            decisions=[_cut(decision, LONGEST_TEXT) for decision in waiting[:MOST_DECISIONS]],
            total=len(waiting),
            marks=[_cut(mark, LONGEST_MARKED) for mark in marked],
            marks_total=marks_total,
            waiting=[replace(claim, text=claim.text[:LONGEST_TEXT]) for claim in claims],
            drafts=[replace(draft, text=draft.text[:LONGEST_TEXT]) for draft in drafts],
            leaks=self._leaks() if user is None else (),
            files=files,
        )

    def _marks(self, user: str | None, offset: int) -> tuple[Sequence[Decision], int]:
        """Return a page of the marks, and the number of all that a user sees."""
        if user is None:
            page = self._store.marks(offset, MOST_MARKS)
            return page.marks, page.total
        seen = [one for one in self._store.marks().marks if _is_seen_whole(user, one)]
        return seen[offset:][:MOST_MARKS], len(seen)

    def _refuse_another_users(self, user: str, name: str) -> None:
        """Raise NotFound for a decision about memories that a user does not see."""
        pairs = [one for one in (*self._store.decisions(), *self._store.marks().marks) if _is_seen_whole(user, one)]
        seen = {part for one in pairs for part in (one.decision_id, one.older.node_id, one.newer.node_id)}
        seen |= {one.node_id for one in self._store.waiting() if _is_seen(user, one.channel)}
        seen |= {one.node_id for one in self._skills.drafts() if _is_seen(user, one.channel)}
        seen |= {one.proposal_id for one in self._store.file_proposals() if _is_seen(user, one.channel)}
        if name not in seen:
            raise NotFound(f"no decision {name} waits", hint="`dreamctl review --list` shows those that do.")

    def review_decide(self, params: DecideParams, call: Call) -> Decided:
        """Carry out a person's decision."""
        if (params.keep == "edit") != bool(params.text.strip()):
            raise Refused(
                "`text` is required with keep=edit and not allowed otherwise.", "`dreamctl review ID --edit TEXT`."
            )
        if params.user_id is not None:
            self._refuse_another_users(params.user_id, params.decision)
        if params.keep in ("accept", "reject") and self._skills.is_draft(params.decision):
            return (
                self._skills.accept(params.decision, Path(params.to) if params.to else None)
                if params.keep == "accept"
                else self._skills.reject(params.decision)
            )
        if params.keep == "accept":
            return self._store.accept(params.decision, params.by or _login())
        if params.keep == "reject":
            return self._store.reject(params.decision)
        return self._store.decide(params.decision, params.keep, params.by or _login(), params.text)

    def _leaks(self) -> list[LeakAnswer]:
        """Return the files that the latest dream named and that still have text that looks like a secret."""
        # By state and kind, so that a day of other runs does not push the last dream out of the few that are read.
        runs = self._store.runs(RUNS_LOOKED_AT, kinds=LINTING, states=LANDED)
        named = next((run.summary["leaks"] for run in runs if "leaks" in run.summary), ())
        leaks = self._store.leaks(named)
        return [LeakAnswer(leak.node_id, leak.path, ", ".join(leak.places)) for leak in leaks]


def _is_seen(user: str | None, channel: str) -> bool:
    return user is None or may_read(user, channel)


def _is_seen_whole(user: str | None, pair: Decision) -> bool:
    return _is_seen(user, pair.older.channel) and _is_seen(user, pair.newer.channel)


def _cut(decision: Decision, longest: int) -> Decision:
    """Return a decision with its texts cut."""
    older, newer = (replace(side, text=side.text[:longest]) for side in (decision.older, decision.newer))
    return replace(decision, older=older, newer=newer)


def _login() -> str:
    """Return the login of the daemon's owner: the only user who may ask it anything."""
    # The name is written into the memory as its verifier; a container may have no entry for its user.
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


REVIEW_METHODS: tuple[Method[Any, Any], ...] = (
    Method("decay_preview", DecayParams, DecayAnswer, ReviewMethods.decay_preview, long=True),
    Method("restore", RestoreParams, Restored, ReviewMethods.restore, blocking=True),
    Method("review_list", ReviewParams, ReviewAnswer, ReviewMethods.review_list, blocking=True),
    Method("review_decide", DecideParams, Decided, ReviewMethods.review_decide, blocking=True),
)
