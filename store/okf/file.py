"""A markdown file of the Open Knowledge Format (v0.2, readable by v0.1 consumers): frontmatter and body.

A file is YAML between two lines of `---`, and a body; older records with TOML between lines of `+++` are read too.
Unchanged parts keep their bytes: `edit` replaces the lines of the given keys and no others; comments and order stay.

The keys that a person reads stand first, one a line; those for dreamd are one line, the mapping under BLOCK. Readers
see one mapping of keys, wherever each stands: files of before have every key on a line of its own, and stay so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import yaml

from ..model import InvalidInput, Status
from . import frontmatter, notes
from .frontmatter import (
    PLAIN,
    PLAIN_IN_FLOW,
    Loader,
    MalformedFrontmatter,
    after_colon,
    compose,
    entry,
    scalar,
    written,
)

MOST_FRONTMATTER_BYTES = 2**16
"""YAML is read at about 50 KB a second; no frontmatter of a person's is longer."""

BLOCK: Final = "dreamd"
"""The key under which the keys in INNER stand, in one line."""

INNER: Final = frozenset(
    "node_id level kind channel scope session_id agent_id task_id user_id cwd valid_from tense certainty provenance"
    " supersedes superseded_by contradicts later relates said_at days slot archived_at run learned_at ordinal worth"
    " reply standing preference body_sha256 edited_at same_as reinforced began ended told steps held_at searched"
    " curated skill proposals awaits_review not_names decided_by relations not_relations mentions inferred_tags"
    " colleague".split()
)
"""The keys that dreamd needs and a person seldom reads."""

