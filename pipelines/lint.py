"""Lint: what is wrong with the vault; mends what is safe to mend and names the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..store.keep import okf
from ..store.keep.redaction import redact
from ..store.model import Action, ActionKind, NodeId
from . import consolidate
from .proposals import BY_HAND, Planned, body_hash, is_edited
from .view import View

STAGE = "lint"
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((/[^)\s#]+\.md)(?:#[^)\s]*)?\)")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a file and that a dream does not mend by itself."""

    check: str
    path: str
    problem: str
    node_id: NodeId = ""


@dataclass(slots=True)
class Linted(Planned):
    """The repairs, and what a person should know."""

    findings: tuple[Finding, ...] = ()


def plan(view: View, now: datetime) -> Linted:
    """Look at every memory's file once."""
    paths = view.paths()
    places = _places(view)
    findings: list[Finding] = []
    linted = Linted()
    for path in sorted(paths):
        if path.startswith("sessions/"):
            continue
        data = view.read(path)
        if data is None:
            continue
        findings += [Finding("conformance", path, problem) for problem in okf.conformance(path, data)]
        document = okf.parse(data)
        findings += _broken_links(path, document.body, paths)
        findings += _orphan(path, document.meta, places)
        repair, leaked = _without_secrets(view, path, data)
        findings += leaked
        repair = repair or _moved_sources(view, path, data, document.meta, places)
        if repair:
            linted.actions.append(repair)
            linted.count("repaired")
    findings += _index_against_files(view, paths)
    findings += _unread_sessions(view)
    linted.findings = tuple(findings)
    for finding in findings:
        linted.count(f"{finding.check} problems")
    return linted


def _places(view: View) -> dict[NodeId, str]:
    """Where every session and memory lies."""
    return view.session_paths() | {memory.node_id: memory.path for memory in view.memories()}


def _broken_links(path: str, body: str, paths: set[str]) -> Iterator[Finding]:
    for target in dict.fromkeys(_LINK.findall(body)):
        if target.removeprefix("/") not in paths:
            yield Finding("links", path, f"it links to {target}, which is not there")


def _orphan(path: str, meta: Mapping[str, Any], places: Mapping[NodeId, str]) -> Iterator[Finding]:
    """A memory that a dream made, of whose evidence nothing is left."""
    if not meta.get("run"):
        return
    cited = [entry.get("title", "") for entry in _sources(meta)]
    if not any(str(node_id).partition("#")[0] in places for node_id in cited):
        yield Finding("orphans", path, "nothing that it rests on is there any more")


def _without_secrets(view: View, path: str, data: bytes) -> tuple[Action | None, list[Finding]]:
    """Take a secret out of what a dream wrote; of what a person wrote, say so."""
    text = data.decode("utf-8", "replace")
    redacted = redact(text)
    if not redacted.found:
        return None, []
    kinds = ", ".join(sorted(set(redacted.found)))
    document = okf.parse(data)
    if not document.meta.get("run") or document.problem or (BY_HAND in document.meta and is_edited(data)):
        node_id = str(document.meta.get("node_id") or okf.node_id_of_path(path))
        return None, [Finding("secrets", path, f"it holds a secret ({kinds})", node_id)]
    clean = redacted.text.encode()
    if BY_HAND in document.meta:
        clean = okf.edit(clean, {BY_HAND: body_hash(okf.parse(clean).body)})
    return _replace(view, path, document.meta, clean, f"a secret was taken out ({kinds})"), []


def _moved_sources(
    view: View, path: str, data: bytes, meta: Mapping[str, Any], places: Mapping[NodeId, str]
) -> Action | None:
    """Let sources point to where their files lie now."""
    entries = _sources(meta)
    mended = []
    for entry in entries:
        place = places.get(str(entry.get("title", "")).partition("#")[0])
        is_ours = re.fullmatch(r"[tm]\d+", str(entry.get("id", "")))
        mended.append(entry | {"resource": f"/{place}"} if place and is_ours else entry)
    if mended == entries or not meta.get("node_id"):
        return None
    return _replace(view, path, meta, okf.edit(data, {"sources": mended}), "its sources have moved")


def _replace(view: View, path: str, meta: Mapping[str, Any], content: bytes, reason: str) -> Action:
    return Action(
        kind=ActionKind.REPLACE,
        path=path,
        node_id=str(meta.get("node_id") or okf.node_id_of_path(path)),
        stage=STAGE,
        reason=reason,
        pre_sha256=view.pre_sha256(path),
        content=content,
    )


def _sources(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = meta.get("sources")
    return [dict(entry) for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def _index_against_files(view: View, paths: set[str]) -> Iterator[Finding]:
    indexed = view.indexed_paths()
    proposed = {action.path for action in view.actions}
    for path in sorted(paths - indexed.keys() - proposed):
        yield Finding("index", path, "the index has not seen it")
    for path in sorted(indexed.keys() - paths):
        yield Finding("index", path, "the index knows it and the file is gone")
    for path, problem in sorted(indexed.items()):
        if problem and path.startswith("sessions/"):
            yield Finding("sessions", path, problem)


def _unread_sessions(view: View) -> Iterator[Finding]:
    for session in view.sessions():
        read_to = view.cursor(consolidate.STAGE, session.session_id)
        if read_to < session.last_ordinal:
            missing = session.last_ordinal - read_to
            yield Finding("sessions", session.path, f"{missing} of its turns have not been read by a dream")
