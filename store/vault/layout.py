"""The layout of a vault: which folder a memory gets, and which name."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from anyascii import anyascii

from ..model import GLOBAL_CHANNEL, Kind, Level, NodeId

SLUG_BYTES: Final = 60

NAME_BYTES: Final = SLUG_BYTES - 10
"""The bytes of a name beside its suffix, and the most that are read at a glance."""

SUFFIX: Final = 6
"""The characters of an id that end a name: 30 bits, beside the same words in the same folder."""

RESERVED_NAMES: Final = frozenset({"index.md", "log.md"})  # OKF v0.2, 3.1

SESSIONS_FOLDER: Final = "sessions/"
PROJECTS: Final = "projects"
GENERAL: Final = "general"
"""The folder of memories of no project: a person's own ways, and rules that hold everywhere."""

PEOPLE: Final = "people"

_FOLDERS: Final = {Level.FACT: "facts", Level.SCENARIO: "scenarios"}

_OF_LEVEL: Final = {Level.FACT: Kind.FACT, Level.SCENARIO: Kind.SCENARIO, Level.PROFILE: Kind.PROFILE}
_KINDS: Final = {
    Kind.NEGATIVE: "refused",
    Kind.PERSON: PEOPLE,
    Kind.SCENARIO: "episodes",
    Kind.ENTITY: "things",
    Kind.PROFILE: "",
}
"""The folders of kinds whose plural is another word; a profile lies in the folder of its project itself."""

_OURS: Final = re.compile(rf"(?:facts|scenarios|profiles|{PEOPLE}|{GENERAL})/.|{PROJECTS}/[^/]+/.", re.DOTALL)
_FLAT: Final = re.compile(r"(?:facts|scenarios)/[a-z0-9-]+--[a-z2-7]{13}\.md|profiles/[^/]+/[a-z0-9-]+\.md")
_IN_FLAT: Final = re.compile(r"(?:facts|scenarios|profiles/[^/]+)/[^/]+\.md")
_HASHED: Final = re.compile(r"[a-z2-7]{13}")
_NOT_IN_SLUG: Final = re.compile(r"[^a-z0-9]+")
_NOT_IN_FOLDER: Final = re.compile(r"[^A-Za-z0-9._-]+")
_APOSTROPHE: Final = re.compile(r"(?<=\w)['’ʼ](?=\w)")
_EMPHASIS: Final = re.compile(r"\*+|`+|(?<!\w)_+|_+(?!\w)")
_OPENERS: Final = frozenset(
    "a ah also and but der die das ein eine el ey hey hm hmm i ja jo la nah now oh ok okay pues so sorry the thanks um"
    " und uh well y ya yeah yep yes".split()
)
"""The words with which chat lines begin, and nothing that is said."""

_CLAUSE: Final = re.compile(r"(?<![.:;!?…–—])[.:;!?…–—]++(?=\s|$)|,(?=\s)|\s[-–—]\s|\n")
_FEWEST_WORDS: Final = 5


LAYOUT: Final = "layout"
"""The ledger's flag that names the vault's layout."""


class Layout(StrEnum):
    """The order of a vault: by level in a few folders, as vaults were at first, or by project and kind."""

    FLAT = "flat"
    FOLDERS = "folders"


def path_for(
    level: Level,
    title: str,
    node_id: NodeId,
    channel: str = GLOBAL_CHANNEL,
    *,
    kind: Kind | None = None,
    layout: Layout = Layout.FOLDERS,
) -> str:
    """Return where a new memory lies; a path once given never changes, whatever becomes of its title and its kind.

    A profile has its name alone, for there is one of a title in a channel; any other memory ends in a part of its id.
    """
    if layout is Layout.FLAT:
        if level is Level.PROFILE:
            return f"profiles/{channel_folder(channel)}/{_unreserved(slug(title))}.md"
        return f"{_FOLDERS[level]}/{slug(title)}--{node_id}.md"
    folder = kind_folder(kind or _OF_LEVEL[level])
    place = f"{project_folder(channel)}/{folder}" if folder else project_folder(channel)
    if level is Level.PROFILE:
        return f"{place}/{_unreserved(slug(title))}.md"
    return f"{place}/{name_of(title)}-{suffix_of(node_id)}.md"


def layout_of(flag: str | None, paths: Iterable[str]) -> Layout:
    """Return the layout that a ledger's flag names; where there is none, that of the vault with these paths."""
    if flag in set(Layout):
        return Layout(flag)
    return Layout.FLAT if any(map(is_flat, paths)) else Layout.FOLDERS


