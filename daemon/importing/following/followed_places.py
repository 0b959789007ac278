"""The places that are followed, an agent's folder of sessions or a folder that a person named; and their files.

A survey says, before a place is followed, how much there is in it and how long it takes to import it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ....store.model import InvalidInput, NotFound
from .. import FOLLOWED
from ..detect import agents_writing, database_named
from ..items import SessionRead
from ..sanitize import instant
from .tail import source_of

if TYPE_CHECKING:
    from ....store import MemoryStore

IN_SETTINGS = "the settings (transcripts.watch)"
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
        agents = agents_writing(path.name)
        return bool(agents) and self.agent in ("", *agents)


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
            return _data_folder(home, environ) / "opencode"
        case "copilot":
            return Path(environ.get("COPILOT_HOME") or home / ".copilot") / "session-state"
        case "cursor":
            return (settings or home / ".cursor") / "projects"
        case "cline":
            given = environ.get("CLINE_DATA_DIR")
            return Path(given) if given else Path(environ.get("CLINE_DIR") or home / ".cline") / "data"
        case "qwen":
            return (settings or home / ".qwen") / "projects"
        case "goose":
            return _data_folder(home, environ) / "goose" / "sessions"
        case "openclaw":
            return Path(environ.get("OPENCLAW_STATE_DIR") or home / ".openclaw") / "agents"
        case _:
            raise InvalidInput(f"There is no agent {agent}.", f"Known are {', '.join(FOLLOWED)}; or name a folder.")


def _data_folder(home: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share")


# Editors in which other programs keep their sessions, and the folder of Cline's older extension in them.
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSION = "saoudrizwan.claude-dev"


def other_folders_of(agent: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders in which an agent keeps sessions besides `folder_of`, those that exist: in editors."""
    home = Path(environ.get("HOME") or Path.home())
    mac = home / "Library" / "Application Support"
    settings = mac if sys.platform == "darwin" else Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    stores = {editor: settings / editor / "User" / "globalStorage" for editor in _EDITORS}
    found = {"cursor": [stores["Cursor"]], "cline": [store / _EXTENSION for store in stores.values()]}
    return [folder for folder in found.get(agent, []) if folder.is_dir()]


def places_of(
    what: str, folder: Path | None = None, since: datetime | None = None, *, is_set: bool = False
) -> list[FollowedPlace]:
    """Return the places of an agent's name, the usual one first, or the one of a folder's path. Raises InvalidInput."""
    first = place_of(what, folder, since, is_set=is_set)
    if what not in FOLLOWED or first.folder != folder_of(what):
        return [first]
    return [first, *(FollowedPlace(other, what, since, is_set) for other in other_folders_of(what))]


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
    known = [agent for agent in FOLLOWED if named in (folder_of(agent), *other_folders_of(agent))]
    return FollowedPlace(named, known[0] if known else "", since, is_set)


class FollowedPlaces:
    """The list of places: those of the settings, and those that were added. It survives restarts."""

    def __init__(self, store: MemoryStore, in_settings: Collection[str]) -> None:
        self._store = store
        self._set = [place for what in in_settings for place in places_of(what, is_set=True)]

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
        """Remove a place, by its name, folder or agent. Raises NotFound, or InvalidInput for one of the settings.

        With an agent's usual folder go its others.
        """
        places = self.all()
        found = next((place for place in places if what in (place.name, str(place.folder))), None)
        found = found or next((place for place in places if what == place.agent), None)
        if found is None:
            raise NotFound(f"{what} is not watched.", "`dreamctl watch` lists what is.")
        if any(found.folder == place.folder for place in self._set):
            raise InvalidInput(f"{what} is watched by {IN_SETTINGS}.", "Take it out of the file, and restart dreamd.")
        others = other_folders_of(found.agent) if found.name == found.agent else []
        for folder in (found.folder, *others):
            self._store.followed.unwatch(str(folder))
        return found


def _parsed(folder: str, note: str) -> FollowedPlace:
    values = json.loads(note)
    return FollowedPlace(Path(folder), str(values.get("agent") or ""), instant(values.get("since")))


# Files whose beginning is read.
SAMPLED = 12
# A laptop's rate of importing and embedding; a turn is found by its words long before.
TURNS_A_SECOND = 100


@dataclass(frozen=True, slots=True)
class Survey:
    """An estimate: files, and the sessions and turns in them."""

    files: int
    sessions: int
    turns: int

    @property
    def minutes(self) -> float:
        """Return the time until every turn is found by meaning too."""
        return round(self.turns / TURNS_A_SECOND / 60, 1)


def survey(files: Sequence[FoundFile]) -> Survey:
    """Estimate the sessions and turns of files from a sample of them."""
    lines = sorted((one for one in files if database_named(one.path) is None), key=lambda one: one.size_bytes)
    sessions, turns = 0, 0
    for database in (one for one in files if database_named(one.path) is not None):
        in_database, messages = _counts(database.path)
        sessions, turns = sessions + in_database, turns + messages
    step = max(1, len(lines) // SAMPLED)
    # Sorted by size, so that the sample has short and long files in proportion.
    sampled = [_sample(one) for one in lines[step // 2 :: step]]
    read = sum(size for _, _, size in sampled)
    if read:
        total = sum(one.size_bytes for one in lines)
        sessions += round(len(lines) * sum(1 for found, _, _ in sampled if found) / len(sampled))
        turns += round(total * sum(found for _, found, _ in sampled) / read)
    return Survey(len(files), sessions, turns)


def _counts(path: Path) -> tuple[int, int]:
    form = database_named(path)
    try:
        return form.counts(path) if form else (0, 0)
    except OSError:
        return 0, 0


def _sample(file: FoundFile) -> tuple[int, int, int]:
    """Return sessions, turns and bytes of a file's first megabyte."""
    source = source_of(file.path, None)
    try:
        items, _ = source.step()
    except Exception:  # the follower reports it when it reads the file
        return 0, 0, 0
    read = [item for item in items if isinstance(item, SessionRead)]
    return (
        len({item.head.session_id for item in read}),
        sum(len(item.turns) for item in read),
        source.read_up_to.size_bytes,
    )
