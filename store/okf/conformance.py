"""Conformance: what in a file is not Open Knowledge Format v0.2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from ..model import Status
from .document import Document, has_frontmatter, parse

_LOG_DATE = re.compile(r"^##[ \t]+(.*?)[ \t]*$", re.MULTILINE)


def conformance(path: str, data: bytes, doc: Document | None = None) -> list[str]:
    """List the violations of OKF v0.2 (its sections 3.1, 5, 8, 9, 11) in a file; an empty list means that it conforms.

    `doc` is what `parse` makes of it, for callers that have parsed it already.
    """
    name = path.rpartition("/")[2]
    doc = doc or parse(data)
    problems = [f"{doc.problem}"] if doc.problem else []
    if name == "index.md":
        return problems + _index_problems(path, doc, has_frontmatter=has_frontmatter(data))
    if name == "log.md":
        return problems + _log_problems(doc)
    if doc.problem:
        return problems
    if not has_frontmatter(data):
        return ["it has no frontmatter"]
    return _concept_problems(doc.meta)


def _index_problems(path: str, doc: Document, *, has_frontmatter: bool) -> list[str]:
    if not has_frontmatter:
        return []
    if path != "index.md":
        return ["only the index.md at the root may have frontmatter"]
    return [f"the root index.md may say okf_version only, not {key!r}" for key in doc.meta if key != "okf_version"]


def _log_problems(doc: Document) -> list[str]:
    days = []
    problems = []
    for heading in _LOG_DATE.findall(doc.body):
        try:
            days.append(date.fromisoformat(heading))
        except ValueError:
            problems.append(f"the heading {heading!r} is not a day as YYYY-MM-DD")
    if days != sorted(days, reverse=True):
        problems.append("its days are not newest first")
    return problems


def _concept_problems(meta: Mapping[str, Any]) -> list[str]:
    problems = []
    kind = meta.get("type")
    if not isinstance(kind, str) or not kind.strip():
        problems.append("it has no type")
    generated = meta.get("generated")
    if generated is not None and not (isinstance(generated, Mapping) and generated.get("by")):
        problems.append("'generated' does not say by whom")
    sources = meta.get("sources")
    if sources is not None and not (
        isinstance(sources, list) and all(isinstance(entry, Mapping) and entry.get("resource") for entry in sources)
    ):
        problems.append("a source names no resource")
    if meta.get("status", "stable") not in list(Status):
        problems.append("'status' is none of draft, stable, deprecated")
    if kind == "Attested Computation" and not meta.get("runtime"):
        problems.append("an Attested Computation names no runtime")
    return problems
