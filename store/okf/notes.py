"""A note, also of another program: its title, date and links by Obsidian's rules, and frontmatter in TOML."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

TITLE_CHARS = 200
DATE_KEYS = (
    *("date", "created", "created_at", "date created", "timestamp"),
    *("updated", "updated_at", "modified", "date modified", "lastmod"),
)
"""Where programs write a note's day, the one that it is about before those of its last change."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_H1 = re.compile(r" {0,3}#[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}=+[ \t]*")
_DAY = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_SLASHED_DAY = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})(?!\d)(.*)")
_DAYS_AS_NUMBERS = range(1000_01_01, 3000_01_01)  # 20261120; as seconds these would be days of 1970
_FIRST, _LAST = datetime(2, 1, 1, tzinfo=UTC), datetime(9998, 12, 31, tzinfo=UTC)
"""A year from the ends of the calendar: an instant leaves it in no time zone, and by nothing that is added to it."""

_TOML_OPENING = re.compile(rb"(?:\xef\xbb\xbf)?\+\+\+[ \t]*\r?\n")
_TOML_CLOSING = re.compile(rb"\n\+\+\+[ \t]*(?:\r?\n|\Z)")
MOST_TOML_BYTES = 2**16
NAMES_IN_TOML = {
    "name": "title",
    "heading": "title",
    "summary": "description",
    "author": "said_by",
    "labels": "tags",
    "categories": "tags",
    "keywords": "tags",
    "created_on": "created",
}
"""Keys of older records by those that they are read as, where a record does not have these as well."""

TEXTS_IN_TOML = ("text", "content", "body")
"""The keys that hold a record's text where none stands below its frontmatter."""

_MILLISECONDS_FROM = 1e11  # as seconds this is the year 5138; a larger number counts milliseconds


MOST_REFERENCES = 500
"""The links of a text that are read: a page with more is a list of everything."""

