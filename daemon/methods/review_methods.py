"""The methods by which a person keeps the memory in order: decay, restore, review, and sharing with colleagues."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.channels import full_id, node_of
from ...ipc.params import Folder, Offset, Params, UserParams
from ...ipc.protocol import Refused
from ...store import LANDED, Decision, TeamEntry, Waiting, unmarked, unmarked_lines
from ...store.channel import channel_of_folder, is_of_user, may_read, repository_of
from ...store.model import Kind, NotFound, StoreError
from ...store.names import Name, NodeRef
from ...store.results import Decided, FileProposal, Restored
from ..agents.skills import SkillDraft, Skills
from ..clock import utc_now
from ..settings import Settings
from ..sync.entries import SyncEntry
from ..sync.segments import RemoteAway, SyncError
from ..sync.team import Author, TeamRepository, TeamSegment, united, without
from .sync_methods import reasons_after, recheck_of

if TYPE_CHECKING:
    from ...pipelines.gate.gate import Recheck
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
        return self._store.restore(node_of(self._store, params.user_id, params.node_id, own=True))

    def review_list(self, params: ReviewParams, call: Call) -> ReviewAnswer:
        """Return the decisions and claims that wait, a page of the marks, and the files with secrets."""
        # All of them are read, since the answer has their number; only the first are sent.
        user = params.user_id
        waiting = [one for one in self._store.decisions() if _is_theirs_whole(user, one)]
        marked, marks_total = self._marks(user, params.offset)
        # However many colleagues share: one's own agents are asked about first.
        claims = sorted(self._store.waiting(), key=lambda claim: bool(claim.author))
        claims = [one for one in claims if _is_theirs(user, one.channel)][:MOST_DECISIONS]
        drafts = [one for one in self._skills.drafts() if _is_theirs(user, one.channel)][:MOST_DECISIONS]
        files = [one for one in self._store.file_proposals() if _is_theirs(user, one.channel)][:MOST_DECISIONS]
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
        seen = [one for one in self._store.marks().marks if _is_theirs_whole(user, one)]
        return seen[offset:][:MOST_MARKS], len(seen)

    def _refuse_another_users(self, user: str, name: str) -> None:
        """Raise NotFound for a decision about memories that a user does not see."""
        pairs = [one for one in (*self._store.decisions(), *self._store.marks().marks) if _is_theirs_whole(user, one)]
        seen = {part for one in pairs for part in (one.decision_id, one.older.node_id, one.newer.node_id)}
        seen |= {one.node_id for one in self._store.waiting() if _is_theirs(user, one.channel)}
        seen |= {one.node_id for one in self._skills.drafts() if _is_theirs(user, one.channel)}
        seen |= {one.proposal_id for one in self._store.file_proposals() if _is_theirs(user, one.channel)}
        if name not in seen:
            raise NotFound(f"no decision {name} waits", hint="`dreamctl review --list` shows those that do.")

    def review_decide(self, params: DecideParams, call: Call) -> Decided:
        """Carry out a person's decision."""
        if (params.keep == "edit") != bool(params.text.strip()):
            raise Refused(
                "`text` is required with keep=edit and not allowed otherwise.", "`dreamctl review ID --edit TEXT`."
            )
        name = full_id(self._store, params.user_id, params.decision)
        if params.user_id is not None:
            self._refuse_another_users(params.user_id, name)
        if params.keep in ("accept", "reject") and self._skills.is_draft(name):
            return (
                self._skills.accept(name, Path(params.to) if params.to else None)
                if params.keep == "accept"
                else self._skills.reject(name)
            )
        if params.keep == "accept":
            return self._store.accept(name, params.by or _login())
        if params.keep == "reject":
            return self._store.reject(name)
        return self._store.decide(name, params.keep, params.by or _login(), params.text)

    def _leaks(self) -> list[LeakAnswer]:
        """Return the files that the latest dream named and that still have text that looks like a secret."""
        # By state and kind, so that a day of other runs does not push the last dream out of the few that are read.
        runs = self._store.runs(RUNS_LOOKED_AT, kinds=LINTING, states=LANDED)
        named = next((run.summary["leaks"] for run in runs if "leaks" in run.summary), ())
        leaks = self._store.leaks(named)
        return [LeakAnswer(leak.node_id, leak.path, ", ".join(leak.places)) for leak in leaks]