def project_folder(channel: str) -> str:
    """Return the folder of a project, or that of memories of none."""
    return GENERAL if channel == GLOBAL_CHANNEL else f"{PROJECTS}/{channel_folder(channel)}"


def project_of_path(path: str) -> str | None:
    """Return the folder of the project in which a file lies, or that of memories of none; None elsewhere."""
    first, _, rest = path.partition("/")
    name, inside, _ = rest.partition("/")
    if first == PROJECTS:
        return f"{first}/{name}" if inside else None
    return first if first == GENERAL and rest else None


def kind_folder(kind: Kind) -> str:
    """Return the folder of a kind within its project, "" for the pages that lie beside these folders."""
    return _KINDS.get(kind, f"{kind.value}s")


def is_ours(path: str) -> bool:
    """Return True for a path in the folders in which memories are kept, of either layout."""
    return _OURS.match(path) is not None


def is_flat(path: str) -> bool:
    """Return True for a path that a memory got in a flat vault."""
    return _FLAT.fullmatch(path) is not None and path.rpartition("/")[2] not in RESERVED_NAMES


def suffix_of(node_id: NodeId) -> str:
    """Return the part of an id that ends a name: the beginning of one that is a hash, else that of its hash."""
    if _HASHED.fullmatch(node_id):
        return node_id[:SUFFIX]
    hashed = hashlib.sha256(node_id.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(hashed)[:SUFFIX].decode().lower()


def in_flat_folder(path: str) -> bool:
    """Return True for a file in a folder of a flat vault, whatever its name."""
    return _IN_FLAT.fullmatch(path) is not None and path.rpartition("/")[2] not in RESERVED_NAMES


def is_named_for(path: str, node_id: NodeId) -> bool:
    """Return True if the name of a file ends as that of this memory or session does."""
    stem = path.rpartition("/")[2].removesuffix(".md")
    return stem == node_id or stem.endswith((f"--{node_id}", f"-{suffix_of(node_id)}"))


def is_titled(path: str, title: str) -> bool:
    """Return True if the name of a memory's file was made of this title."""
    return path.rpartition("/")[2].startswith((f"{slug(title)}--", f"{name_of(title)}-"))


def with_id(path: str, node_id: NodeId, other: NodeId) -> str:
    """Return the path that a memory would have with another id."""
    stem = path.removesuffix(".md")
    old, new = (node_id, other) if stem.endswith(f"--{node_id}") else (suffix_of(node_id), suffix_of(other))
    return f"{stem.removesuffix(old)}{new}.md"


def slug(title: str) -> str:
    """Return ASCII words of a title for a file name, at most 60 bytes; other letters as they sound ("ø" is "o")."""
    return _words(title, SLUG_BYTES)


def name_of(title: str) -> str:
    """Return the words of a title by which a person finds its file: its first clauses, without a chat line's opening.

    "also: no unwrap() or expect() outside tests. ever" is "no-unwrap-or-expect-outside-tests".
    """
    text = _EMPHASIS.sub("", _APOSTROPHE.sub("", title))
    parts = [part for part in _CLAUSE.split(text) if _words(part, SLUG_BYTES) != "untitled"]
    taken: list[str] = []
    for part in parts:
        words = _words(part, 10 * SLUG_BYTES).split("-")
        while not taken and words and (words[0] in _OPENERS or words[0].isdigit()):
            del words[0]
        taken += words
        if len(taken) >= _FEWEST_WORDS:
            break
    return _words(" ".join(taken), NAME_BYTES) if taken else _words(title, NAME_BYTES)


def channel_folder(channel: str) -> str:
    """Return a channel's name as a folder; one that had to be changed ends in six hex digits of its hash."""
    safe = _NOT_IN_FOLDER.sub("-", channel).lstrip(".-")[:SLUG_BYTES]
    hashed = hashlib.sha256(channel.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return safe if safe == channel else f"{safe or 'channel'}-{hashed}"


def _words(text: str, most_bytes: int) -> str:
    plain = anyascii(unicodedata.normalize("NFKC", text)).lower()
    words = _NOT_IN_SLUG.sub("-", plain).strip("-")
    if len(words) > most_bytes:
        words = words[: most_bytes + 1].rpartition("-")[0] or words[:most_bytes]
    return words or "untitled"


def _unreserved(name: str) -> str:
    return f"{name}-topic" if f"{name}.md" in RESERVED_NAMES else name