# Blocks and spans of code, and comments, in which nothing is a link. An open fence ends with the text.
_CODE = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<span>`++)(?:(?!\n\s*\n).)*?(?<!`)(?P=span)(?!`)|<!--(?:(?!<!--).)*?-->",
    re.DOTALL | re.MULTILINE,
)
_WIKI_LINK = re.compile(r"\[\[([\w/.][^\[\]\n|#^\\]{0,199})(?:[#^][^\[\]\n|]{0,200})?(?:\\?\|[^\[\]\n]{0,200})?\]\]")
_BODY_LINK = re.compile(r"(?<!!)\[[^\]\n]{0,400}\]\(<?([^)\s<>#:]{1,400}\.md)(?:#[^)\s>]{0,400})?>?\)")


class Reference(NamedTuple):
    """A link in a text: its target as it was written, a path with `is_path`, else a name or a path without suffix."""

    target: str
    is_path: bool = False

    def __str__(self) -> str:
        """Return the target as a person sees it in the text."""
        return self.target if self.is_path else f"[[{self.target}]]"


def references_in(text: str) -> list[Reference]:
    """Return the links to other notes in a text, in its order, each once; none of those in code and comments."""
    if "](" not in text and "[[" not in text:
        return []
    plain = _CODE.sub(" ", text)
    found = [(one.start(), Reference(one[1].strip().removesuffix(".md"))) for one in _WIKI_LINK.finditer(plain)]
    found += [(one.start(), Reference(unquote(one[1]), is_path=True)) for one in _BODY_LINK.finditer(plain)]
    return list(dict.fromkeys(one for _, one in sorted(found)))[:MOST_REFERENCES]


def title_of(path: str, meta: Mapping[str, Any], body: str) -> str:
    """Return the frontmatter's `title`, else the first heading of level 1, else the file's name."""
    given = meta.get("title")
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        given = str(given)
    named = given if isinstance(given, str) and given.strip() else next(_headings(body), "")
    return _line(named) or _line(PurePosixPath(path).stem) or "untitled"


def date_of(path: str, meta: Mapping[str, Any]) -> datetime | None:
    """Return the frontmatter's date, else the YYYY-MM-DD in the file's name; None where neither says one."""
    generated = meta.get("generated")
    written = [meta.get(key) for key in DATE_KEYS] + [generated.get("at") if isinstance(generated, Mapping) else None]
    named = next((at for value in written if (at := instant(value)) is not None), None)
    return named or _day_in(PurePosixPath(path).stem)


def has_unreadable_date(meta: Mapping[str, Any]) -> bool:
    """Return True if the frontmatter gives a date and none that can be read."""
    given = [value for key in DATE_KEYS if (value := meta.get(key)) not in (None, "")]
    return bool(given) and all(instant(value) is None for value in given)


def toml_record(data: bytes) -> tuple[dict[str, Any], str, str | None] | None:
    """Return the keys and the text of a file with frontmatter between lines of `+++`, and its problem, if it has one.

    None for any other file. The keys are ours where they mean the same; others stay, also within tables. Instants are
    strings, as in YAML's.
    """
    opening = _TOML_OPENING.match(data)
    closing = _TOML_CLOSING.search(data, opening.end() - 1) if opening else None
    if opening is None or closing is None:
        return None
    import tomllib

    written = data[opening.end() : closing.start() + 1]

    meta: dict[str, Any] | None = None
    if len(written) <= MOST_TOML_BYTES:
        # A TOMLDecodeError and a UnicodeDecodeError are ValueErrors.
        with contextlib.suppress(ValueError, RecursionError):
            meta = _as_json(tomllib.loads(written.decode().replace("\r\n", "\n")))
    if meta is None:
        return {}, data.decode("utf-8", "replace"), "its frontmatter in TOML cannot be read"
    taxonomies = meta.get("taxonomies")  # Zola's
    if isinstance(taxonomies, dict) and "tags" in taxonomies:
        meta.setdefault("tags", taxonomies["tags"])
    for name, ours in NAMES_IN_TOML.items():
        if name in meta and ours not in meta:
            meta[ours] = meta.pop(name)
    body = data[closing.end() :].decode("utf-8", "replace")
    key = next((key for key in TEXTS_IN_TOML if isinstance(meta.get(key), str)), None)
    if key is not None and not body.strip():
        body = f"\n{meta.pop(key).strip()}\n"
    return meta, body, None


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_json(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in value]
    return value.isoformat() if isinstance(value, (datetime, date, time)) else value


def in_calendar(at: datetime) -> datetime | None:
    """Return an aware instant; None for one that is too near to an end of the calendar to be reckoned with."""
    return at if _FIRST <= at <= _LAST else None


def instant(value: object) -> datetime | None:
    """Read ISO 8601, `2026/11/20`, 20261120, or epoch seconds or milliseconds; without an offset it is UTC.

    None for any other value, and for one outside the calendar.
    """
    try:
        if isinstance(value, datetime):
            return in_calendar(_aware(value))
        if isinstance(value, str):
            text = value.strip()
            if slashed := _SLASHED_DAY.fullmatch(text):
                text = f"{slashed[1]}-{int(slashed[2]):02}-{int(slashed[3]):02}{slashed[4]}"
            return in_calendar(_aware(datetime.fromisoformat(text)))
        # Checked before seconds are: as those such a number would be a day of August 1970.
        if isinstance(value, int) and value in _DAYS_AS_NUMBERS:
            return _aware(datetime.fromisoformat(str(value)))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return in_calendar(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _headings(body: str) -> Iterator[str]:
    """Yield the headings of level 1, after `#` or underlined with `=`, outside of code blocks."""
    fence, above = "", ""
    for line in body.splitlines():
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        elif mark:
            fence, above = mark[1], ""
        elif heading := _H1.fullmatch(line):
            above = ""
            if heading[1].strip("# \t"):
                yield heading[1]
        elif above and _UNDERLINE.fullmatch(line):
            yield above
            above = ""
        else:
            above = line.strip()


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1].rsplit(" ", 1)[0] + "…"


def _day_in(name: str) -> datetime | None:
    for found in _DAY.finditer(name):
        try:
            return datetime(int(found[1]), int(found[2]), int(found[3]), tzinfo=UTC)
        except ValueError:
            continue
    return None


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