def _is_seen(user: str | None, channel: str) -> bool:
    return user is None or may_read(user, channel)


def _is_theirs(user: str | None, channel: str) -> bool:
    return user is None or is_of_user(user, channel)


def _is_theirs_whole(user: str | None, pair: Decision) -> bool:
    return _is_theirs(user, pair.older.channel) and _is_theirs(user, pair.newer.channel)


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


# ---- the team of a project


class TeamParams(Params):
    """A folder of the project's git repository."""

    cwd: Folder


class ShareParams(TeamParams):
    """The memory to share. `seen` is the entry that was shown, which is written; without it nothing is.

    `place` is the place that was shown with it: with another by now nothing is written.
    """

    node_id: NodeRef
    place: Annotated[str, Field(max_length=4096)] | None = None
    seen: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None


class UnshareParams(TeamParams):
    """The memory, or the beginning of the entry, to withdraw."""

    name: NodeRef


class TeamSyncParams(TeamParams):
    """The remote, by its name in the repository, or the file that says where a Postgres is, an absolute path.

    `adopt`: the remote's entries under this author's name are theirs. `release`: the entries of those that were shared
    for another place, as they were shown, which go to this one too.
    """

    remote: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    adopt: bool = False
    release: Annotated[tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], ...], Field(max_length=10_000)] = ()


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """An entry of a project's team, as it stands there. `state` of one's own is `released`, and `shared` once it left.

    `quotes` are its evidence. `line` is all that leaves the machine of it. Of one's own, `released_to` are the places
    to which it goes, and `sent_to` those of them that have it.
    """

    entry_id: str
    author: str
    kind: str
    text: str
    said_at: str | None
    quotes: Sequence[str]
    state: Literal["shown", "released", "shared", "waits", "accepted", "declined", "withdrawn", "yours", "not let in"]
    line: str
    released_to: Sequence[str] = ()
    sent_to: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sharing:
    """One memory that is shown, shared or withdrawn, in the segment `ref` of a project's repository.

    `remote` is where the next sync sends it, "" while there is none.
    """

    project: str
    ref: str
    remote: str
    memory: SharedMemory


@dataclass(frozen=True, slots=True)
class TeamList:
    """All that is shared in a project: by its person as `author`, and by colleagues, as it was last fetched."""

    project: str
    author: str
    ref: str
    mine: Sequence[SharedMemory]
    colleagues: Sequence[SharedMemory]


@dataclass(frozen=True, slots=True)
class TeamSynced:
    """One exchange with a project's remote. `came` memories wait for review, `went` were withdrawn: the run `run_id`.

    `pushed`: one's own entries are there now, without those of `unreleased`, which were shared for other places.
    `refused` says why others' stay out.
    """

    project: str
    remote: str
    pushed: bool
    came: int
    went: int
    run_id: str | None
    refused: Sequence[str]
    notes: Sequence[str]
    unreleased: Sequence[SharedMemory]


