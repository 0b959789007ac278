"""The wire's methods for the sessions that are followed: watch, unwatch, and their part of `status`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import model_validator

from ...ipc.answers import BacklogAnswer, LiveSessionAnswer, PlaceAnswer, TranscriptsAnswer, WatchAnswer
from ...ipc.call import Call
from ...ipc.store_methods import Handler, Params, instant
from ...store.model import InvalidInput
from ...store.results import Problem
from ..clock import utc_now
from ..importing import FollowedName
from ..importing.following.followed_places import FollowedPlace, place_of
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
    """`backlog` none: what was said before now is left out. With `dry_run` it is only counted."""

    backlog: Literal["all", "none"] = "all"
    dry_run: bool = False


class TranscriptMethods:
    """The methods. They read folders, and run in the server's threads."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower

    def handlers(self) -> dict[str, Handler]:
        """Return the methods by their names."""
        return {
            "watch": Handler(WatchParams, self.watch, long=True),
            "unwatch": Handler(PlaceParams, self.unwatch, blocking=True),
        }

    def watch(self, params: WatchParams, call: Call) -> WatchAnswer:
        """Follow a place from now on, and estimate what is there already."""
        place = _place(params)
        found = self._follower.preview(place)
        if not params.dry_run:
            self._follower.watch(place)
        return {
            **self._place_answer(place),
            "watched": not params.dry_run,
            "files": found.files,
            "sessions": found.sessions,
            "turns": found.turns,
            "minutes": found.minutes,
        }

    def unwatch(self, params: PlaceParams, call: Call) -> PlaceAnswer:
        """Follow a place no more. What was learned stays."""
        return self._place_answer(self._follower.unwatch(params.path or str(params.agent)))

    def problems(self) -> list[Problem]:
        """Return the files, and the lines of files, that could not be taken in."""
        return self._follower.faults.problems()

    def state(self) -> TranscriptsAnswer:
        """Return the places, the sessions that go on, and how far the backlog is."""
        follower = self._follower
        return {
            "places": [self._place_answer(place) for place in follower.listed],
            "active": [
                LiveSessionAnswer(
                    session_id=one.session_id, agent=one.agent_id, channel=one.channel, last_at=instant(one.last_at)
                )
                for one in follower.sessions.active()
            ],
            "turns": follower.taken.turns,
            "backlog": self._backlog(),
            "problem": follower.problem,
        }

    def _backlog(self) -> BacklogAnswer | None:
        files, left = self._follower.waiting.backlog()
        if not files:
            return None
        taken = self._follower.taken
        rate = (
            taken.bytes_of_backlog / taken.seconds_of_backlog if taken.bytes_of_backlog else UNMEASURED_BYTES_A_SECOND
        )
        total = max(files, self._follower.waiting.backlog_files)
        return {"files": files, "of": total, "minutes": round(left / rate / 60, 1)}

    def _place_answer(self, place: FollowedPlace) -> PlaceAnswer:
        return {
            "name": place.name,
            "path": str(place.folder),
            "agent": place.agent,
            "since": instant(place.since),
            "state": self._follower.state_of(place),
        }


def _place(params: WatchParams) -> FollowedPlace:
    since = utc_now() if params.backlog == "none" else None
    place = place_of(params.agent or str(params.path), Path(params.path) if params.path else None, since)
    if place.folder.exists() and not place.folder.is_dir():
        raise InvalidInput(f"{place.folder} is no folder.", "Name the folder in which the sessions lie.")
    return place
