"""Lint: checks of every file of the vault. Problems that are safe to repair are repaired, the others reported.

All repairs of a file are one action; a person's own words are never changed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from ...store import okf
from ...store.filters import fold_tag
from ...store.model import Action, InvalidInput, Kind, Level, NodeId
from ...store.okf.file import conformance
from ...store.okf.memory_file import BY_HAND, body_hash, has_known_words, is_edited_page
from ...store.redaction import places_of_secrets, redact
from ..settings import Stage
from ..workspace.proposals import Proposals, is_curated
from ..workspace.view import View

STAGE = "lint"
_FOOTNOTE = re.compile(r"(?<!`)\[\^([tm]\d+)\](?!:)")
MOST_PLACES = 3
_ARROWS = ("supersedes", "superseded_by", "contradicts")
_WORDS = {"supersedes": "supersedes", "superseded_by": "is superseded by", "contradicts": "contradicts"}
LINK = re.compile(r"(?<!!)\[[^\]\n]{0,400}\]\((/[^)\s#]{1,400}\.md)(?:#[^)\s]{0,400})?\)")
_ID_OF_PATH = re.compile(r"--([A-Za-z0-9_]+)\.md$")
_LABEL = re.compile(r"[tm]\d+")


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A problem of a file (or, without a path, of the whole memory) that a dream does not repair by itself.

    `check` is one of conformance, links, orphans, secrets, tags, index, sessions, embeddings.
    """

    check: str
    path: str
    problem: str
    node_id: NodeId = ""


@dataclass(slots=True)
class LintProposals(Proposals):
    """The repairs, and the findings for a person."""

    findings: tuple[LintFinding, ...] = ()


def plan(view: View, now: datetime) -> LintProposals:
    """Check every memory's file once."""
    paths = view.paths()
    places = view.session_paths() | view.memory_paths()  # the archived ones too
    known = frozenset(places.values())
    sessions = {session.path: session.session_id for session in view.sessions()}
    findings: list[LintFinding] = []
    linted = LintProposals()
    for path in view.steps.counted(sorted(paths), "files"):
        data = view.read(path)
        if data is None:
            continue
        if path.startswith("sessions/"):
            findings += _leaks(path, data, sessions.get(path, ""))
            continue
        file = read_file(path, data, places, known)
        if file.meta.get("kind") == Kind.DOCUMENT:  # an agent's own file: it is kept as it was written
            findings += _leaks(path, data, file.node_id)
            continue
        repair = mend(view, file)
        if repair and repair.content is not None:
            linted.actions.append(repair)
            linted.count("repaired")
            data = repair.content
        if repair or file.data != data:  # repaired, or the repair was dropped since a person undid it before
            file = read_file(path, data, places, known)
        findings += _of_file(view, file, paths)
    findings += _index_against_files(view, paths)
    findings += _unread_sessions(view)
    findings += _unembedded(view)
    linted.findings = tuple(findings)
    for finding in findings:
        linted.count(f"{finding.check} problems")
    return linted


def _of_file(view: View, file: CheckedFile, paths: set[str]) -> Iterator[LintFinding]:
    """Find the problems of one file, after its repair."""
    for problem in conformance(file.path, file.data, file.document):
        yield LintFinding("conformance", file.path, problem, file.node_id)
    yield from _broken_links(file, paths)
    yield from _missing_links(view, file)
    yield from _orphan(file)
    yield from _leaks(file.path, file.data, file.node_id)
    if clean_tags(tags := file.meta.get("tags")) not in (None, tags):
        yield LintFinding("tags", file.path, "its tags repeat each other or are blank", file.node_id)


def _broken_links(file: CheckedFile, paths: set[str]) -> Iterator[LintFinding]:
    for target in dict.fromkeys(LINK.findall(file.document.body)):
        if target.removeprefix("/") not in paths:
            place = moved(target, file.places)
            rest = f"which lies at {place} now" if place else "which is not there"
            yield LintFinding("links", file.path, f"it links to {target}, {rest}", file.node_id)


