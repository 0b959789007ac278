"""Text and instants from other programs, made fit to keep: no control characters, recalled text or endless pastes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from ...store import bounds_of_secret, in_calendar, redact, without_controls, without_element, without_recalled

# About 25,000 tokens: longer text was pasted, not written.
MAX_TURN_CHARS = 100_000
# As seconds this is the year 5138; larger numbers count milliseconds.
_MILLISECONDS_FROM = 1e11


def tidy(text: str) -> str:
    """Drop terminal colours, control characters, lone surrogates and recalled memories; bound the length."""
    text = without_controls(without_recalled(text))
    return shorten(text.strip(), MAX_TURN_CHARS // 2, MAX_TURN_CHARS // 2)


def shorten(text: str, head: int, tail: int, kept: Callable[[str], Sequence[str]] = lambda _: ()) -> str:
    """Keep the first `head` and the last `tail` characters, with a note of how many were left out.

    `kept` returns the lines of what is left out that are kept all the same. Secrets are redacted first: the rules
    would not recognise a secret that was cut in two, or cut from its name. An identifier of a person is left out as a
    whole where it would be cut: the store decides whether those are kept.
    """
    # Redacting is slow, so only a text that would be cut is redacted; that may make it short enough.
    if _is_short(text, head, tail) or _is_short(text := redact(text).text, head, tail):
        return text
    end, begin = bounds_of_secret(text, head)[0], bounds_of_secret(text, len(text) - tail)[1]
    lines = "".join(f"{line.strip()}\n" for line in kept(text[end:begin]))
    return text[:end].rstrip() + _gap(max(0, begin - end - len(lines))) + lines + text[begin:].lstrip()


def first_line(text: str, limit: int) -> str:
    """Return the first line that is not blank, cut at a word."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) > limit:
        line = redact(line).text  # before it is cut, see `shorten`
    return line if len(line) <= limit else line[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


def element(text: str, tag: str) -> str | None:
    """Return the content of the first `<tag>…</tag>`, None without one."""
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    return None if start < 0 or end < 0 else text[start + len(tag) + 2 : end].strip()


def without_elements(text: str, tags: Iterable[str]) -> str:
    """Return the text without every `<tag>…</tag>` of these tags."""
    for tag in tags if "<" in text else ():
        text = without_element(text, tag)
    return text


def instant(value: object) -> datetime | None:
    """Parse an aware instant from ISO 8601 (UTC without an offset) or from epoch seconds or milliseconds.

    None for other values, and outside the calendar. Every reader parses its instants here.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return in_calendar(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return in_calendar(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _is_short(text: str, head: int, tail: int) -> bool:
    left_out = len(text) - head - tail
    return left_out <= len(_gap(left_out))


def _gap(left_out: int) -> str:
    return f"\n[… {left_out:,} characters left out …]\n"