_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*(\r?\n)")
_CLOSING = re.compile(rb"\n---[ \t]*(?:\r?\n|\Z)")
_LOG_DATE = re.compile(r"^##[ \t]+(.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OkfFile:
    """A file as it was read. With a `problem` of its frontmatter `meta` is empty, and `body` all of the text."""

    meta: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Parts:
    """A file's bytes, cut: opening line, YAML, closing line, body; `newline` is the one that the opening line has."""

    opening: bytes
    yaml: bytes
    closing: bytes
    body: bytes
    newline: bytes


def parse(data: bytes) -> OkfFile:
    """Read a file. Never raises: one that cannot be read has a `problem`. Instants stay strings."""
    parts = _cut(data)
    if parts is None and (record := notes.toml_record(data)) is not None:
        return OkfFile(*record)
    if parts is None:
        problem = "its frontmatter is never closed" if _OPENING.match(data) else None
        return OkfFile({}, data.decode("utf-8", "replace"), problem or _utf8_problem(data))
    if len(parts.yaml) > MOST_FRONTMATTER_BYTES:
        return OkfFile({}, data.decode("utf-8", "replace"), "its frontmatter is too long (over 64 KiB)")
    try:
        meta = frontmatter.load(parts.yaml.decode())
    except UnicodeDecodeError:
        return OkfFile({}, data.decode("utf-8", "replace"), "its frontmatter is not UTF-8")
    except MalformedFrontmatter as malformed:
        return OkfFile({}, data.decode("utf-8", "replace"), str(malformed))
    return OkfFile(_flattened(meta), parts.body.decode("utf-8", "replace"), _utf8_problem(parts.body))


def render(meta: Mapping[str, Any], body: str, *, is_flat: bool = False) -> bytes:
    """Return a file of these keys, in this order, and this body; `is_flat` puts every key on a line of its own."""
    inner = {} if is_flat else {key: value for key, value in meta.items() if key in INNER}
    lines = [frontmatter.entry(key, value, is_flat=is_flat) for key, value in meta.items() if key not in inner]
    lines += [frontmatter.entry(BLOCK, inner)] if inner else []
    return frontmatter.encode("".join(("---\n", *lines, "---\n", body)))


def edit(data: bytes, changes: Mapping[str, Any], *, add_frontmatter: bool = False) -> bytes:
    """Set top-level keys, or remove those given as None; every byte of the others, the comments and the body stays.

    A key that already has the value is not touched; a changed one keeps its style where it can. Raises InvalidInput
    for a file without readable frontmatter, unless `add_frontmatter` and it has none.
    """
    if not changes:
        return data
    parts = _cut(data)
    if parts is None and (record := notes.toml_record(data)) is not None:
        meta, body, problem = record
        if problem is not None:
            raise InvalidInput(f"the frontmatter cannot be edited: {problem}", "Repair it by hand first.")
        # TOML has no null, and no writer of its own here: the record becomes a file of ours, with all its keys.
        return render({key: value for key, value in (meta | dict(changes)).items() if value is not None}, body)
    if parts is None:
        if not add_frontmatter or _OPENING.match(data):
            raise InvalidInput("the file has no frontmatter to edit", "Give it one: '---', a 'type', '---'.")
        return render({key: value for key, value in changes.items() if value is not None}, "\n") + data
    try:
        text = parts.yaml.decode()
        edited = _edit_yaml(text, _placed(text, changes), parts.newline.decode())
    except (UnicodeDecodeError, MalformedFrontmatter) as malformed:
        raise InvalidInput(f"the frontmatter cannot be edited: {malformed}", "Repair it by hand first.") from malformed
    return b"".join((parts.opening, edited.encode(), parts.closing, parts.body))


def with_body_of(data: bytes, other: bytes) -> bytes:
    """Return a file with the body of another one, its frontmatter byte for byte. Raises InvalidInput without one."""
    parts, others = _cut(data), _cut(other)
    if parts is None or others is None:
        raise InvalidInput("the file has no frontmatter", "Give it one: '---', a 'type', '---'.")
    return b"".join((parts.opening, parts.yaml, parts.closing, others.body))


def has_frontmatter(data: bytes) -> bool:
    """Return True if a file begins with frontmatter that is closed, readable or not."""
    return _cut(data) is not None


def _cut(data: bytes) -> _Parts | None:
    opening = _OPENING.match(data)
    if opening is None:
        return None
    closing = _CLOSING.search(data, opening.end() - 1)
    if closing is None:
        return None
    start, end = opening.end(), closing.start() + 1
    return _Parts(data[:start], data[start:end], data[end : closing.end()], data[closing.end() :], opening[1])


def _utf8_problem(data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError:
        return "it is not UTF-8"
    return None


def _flattened(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return all keys as one mapping; one on a line of its own counts before the same key in the block."""
    block = meta.get(BLOCK)
    if not isinstance(block, dict):
        return meta
    return {key: value for key, value in meta.items() if key != BLOCK} | {
        key: value for key, value in block.items() if key not in meta
    }


def _placed(text: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the changes to the keys of a frontmatter as it is written: those of its block as one change of that."""
    meta = frontmatter.load(text)
    block = meta.get(BLOCK)
    if not isinstance(block, dict):
        return changes
    inner = {key: value for key, value in changes.items() if key not in meta and (key in block or key in INNER)}
    merged = {key: value for key, value in (block | written(inner)).items() if key not in inner or value is not None}
    placed = {key: value for key, value in changes.items() if key not in inner}
    return placed if merged == block else placed | {BLOCK: merged or None}


# ---- editing of single keys


def _edit_yaml(text: str, changes: Mapping[str, Any], newline: str) -> str:
    """Set or (None) remove top-level keys. Raises MalformedFrontmatter if that would touch other keys."""
    before = frontmatter.load(text)
    wanted = {key: written(value) for key, value in changes.items()}
    changed = {
        key: value
        for key, value in wanted.items()
        if (key in before if value is None else key not in before or not _same(value, before[key]))
    }
    if not changed:
        return text
    after = {key: value for key, value in (before | wanted).items() if key not in wanted or value is not None}
    # Edit in the style of the old value, then in ours; whatever does not read back as wanted is not written.
    for keep_style in (True, False):
        edited = _splice(text, changed, newline, keep_style=keep_style)
        try:
            if _same(frontmatter.load(edited), after):
                return edited
        except MalformedFrontmatter:
            continue
    raise MalformedFrontmatter("its layout is too unusual to change one key alone")


@dataclass(frozen=True, slots=True)
class _KeyPlace:
    """Where a top-level key is: [start, end) without the rest of its last line, which ends at `line_end`."""

    key: str
    start: int
    end: int
    line_end: int
    key_end: int
    value: yaml.Node


def _splice(text: str, changed: Mapping[str, Any], newline: str, *, keep_style: bool) -> str:
    root = compose(text)
    if root is not None and root.flow_style:
        raise MalformedFrontmatter("its frontmatter is one flow mapping")
    entries = list(_entries(text, root)) if root is not None else []
    pieces: list[str] = []
    position = 0
    done: set[str] = set()
    for found in entries:
        if found.key not in changed:
            continue
        value = changed[found.key]
        pieces.append(text[position : found.start])
        # YAML takes the last of two equal keys: all but the first that is edited are dropped.
        if value is None or found.key in done:
            position = found.line_end
            continue
        done.add(found.key)
        pieces.append(text[found.start : found.key_end])
        pieces.append(_replacement(text, found, value, newline) if keep_style else after_colon(value, newline))
        position = found.end
    pieces.append(text[position:])
    indent = " " * root.start_mark.column if root is not None else ""
    for key, value in changed.items():
        if value is not None and key not in done:
            pieces.append(indent + entry(key, value, newline).replace("\n", "\n" + indent).removesuffix(indent))
    return "".join(pieces)


def _entries(text: str, root: yaml.MappingNode) -> Iterator[_KeyPlace]:
    for key, value in root.value:
        start = text.rfind("\n", 0, key.start_mark.index) + 1 if key.start_mark.column else key.start_mark.index
        if value.start_mark.index < key.end_mark.index:  # an alias: the node is elsewhere
            end = value_start = text.index("\n", key.end_mark.index)
        else:
            end, value_start = max(_end_of(text, value), key.end_mark.index), value.start_mark.index
        colon = text.index(":", key.end_mark.index)
        line_end = text.find("\n", end)
        yield _KeyPlace(
            key=frontmatter.key_text(key.value) if not isinstance(key.value, str) else key.value,
            start=start,
            end=max(end, colon + 1),
            line_end=len(text) if line_end < 0 else line_end + 1,
            key_end=colon + 1,
            value=value if value_start == value.start_mark.index else yaml.ScalarNode("", ""),
        )


def _end_of(text: str, node: yaml.Node) -> int:
    """Where a value really ends; the loader's own mark of a block lies behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return max(_end_of(text, part) for part in (last if isinstance(last, tuple) else (last,)))
    end: int = node.end_mark.index
    # The mark of a block scalar lies behind the empty lines and comments that follow it, which are not its own.
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        kept = text[node.start_mark.index : end].split("\n")
        while len(kept) > 1 and not kept[-1].strip():
            kept.pop()
        end = node.start_mark.index + len("\n".join(kept).removesuffix("\r"))
    return end


def _replacement(text: str, found: _KeyPlace, value: Any, newline: str) -> str:
    """Return the text after the colon, in the style of the old value."""
    node = found.value
    gap = text[found.key_end : node.start_mark.index] if node.start_mark else " "
    gap = gap if gap and not gap.strip(" ") else " "
    if isinstance(value, str) and isinstance(node, yaml.ScalarNode):
        return gap + _styled(value, node.style, in_flow=False)
    if isinstance(node, yaml.CollectionNode) and node.flow_style and _holds_more(value):
        return gap + frontmatter.flow(value)
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode) and value and not _holds_collections(value):
        if node.flow_style:
            return (
                f"{gap}[{', '.join(_styled(item, _style_at(node, n), in_flow=True) for n, item in enumerate(value))}]"
            )
        indent = " " * max(node.start_mark.column, 0)
        styles = (_style_at(node, n) for n in range(len(value)))
        return "".join(
            f"{newline}{indent}- {_styled(item, style, in_flow=False)}"
            for item, style in zip(value, styles, strict=True)
        )
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode) and node.flow_style and value:
        styles_of = {key.value: inner.style for key, inner in node.value if isinstance(inner, yaml.ScalarNode)}
        if not _holds_collections(list(value.values())):
            pad = " " if text[node.start_mark.index + 1] == " " else ""
            pairs = (
                f"{scalar(key, PLAIN_IN_FLOW)}: {_styled(item, styles_of.get(key), in_flow=True)}"
                for key, item in value.items()
            )
            return f"{gap}{{{pad}{', '.join(pairs)}{pad}}}"
    return after_colon(value, newline)


def _holds_collections(values: list[Any]) -> bool:
    return any(isinstance(value, (list, dict)) for value in values)


def _holds_more(value: Any) -> bool:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return _holds_collections(inner)


def _style_at(node: yaml.SequenceNode, index: int) -> str | None:
    item = node.value[min(index, len(node.value) - 1)] if node.value else None
    return item.style if isinstance(item, yaml.ScalarNode) else None


def _styled(value: Any, style: str | None, *, in_flow: bool) -> str:
    if not isinstance(value, str):
        return scalar(value)
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not style and _reads_plain(value, in_flow=in_flow):
        return value
    if style == '"':
        return scalar(value, _NEVER)
    return scalar(value, PLAIN_IN_FLOW if in_flow else PLAIN)


_NEVER = re.compile(r"(?!)")


def _reads_plain(value: str, *, in_flow: bool) -> bool:
    """Return True if the YAML loader reads these characters, unquoted, as this very string."""
    if not value or not value.isprintable():
        return False
    try:
        node = yaml.compose(f"[{value}]" if in_flow else f"k: {value}", Loader=Loader)
    except yaml.YAMLError:
        return False
    if not isinstance(node, yaml.CollectionNode):
        return False
    items = node.value if in_flow else node.value[0][1:]
    return (
        len(items) == 1
        and isinstance(items[0], yaml.ScalarNode)
        and not items[0].style
        and items[0].tag == "tag:yaml.org,2002:str"
        and items[0].value == value
    )


def _same(a: Any, b: Any) -> bool:
    """Compare so that 1, 1.0 and true differ, and one NaN equals another."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


# ---- conformance


def conformance(path: str, data: bytes, doc: OkfFile | None = None) -> list[str]:
    """List the violations of OKF v0.2 (its sections 3.1, 5, 8, 9, 11) in a file; an empty list means that it conforms.

    `doc` is the parsed file, for callers that have it already.
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


def _index_problems(path: str, doc: OkfFile, *, has_frontmatter: bool) -> list[str]:
    if not has_frontmatter:
        return []
    if path != "index.md":
        return ["only the index.md at the root may have frontmatter"]
    return [f"the root index.md may say okf_version only, not {key!r}" for key in doc.meta if key != "okf_version"]


def _log_problems(doc: OkfFile) -> list[str]:
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
