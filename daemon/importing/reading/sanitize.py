"""Outside text made fit to keep: no control characters, no recalled memories, no endless pastes."""

from __future__ import annotations

from ....store import bounds_of_secret, redact, without_controls, without_recalled

MAX_TURN_CHARS = 100_000  # about 25,000 tokens: what is longer was pasted, not said


def tidy(text: str) -> str:
    """Drop terminal colours and control characters, lone surrogates, recalled memories; bound the length."""
    text = without_controls(without_recalled(text))
    return shorten(text.strip(), MAX_TURN_CHARS // 2, MAX_TURN_CHARS // 2)


def shorten(text: str, head: int, tail: int) -> str:
    """Keep the first `head` and the last `tail` characters, and say how many went.

    Secrets go first: one that was cut in two, or from its name, is not known for one any more. An identifier of a
    person is left out as a whole where it would be cut: whether those are kept is the store's to say.
    """
    if _is_short(text, head, tail) or _is_short(text := redact(text).text, head, tail):
        return text
    end, begin = bounds_of_secret(text, head)[0], bounds_of_secret(text, len(text) - tail)[1]
    return text[:end].rstrip() + _gap(begin - end) + text[begin:].lstrip()


def first_line(text: str, limit: int) -> str:
    """Return the first line that has words, cut at a word."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) > limit:
        line = redact(line).text  # as a whole, see `shorten`
    return line if len(line) <= limit else line[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:") + "…"


def element(text: str, tag: str) -> str | None:
    """Return the content of the first `<tag>…</tag>`, if there is one."""
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    return None if start < 0 or end < 0 else text[start + len(tag) + 2 : end].strip()


def _is_short(text: str, head: int, tail: int) -> bool:
    left_out = len(text) - head - tail
    return left_out <= len(_gap(left_out))


def _gap(left_out: int) -> str:
    return f"\n[… {left_out:,} characters left out …]\n"