class TeamMethods:
    """The methods of a project's team; all of them block. Nothing leaves the machine but by `sync`."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._one_at_a_time = threading.Lock()

    def share(self, params: ShareParams, call: Call) -> Sharing:
        """Show the entry by which a memory would leave; if that was seen, write it to one's own segment."""
        with self._team(params) as (project, team):
            node_id = self._store.full_id(params.node_id)
            body = self._store.colleagues.body_of(node_id, project, team.author.name)
            entry, own = SyncEntry(body), team.own()
            is_there, place = any(one.entry_id == entry.entry_id for one in own), team.next_remote()
            if params.seen is not None and params.seen != entry.entry_id:
                raise Refused("It has changed since it was shown.", "Look at it again.")
            if params.seen and params.place is not None and params.place != place:
                raise Refused("The team's place has changed since it was shown.", "Look at it again.")
            if params.seen and not is_there:
                team.keep([*own, entry], utc_now())
            if params.seen and place:
                team.release([entry.entry_id], place)
            places = team.places().get(entry.entry_id, {})
            is_released = bool(params.seen) or (is_there and (not place or place in places))
            state = "shown" if not is_released else "shared" if places.get(place) else "released"
            return Sharing(project, team.author.ref, place, _as_shared(entry, team.author, state, places))

    def unshare(self, params: UnshareParams, call: Call) -> Sharing:
        """Withdraw an entry: its text leaves one's own segment, and a line says so."""
        with self._team(params) as (project, team):
            own = team.own()
            found = [one for one in own if one.kind == "shared" and self._is_named(one, params.name, project, team)]
            if len(found) != 1:
                hint = "`dreamctl review --shared` lists what is."
                raise Refused(f"{params.name} is {'not shared' if not found else 'shared more than once'}.", hint)
            places = team.places().get(found[0].entry_id, {})
            team.take_back(found[0].entry_id)
            team.keep(without(own, found[0].entry_id), utc_now(), anew=True)
            gone = _as_shared(found[0], team.author, "withdrawn", places)
            return Sharing(project, team.author.ref, team.next_remote(), gone)

    def _is_named(self, entry: SyncEntry, name: str, project: str, team: TeamRepository) -> bool:
        if entry.entry_id.startswith(name):
            return True
        try:
            body = self._store.colleagues.body_of(self._store.full_id(name), project, team.author.name)
            return bool(body["text"] == entry.body["text"])
        except StoreError:
            return False

    def shared(self, params: TeamParams, call: Call) -> TeamList:
        """List the shared memories of a project, one's own and colleagues'."""
        with self._team(params) as (project, team):
            mine = _as_own(team, [one for one in team.own() if one.kind == "shared"])
            segments, _ = team.colleagues()
            listed = [
                _as_shared(entry, segment.author, self._store.colleagues.state_of(project, _of_team(segment, entry)))
                for segment in segments
                for entry in segment.entries[:MOST_LISTED]
                if entry.kind == "shared"
            ]
            return TeamList(project, str(team.author), team.author.ref, mine, listed[:MOST_LISTED])

    def sync(self, params: TeamSyncParams, call: Call) -> TeamSynced:
        """Fetch the entries of colleagues, let them in for review, and push one's own."""
        with self._team(params) as (project, team):
            remote = team.remote(params.remote)
            left_there = team.fetch(remote)
            notes, pushed = list[str](), False
            if unknown := team.unknown():
                if params.adopt:
                    team.keep(united(team.own(), unknown), utc_now())
                else:
                    many = "1 entry" if len(unknown) == 1 else f"{len(unknown)} entries"
                    notes.append(
                        f"the remote has {many} under your name that this machine did not write: `git show "
                        f"refs/dreamd/colleagues/{team.author.key}:entries` shows them, and if they are yours, from "
                        "another machine, `dreamctl sync team --adopt` takes them; nothing was pushed"
                    )
            team.note_there(remote)
            team.release(params.release, str(remote))
            if not notes:
                pushed = team.push(remote)
            unreleased = _as_own(team, team.unreleased(str(remote)))
            segments, refused = team.colleagues()
            entries = [_of_team(segment, one) for segment in segments for one in segment.entries]
            rechecks: list[Recheck] = []
            done = self._store.colleagues.let_in(project, entries, lambda: rechecks.append(recheck_of(self._store)))
            run_id = done.run_id or None
            changed = done.came + done.went
            if rechecks and run_id and (reasons := reasons_after(self._store, rechecks[0], run_id, changed)):
                self._store.undo(run_id)
                notes.append(f"it was undone, for recall is worse with it: {'; '.join(reasons)}")
            notes += [
                f"{unmarked(str(one.said_by))} withdrew “{unmarked(one.text[:LONGEST_QUOTED])}”, which you accepted: "
                f"it stays yours; `dreamctl forget {one.node_id}` if it should go"
                for one in done.kept
            ]
            refused += [*left_there, *done.refused]
            more = [f"and {len(refused) - MOST_REFUSED} more"] if len(refused) > MOST_REFUSED else []
            shown = [*refused[:MOST_REFUSED], *more]
            return TeamSynced(project, str(remote), pushed, done.came, done.went, run_id, shown, notes, unreleased)

    @contextmanager
    def _team(self, params: TeamParams) -> Iterator[tuple[str, TeamRepository]]:
        """Open the team of the project that a folder is in, for one call at a time."""
        try:
            found = repository_of(Path(params.cwd).resolve())
            if found is None:
                raise Refused(f"{params.cwd} is in no git repository.", "A team shares by the project's own.")
            with self._one_at_a_time:
                yield channel_of_folder(Path(params.cwd)), TeamRepository(*found)
        except RemoteAway as error:
            raise Refused(str(error), "Nothing is lost: `dreamctl sync team` goes on where it was.") from error
        except (SyncError, OSError) as error:
            raise Refused(str(error), getattr(error, "hint", "")) from error