def _missing_links(view: View, file: CheckedFile) -> Iterator[LintFinding]:
    """Find links and footnotes without a target, and successors that their predecessor does not name."""
    labels = {str(entry.get("id")) for entry in entries(file.meta)}
    lost = sorted(set(_FOOTNOTE.findall(file.document.body)) - labels)
    if labels and lost:
        yield LintFinding("links", file.path, f"its footnote {lost[0]} has no source", file.node_id)
    for key in _ARROWS:
        for target in _named(file.meta.get(key)):
            if target not in file.places:
                yield LintFinding("links", file.path, f"it {_WORDS[key]} {target}, which is not there", file.node_id)
            elif key == "supersedes" and view.is_live(target) and view.is_live(file.node_id):
                yield LintFinding(
                    "links", file.path, f"it supersedes {target}, which does not name it as its successor", file.node_id
                )


def _named(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _orphan(file: CheckedFile) -> Iterator[LintFinding]:
    """Find a memory of a dream without an existing source."""
    if not file.meta.get("run"):
        return
    cited = [entry.get("title", "") for entry in entries(file.meta)]
    if not any(str(node_id).partition("#")[0] in file.places for node_id in cited):
        yield LintFinding("orphans", file.path, "none of its sources exists any more", file.node_id)


def _leaks(path: str, data: bytes, node_id: NodeId) -> Iterator[LintFinding]:
    """Find a secret where no dream may remove it."""
    if places := places_of_secrets(data, path):
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        yield LintFinding(
            "secrets", redact(path).text, f"it holds a secret: {', '.join(places[:MOST_PLACES])}{more}", node_id
        )


def _index_against_files(view: View, paths: set[str]) -> Iterator[LintFinding]:
    indexed = view.indexed_paths()
    proposed = {action.path for action in view.actions}
    for path in sorted(paths - indexed.keys() - proposed):
        yield LintFinding("index", path, "it is not indexed")
    for path in sorted(indexed.keys() - paths):
        yield LintFinding("index", path, "it is indexed, but the file is gone")
    for path, problem in sorted(indexed.items()):
        if problem and path.startswith("sessions/"):
            yield LintFinding("sessions", path, problem)


def _unread_sessions(view: View) -> Iterator[LintFinding]:
    for session in view.sessions():
        read_to = view.cursor(Stage.CONSOLIDATE, session.session_id)
        if read_to < session.last_ordinal:
            missing = session.last_ordinal - read_to
            which = f"the last {missing} of its {session.last_ordinal}" if read_to else f"none of its {missing}"
            yield LintFinding("sessions", session.path, f"{which} turns have been read by a dream", session.session_id)


def _unembedded(view: View) -> Iterator[LintFinding]:
    if waiting := view.unembedded():
        yield LintFinding("embeddings", "", f"{waiting} pieces of text are found by words only until they are embedded")


@dataclass(slots=True)
class CheckedFile:
    """A memory's file under repair.

    `is_dreamt`: a dream wrote it. `known` are the paths among `places`.
    """

    path: str
    data: bytes
    document: okf.OkfFile
    is_dreamt: bool
    places: Mapping[NodeId, str]
    known: Set[str]
    reasons: list[str] = field(default_factory=list)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The frontmatter as it was read."""
        return self.document.meta

    @property
    def is_ours(self) -> bool:
        """True if a dream wrote the file and no person has edited its text since."""
        if self.meta.get("level") != Level.FACT:
            return self.is_dreamt and BY_HAND in self.meta
        return self.is_dreamt and not is_curated(okf.to_memory(self.path, self.document))

    @property
    def node_id(self) -> NodeId:
        """The id of the memory in the file."""
        return str(self.meta.get("node_id") or okf.node_id_of_path(self.path))

    def change(self, data: bytes, reason: str) -> None:
        """Apply a repair and note its reason."""
        self.data = data
        self.reasons.append(reason)


def read_file(path: str, data: bytes, places: Mapping[NodeId, str], known: Set[str]) -> CheckedFile:
    """Parse a file for the repairs."""
    document = okf.parse(data)
    is_dreamt = bool(document.meta.get("run")) and not document.problem and not is_edited_page(data)
    return CheckedFile(path, data, document, is_dreamt, places, known)


def mend(view: View, file: CheckedFile) -> Action | None:
    """Build the action of all repairs of a file; None if there are none, or a person undid the same before."""
    before = file.data
    if file.document.problem:
        return None
    for repair in REPAIRS:
        repair(file)
    if file.data == before:
        return None
    tombstone_key = "lint:" + sha256(file.path.encode() + b"\0" + file.data).hexdigest()[:32]
    if view.is_forbidden(tombstone_key):
        return None
    return Action.replacing(
        file.path,
        file.node_id,
        before,
        file.data,
        stage="lint",
        reason="; ".join(file.reasons),
        fingerprint=tombstone_key,
    )


def moved(target: str, places: Mapping[NodeId, str]) -> str | None:
    """Return the present path of a broken link's target, found by the id in its name."""
    found = _ID_OF_PATH.search(target)
    place = places.get(found[1]) if found else None
    return f"/{place}" if place else None


def entries(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources of a file that are mappings."""
    listed = meta.get("sources")
    return [dict(entry) for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def clean_tags(tags: object) -> list[str] | None:
    """Return tags without blanks and repetitions, in the first spelling; None for a value that is no list of tags."""
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return None
    kept: dict[str, str] = {}
    for tag in tags:
        if name := " ".join(tag.split()).lstrip("#"):
            kept.setdefault(fold_tag(name), name)
    return list(kept.values())


def _secrets(file: CheckedFile) -> None:
    redacted = redact(file.data.decode("utf-8", "replace"))
    if not file.is_dreamt or not redacted.found:
        return
    clean = redacted.text.encode()
    if has_known_words(okf.to_memory(file.path, file.document)):
        clean = okf.edit(clean, {BY_HAND: body_hash(okf.parse(clean).body)})
    file.change(clean, f"a secret was removed ({', '.join(sorted(set(redacted.found)))})")


def _sources(file: CheckedFile) -> None:
    """Update the paths of sources."""
    listed = entries(file.meta)
    mended = []
    for entry in listed:
        place = file.places.get(str(entry.get("title", "")).partition("#")[0])
        is_ours = _LABEL.fullmatch(str(entry.get("id", "")))
        mended.append(entry | {"resource": f"/{place}"} if place and is_ours else entry)
    if mended != listed and file.meta.get("node_id"):
        file.change(okf.edit(file.data, {"sources": mended}), "its sources have moved")


def _links(file: CheckedFile) -> None:
    """Update the links of a dream's page."""
    targets = {target for target in LINK.findall(file.document.body) if target.removeprefix("/") not in file.known}
    ways = {target: place for target in sorted(targets) if (place := moved(target, file.places))}
    if not ways or not file.is_ours:
        return
    head, body = _halves(file.data)
    for target, place in ways.items():
        body = body.replace(f"]({target}".encode(), f"]({place}".encode())
    data = head + body
    if BY_HAND in file.meta:
        data = okf.edit(data, {BY_HAND: body_hash(okf.parse(data).body)})
    file.change(data, "the targets of its links have moved")


def _tags(file: CheckedFile) -> None:
    tags = clean_tags(file.meta.get("tags"))
    if tags is not None and tags != file.meta.get("tags") and file.is_ours:
        file.change(okf.edit(file.data, {"tags": tags or None}), "its tags were cleaned up")


def _type(file: CheckedFile) -> None:
    """Add the missing type of a file of ours, from its kind."""
    kind = file.meta.get("kind")
    if str(file.meta.get("type") or "").strip() or kind not in list(Kind) or not file.is_ours:
        return
    file.change(okf.edit(file.data, {"type": okf.type_of(Kind(str(kind)))}), "its type was missing")


def _successor(file: CheckedFile) -> None:
    """Revive a memory whose successor is gone, whoever wrote it."""
    successor = file.meta.get("superseded_by")
    if not isinstance(successor, str) or successor in file.places or not file.meta.get("node_id"):
        return
    with contextlib.suppress(InvalidInput):  # a file that cannot be edited is reported
        file.change(okf.edit(file.data, {"superseded_by": None, "valid_to": None}), "its successor is gone")


def _halves(data: bytes) -> tuple[bytes, bytes]:
    """Split a file into frontmatter, fences included, and body."""
    size = len(okf.parse(data).body.encode())
    return data[: len(data) - size], data[len(data) - size :]


REPAIRS: tuple[Callable[[CheckedFile], None], ...] = (_secrets, _type, _sources, _links, _tags, _successor)
"""In this order: a secret is removed before anything else."""
