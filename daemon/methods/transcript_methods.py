"""The methods for the sessions that are followed: watch, unwatch, and their part of `status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from ...ipc.answers import widened
from ...ipc.call import Call, Method
from ...ipc.params import Params
from ...store.model import InvalidInput
from ...store.results import Problem
from ..clock import utc_now
from ..importing import FollowedName
from ..importing.following.followed_places import FollowedPlace, places_of
from ..importing.following.follower import Follower

UNMEASURED_BYTES_A_SECOND = 2**20


class PlaceParams(Params):
    """An agent, or a folder; both where an agent keeps its sessions in another folder than its own."""

    agent: FollowedName | None = None
    path: str | None = None

    @model_validator(mode="after")
    def _names_one(self) -> PlaceParams:
        if self.agent is None and self.path is None:
            raise ValueError("name an agent or a path")
        if self.path is not None and not Path(self.path).is_absolute():
            raise ValueError("a path is absolute: the daemon has another working folder")
        return self


class WatchParams(PlaceParams):
    """`backlog` none: turns before now are left out. `dry_run`: they are only counted."""

    backlog: Literal["all", "none"] = "all"
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PlaceAnswer:
    """A folder of sessions that is followed; `since` is null where older sessions are taken in too."""

    name: str
    path: Path
    agent: str
    since: datetime | None
    state: str


@dataclass(frozen=True, slots=True)
class WatchAnswer(PlaceAnswer):
    """A place with an estimate of its backlog; `watched` is false after a dry run."""

    watched: bool
    files: int
    sessions: int
    turns: int
    minutes: float


@dataclass(frozen=True, slots=True)
class LiveSessionAnswer:
    """A session that an agent writes now."""

    session_id: str
    agent: str
    channel: str
    last_at: datetime


@dataclass(frozen=True, slots=True)
class BacklogAnswer:
    """The number of older files that wait to be taken in, `of` all that there were."""

    files: int
    of: int
    minutes: float


@dataclass(frozen=True, slots=True)
class TranscriptsAnswer:
    """The sessions that are followed; `turns` were taken in since the daemon began."""

    places: Sequence[PlaceAnswer]
    active: Sequence[LiveSessionAnswer]
    turns: int
    backlog: BacklogAnswer | None
    problem: str


class TranscriptMethods:
    """The methods. They read folders, and run in the server's threads."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def watch(self, params: WatchParams, call: Call) -> WatchAnswer:
        """Follow a place from now on, and estimate its backlog."""
        places = _places(params)
        found = self._follower.preview(*places)
        if not params.dry_run:
            self._follower.watch(*places)
        return widened(
            WatchAnswer,
            self._place_answer(places[0]),
            watched=not params.dry_run,
            files=found.files,
            sessions=found.sessions,
            turns=found.turns,
            minutes=found.minutes,
        )

    def unwatch(self, params: PlaceParams, call: Call) -> PlaceAnswer:
        """Stop following a place. Its sessions stay in the memory."""
        return self._place_answer(self._follower.unwatch(params.path or str(params.agent)))

    def problems(self) -> list[Problem]:
        """Return the files, and the lines of files, that could not be taken in."""
        return self._follower.faults.problems()

    def state(self) -> TranscriptsAnswer:
        """Return the places, the live sessions, and the state of the backlog."""
        follower = self._follower
        active = follower.sessions.active()
        return TranscriptsAnswer(
            places=[self._place_answer(place) for place in follower.listed],
            active=[LiveSessionAnswer(one.session_id, one.agent_id, one.channel, one.last_at) for one in active],
            turns=follower.taken.turns,
            backlog=self._backlog(),
            problem=follower.problem,
        )

    def _backlog(self) -> BacklogAnswer | None:
        files, left = self._follower.waiting.backlog()
        if not files:
            return None
        taken = self._follower.taken
        rate = (
            taken.bytes_of_backlog / taken.seconds_of_backlog if taken.bytes_of_backlog else UNMEASURED_BYTES_A_SECOND
        )
        # Files that appear while the backlog is read may make it larger than it was at the start.
        total = max(files, self._follower.waiting.backlog_files)
        return BacklogAnswer(files, total, round(left / rate / 60, 1))

    def _place_answer(self, place: FollowedPlace) -> PlaceAnswer:
        return PlaceAnswer(place.name, place.folder, place.agent, place.since, self._follower.state_of(place))


def _places(params: WatchParams) -> list[FollowedPlace]:
    # Turns before `since` are passed over, so a place without a backlog begins now.
    since = utc_now() if params.backlog == "none" else None
    places = places_of(params.agent or str(params.path), Path(params.path) if params.path else None, since)
    folder = places[0].folder
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder.", "Name the folder in which the sessions lie.")
    return places


TRANSCRIPT_METHODS: tuple[Method[Any, Any], ...] = (
    Method("watch", WatchParams, WatchAnswer, TranscriptMethods.watch, long=True),
    Method("unwatch", PlaceParams, PlaceAnswer, TranscriptMethods.unwatch, blocking=True),
)