MOST_LISTED, MOST_REFUSED, LONGEST_QUOTED = 500, 20, 120


def _of_team(segment: TeamSegment, entry: SyncEntry) -> TeamEntry:
    return TeamEntry(segment.ref, str(segment.author), entry.entry_id, entry.body)


def _as_own(team: TeamRepository, entries: Sequence[SyncEntry]) -> list[SharedMemory]:
    """Return entries of one's own with their places: `shared` is one that is known to have left."""
    places = team.places()
    known = [(one, places.get(one.entry_id, {})) for one in entries]
    return [_as_shared(one, team.author, "shared" if any(of.values()) else "released", of) for one, of in known]


def _as_shared(entry: SyncEntry, author: Author, state: Any, places: Mapping[str, bool] | None = None) -> SharedMemory:
    """Return an entry for a client; a colleague's may be anything, so each field is read with care."""
    body = entry.body
    said_at, quotes = body.get("said_at"), body.get("quotes")
    told = [one for one in quotes if isinstance(one, dict)][:3] if isinstance(quotes, list) else []
    return SharedMemory(
        entry.entry_id,
        unmarked(str(author)),
        unmarked(str(body.get("as")))[:40],
        unmarked_lines(str(body.get("text"))[:LONGEST_TEXT]),
        said_at[:40] if isinstance(said_at, str) else None,
        [unmarked(f"{str(one.get('by'))[:60]}: {str(one.get('text'))[:LONGEST_MARKED]}") for one in told],
        state,
        entry.line(entry.seq or 1, entry.at).decode() if state in ("shown", "released", "shared") else "",
        sorted(places or ()),
        sorted(place for place, is_there in (places or {}).items() if is_there),
    )


REVIEW_METHODS: tuple[Method[Any, Any], ...] = (
    Method("decay_preview", DecayParams, DecayAnswer, ReviewMethods.decay_preview, long=True),
    Method("restore", RestoreParams, Restored, ReviewMethods.restore, blocking=True),
    Method("review_list", ReviewParams, ReviewAnswer, ReviewMethods.review_list, blocking=True),
    Method("review_decide", DecideParams, Decided, ReviewMethods.review_decide, blocking=True),
)

TEAM_METHODS: tuple[Method[Any, Any], ...] = (
    Method("team_share", ShareParams, Sharing, TeamMethods.share, blocking=True),
    Method("team_unshare", UnshareParams, Sharing, TeamMethods.unshare, blocking=True),
    Method("team_list", TeamParams, TeamList, TeamMethods.shared, blocking=True),
    Method("team_sync", TeamSyncParams, TeamSynced, TeamMethods.sync, long=True),
)
