"""Lint: checks of the vault; repairs what is safe to repair and reports the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ...store.model import Kind, NodeId
from ...store.okf.file import conformance
from ...store.redaction import places_of_secrets, redact
from ..registry import Stage
from ..workspace.proposals import Planned
from ..workspace.view import View
from . import repairs
from .repairs import File

STAGE = "lint"
_FOOTNOTE = re.compile(r"(?<!`)\[\^([tm]\d+)\](?!:)")
MOST_PLACES = 3
_ARROWS = ("supersedes", "superseded_by", "contradicts")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a file (or, without a path, of the whole memory) that a dream does not repair by itself.

    `check` is one of conformance, links, orphans, secrets, tags, index, sessions, embeddings.
    """

    check: str
    path: str
    problem: str
    node_id: NodeId = ""


@dataclass(slots=True)
class Linted(Planned):
    """The repairs, and the findings for a person."""

    findings: tuple[Finding, ...] = ()


def plan(view: View, now: datetime) -> Linted:
    """Check every memory's file once."""
    paths = view.paths()
    places = view.session_paths() | view.memory_paths()  # the archived ones too
    known = frozenset(places.values())
    sessions = {session.path: session.session_id for session in view.sessions()}
    findings: list[Finding] = []
    linted = Linted()
    for path in view.steps.counted(sorted(paths), "files"):
        data = view.read(path)
        if data is None:
            continue
        if path.startswith("sessions/"):
            findings += _leaks(path, data, sessions.get(path, ""))
            continue
        file = repairs.read(path, data, places, known)
        if file.meta.get("kind") == Kind.DOCUMENT:  # an agent's own file: it is kept as it was put
            findings += _leaks(path, data, file.node_id)
            continue
        repair = repairs.mend(view, file)
        if repair and repair.content is not None:
            linted.actions.append(repair)
            linted.count("repaired")
            data = repair.content
        if repair or file.data != data:  # repaired, or left as it was since a person undid just that
            file = repairs.read(path, data, places, known)
        findings += _of_file(view, file, paths)
    findings += _index_against_files(view, paths)
    findings += _unread_sessions(view)
    findings += _unembedded(view)
    linted.findings = tuple(findings)
    for finding in findings:
        linted.count(f"{finding.check} problems")
    return linted


def _of_file(view: View, file: File, paths: set[str]) -> Iterator[Finding]:
    """Find the problems of one file, after its repair."""
    for problem in conformance(file.path, file.data, file.document):
        yield Finding("conformance", file.path, problem, file.node_id)
    yield from _broken_links(file, paths)
    yield from _missing_links(view, file)
    yield from _orphan(file)
    yield from _leaks(file.path, file.data, file.node_id)
    if repairs.clean_tags(tags := file.meta.get("tags")) not in (None, tags):
        yield Finding("tags", file.path, "its tags repeat each other or are blank", file.node_id)


def _broken_links(file: File, paths: set[str]) -> Iterator[Finding]:
    for target in dict.fromkeys(repairs.LINK.findall(file.document.body)):
        if target.removeprefix("/") not in paths:
            place = repairs.moved(target, file.places)
            rest = f"which lies at {place} now" if place else "which is not there"
            yield Finding("links", file.path, f"it links to {target}, {rest}", file.node_id)


def _missing_links(view: View, file: File) -> Iterator[Finding]:
    """Find links and footnotes without a target, and successors that their predecessor does not name."""
    labels = {str(entry.get("id")) for entry in repairs.entries(file.meta)}
    lost = sorted(set(_FOOTNOTE.findall(file.document.body)) - labels)
    if labels and lost:
        yield Finding("links", file.path, f"its footnote {lost[0]} has no source", file.node_id)
    for key in _ARROWS:
        for target in _named(file.meta.get(key)):
            if target not in file.places:
                yield Finding("links", file.path, f"it {_WORDS[key]} {target}, which is not there", file.node_id)
            elif key == "supersedes" and view.is_live(target) and view.is_live(file.node_id):
                yield Finding(
                    "links", file.path, f"it supersedes {target}, which does not name it as its successor", file.node_id
                )


_WORDS = {"supersedes": "supersedes", "superseded_by": "is superseded by", "contradicts": "contradicts"}


def _named(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _orphan(file: File) -> Iterator[Finding]:
    """Find a memory that a dream made and that has no source left."""
    if not file.meta.get("run"):
        return
    cited = [entry.get("title", "") for entry in repairs.entries(file.meta)]
    if not any(str(node_id).partition("#")[0] in file.places for node_id in cited):
        yield Finding("orphans", file.path, "none of its sources exists any more", file.node_id)


def _leaks(path: str, data: bytes, node_id: NodeId) -> Iterator[Finding]:
    """Find a secret where no dream may remove it."""
    if places := places_of_secrets(data, path):
        more = f" and {len(places) - MOST_PLACES} more" if len(places) > MOST_PLACES else ""
        yield Finding(
            "secrets", redact(path).text, f"it holds a secret: {', '.join(places[:MOST_PLACES])}{more}", node_id
        )


def _index_against_files(view: View, paths: set[str]) -> Iterator[Finding]:
    indexed = view.indexed_paths()
    proposed = {action.path for action in view.actions}
    for path in sorted(paths - indexed.keys() - proposed):
        yield Finding("index", path, "it is not indexed")
    for path in sorted(indexed.keys() - paths):
        yield Finding("index", path, "it is indexed, but the file is gone")
    for path, problem in sorted(indexed.items()):
        if problem and path.startswith("sessions/"):
            yield Finding("sessions", path, problem)


def _unread_sessions(view: View) -> Iterator[Finding]:
    for session in view.sessions():
        read_to = view.cursor(Stage.CONSOLIDATE, session.session_id)
        if read_to < session.last_ordinal:
            missing = session.last_ordinal - read_to
            which = f"the last {missing} of its {session.last_ordinal}" if read_to else f"none of its {missing}"
            yield Finding("sessions", session.path, f"{which} turns have been read by a dream", session.session_id)


def _unembedded(view: View) -> Iterator[Finding]:
    if waiting := view.unembedded():
        yield Finding("embeddings", "", f"{waiting} pieces of text are found by words only until they are embedded")
