"""The places that are followed, an agent's folder of sessions or a folder that a person named; and their files."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ....store.model import InvalidInput, NotFound
from .. import FOLLOWED
from ..formats.opencode import DATABASE_NAME
from ..sanitize import instant

if TYPE_CHECKING:
    from ....store import MemoryStore

IN_SETTINGS = "the settings (transcripts.watch)"
LINES = ".jsonl"
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "snapshot", "subagents", "tool-results"})


@dataclass(frozen=True, slots=True)
class FollowedPlace:
    """A folder that is followed. `agent` is the agent that writes there, "" for a folder of any agent.

    Turns from before `since` are left out; None imports all. `is_set`: it is named in the settings.
    """

    folder: Path
    agent: str = ""
    since: datetime | None = None
    is_set: bool = False

    @property
    def name(self) -> str:
        """The agent's name if this is the agent's own folder, else the folder."""
        return self.agent if self.agent and self.folder == folder_of(self.agent) else str(self.folder)

    def holds(self, path: Path) -> bool:
        """Return True if the name of a file in this folder is that of a session file."""
        if DATABASE_NAME.fullmatch(path.name):
            return self.agent in ("", "opencode")
        return path.suffix.lower() == LINES and self.agent != "opencode"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a place."""

    path: Path
    size_bytes: int
    changed_ns: int

    @property
    def changed_s(self) -> float:
        """Return the time of its last change, in seconds since the epoch."""
        return self.changed_ns / 1e9


def files_of(place: FollowedPlace) -> Iterator[FoundFile]:
    """Yield every session file of a place, without links."""
    for folder, folders, files in os.walk(place.folder):
        folders[:] = [name for name in folders if name not in _NOT_ENTERED and not Path(folder, name).is_symlink()]
        for name in files:
            path = Path(folder, name)
            if not place.holds(path) or path.is_symlink():
                continue
            try:
                known = path.stat()
            except OSError:  # gone since it was listed
                continue
            yield FoundFile(path, known.st_size, known.st_mtime_ns)


def folder_of(agent: str, environ: Mapping[str, str] = os.environ, settings: Path | None = None) -> Path:
    """Return the folder in which an agent keeps its sessions; `settings` is its settings' folder, if not the usual."""
    home = Path(environ.get("HOME") or Path.home())
    match agent:
        case "claude-code":
            return (settings or Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")) / "projects"
        case "codex":
            return (settings or Path(environ.get("CODEX_HOME") or home / ".codex")) / "sessions"
        case "gemini":
            return (settings or home / ".gemini") / "tmp"
        case "opencode":
            return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode"
        case _:
            raise InvalidInput(f"There is no agent {agent}.", f"Known are {', '.join(FOLLOWED)}; or name a folder.")


def place_of(
    what: str, folder: Path | None = None, since: datetime | None = None, *, is_set: bool = False
) -> FollowedPlace:
    """Return the place of an agent's name or of a folder's path. Raises InvalidInput for other text."""
    if what in FOLLOWED:
        return FollowedPlace(folder or folder_of(what), what, since, is_set)
    named = Path(what).expanduser()
    if not named.is_absolute():
        raise InvalidInput(
            f"There is no agent {what}.", f"Known are {', '.join(FOLLOWED)}; or name a folder by its path."
        )
    if named == Path(named.anchor) or named == Path.home():
        raise InvalidInput(f"{named} is too much to follow.", "Name the folder in which the sessions lie.")
    known = [agent for agent in FOLLOWED if folder_of(agent) == named]
    return FollowedPlace(named, known[0] if known else "", since, is_set)


class FollowedPlaces:
    """The list of places: those of the settings, and those that were added. It survives restarts."""

    def __init__(self, store: MemoryStore, in_settings: Collection[str]) -> None:
        self._store = store
        self._set = [place_of(what, is_set=True) for what in in_settings]

    def all(self) -> Sequence[FollowedPlace]:
        """Return every place; an added one hides one of the settings with the same folder."""
        added = [_parsed(folder, note) for folder, note in self._store.followed.watches().items()]
        folders = {place.folder for place in added}
        return sorted([*added, *(one for one in self._set if one.folder not in folders)], key=lambda one: one.folder)

    def add(self, place: FollowedPlace) -> None:
        """Add a place, or replace the one of the same folder."""
        note = {"agent": place.agent, "since": place.since.isoformat() if place.since else None}
        self._store.followed.watch(str(place.folder), json.dumps(note))

    def remove(self, what: str) -> FollowedPlace:
        """Remove a place, by its name, folder or agent. Raises NotFound, or InvalidInput for one of the settings."""
        places = self.all()
        found = next((place for place in places if what in (place.name, str(place.folder))), None)
        found = found or next((place for place in places if what == place.agent), None)
        if found is None:
            raise NotFound(f"{what} is not watched.", "`dreamctl watch` lists what is.")
        if any(found.folder == place.folder for place in self._set):
            raise InvalidInput(f"{what} is watched by {IN_SETTINGS}.", "Take it out of the file, and restart dreamd.")
        self._store.followed.unwatch(str(found.folder))
        return found


def _parsed(folder: str, note: str) -> FollowedPlace:
    values = json.loads(note)
    return FollowedPlace(Path(folder), str(values.get("agent") or ""), instant(values.get("since")))
