"""Numbers, times and filters on the command line, checked before the daemon is asked."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ipc.protocol import KEPT_KINDS

if TYPE_CHECKING:
    from datetime import datetime, timedelta


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is no whole number") from None
        if not least <= number <= most:
            raise ArgumentTypeError(f"{number} is not between {least:,} and {most:,}")
        return number

    return read


def day(text: str) -> str:
    """Parse a day like 2026-11-21."""
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no day like 2026-11-21") from None


# The minutes of each unit of a duration.
MINUTES = {"m": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}

NODE_HELP = "the id of a memory (a node), as recall and list print it, or six or more of its first characters"

LEVELS = ("L0", "L1", "L2", "L3")

KINDS = (*KEPT_KINDS, "turn", "session", "scenario", "insight", "profile")
FIELDS = ("level", "kind", "channel", "agent", "session", "task", "user", "tags", "entity")
FILTER_EXAMPLES = (
    ("--where kind=decision --since 30d", "decisions of the last 30 days"),
    ("--where tags=db,cache --not kind=turn", "tagged db or cache, and no turns"),
    ("--any entity=Ines --any user=ines", "about Ines, or of her sessions"),
    ("--where tags --until May", "tagged at all, and said by the end of May"),
    ('--filter \'{"must_not": [{"field": "kind", "in": ["turn", "fact"]}]}\'', "any filter (docs/protocol.md)"),
)


def budget_arguments(parser: ArgumentParser) -> None:
    """Declare the bounds of an answer beside its size."""
    parser.add_argument(
        "--min-score", type=share, metavar="S", help="only what is at least as sure (its confidence), 0 to 1"
    )
    parser.add_argument("--max-facts", type=whole(1, 1000), metavar="N", help="at most N memories in the answer")


def share(text: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no number") from None
    if not 0.0 <= number <= 1.0:
        raise ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def filter_arguments(parser: ArgumentParser, text: str = "") -> None:
    """Declare the options of a filter; `text` is the query in the examples of the help."""
    rule = f"given together, all must hold. A FIELD is one of\n  {', '.join(FIELDS)}"
    options = parser.add_argument_group("narrow it", rule)
    for option, name, does in (
        ("--where", "where", "FIELD is A or B; without a value: it has one (may be given again)"),
        ("--any", "any_of", "as --where; of several --any one must hold"),
        ("--not", "rule_out", "as --where, and leaves out what it finds"),
    ):
        options.add_argument(
            option, dest=name, action="append", default=[], type=field_test, metavar="FIELD[=A,B]", help=does
        )
    options.add_argument(
        "--since", type=since, metavar="WHEN", help="said then or later: 2026-11-01, May, last week, 30m, 12h, 7d"
    )
    options.add_argument("--until", type=until, metavar="WHEN", help="said by then, that day included")
    options.add_argument("--filter", type=wire_filter, metavar="JSON", help="a filter in the wire's own form")
    lines = [f"  {parser.prog} {text}{options}\n      {finds}" for options, finds in FILTER_EXAMPLES]
    parser.epilog, parser.formatter_class = "\n".join(["examples:", *lines]), RawDescriptionHelpFormatter


def chosen_filter(options: Namespace) -> dict[str, Any] | None:
    """Return the wire's filter of the options, None without any."""
    if options.filter is not None and not any(
        (options.where, options.any_of, options.rule_out, options.since, options.until)
    ):
        return dict(options.filter)
    times = {name: at for name, at in (("gte", options.since), ("lt", options.until)) if at}
    must = [*options.where, *([{"field": "time", "range": times}] if times else [])]
    must += [options.filter] if options.filter is not None else []
    parts = {"must": must, "should": options.any_of, "must_not": options.rule_out}
    return {name: tests for name, tests in parts.items() if tests} or None


def field_test(text: str) -> dict[str, Any]:
    """Parse a condition: `kind=decision,fact`, or `tags` for "has any"."""
    field, is_given, values = text.partition("=")
    if field not in FIELDS:
        known = f"{', '.join(FIELDS)}; for time --since and --until"
        raise ArgumentTypeError(f"there is no field {field!r}; there are {known}")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if is_given and not listed:
        raise ArgumentTypeError(f"{text!r} names no value, such as {field}=A or {field}=A,B")
    named = {"kind": KINDS, "level": LEVELS}.get(field)
    if named and (unknown := [value for value in listed if value not in named]):
        raise ArgumentTypeError(_no_such(field, unknown[0], named))
    return {"field": field, "in": listed} if listed else {"field": field, "exists": True}


def _no_such(field: str, value: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(value, known, n=1)
    return f"there is no {field} {value!r}; " + (f"did you mean {close[0]}?" if close else f"one of {', '.join(known)}")


def wire_filter(text: str) -> dict[str, Any]:
    """Parse a filter in JSON."""
    import json

    try:
        given = json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"it is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ArgumentTypeError('it is not a JSON object, such as {"field": "kind", "eq": "decision"}')
    return given


def since(text: str) -> str:
    """Parse an inclusive lower bound; a day begins at its local midnight."""
    return _moment(text)[0].isoformat()


def until(text: str) -> str:
    """Parse an exclusive upper bound; of a day its end."""
    at, day_long = _moment(text)
    return (at + day_long).isoformat()


def as_of(text: str) -> str:
    """Parse a moment in the past; of a day its last second."""
    from datetime import timedelta

    at, day_long = _moment(text)
    return (at + day_long - timedelta(seconds=bool(day_long))).isoformat()


def _moment(text: str) -> tuple[datetime, timedelta]:
    """Return a moment in this machine's zone, and its duration: a day, or zero."""
    from datetime import datetime, timedelta

    now = datetime.now().astimezone()
    if text[:-1].isdecimal() and len(text) <= 6 and text[-1] in MINUTES:
        return now - timedelta(minutes=int(text[:-1]) * MINUTES[text[-1]]), timedelta()
    named_day = {"today": now, "yesterday": now - timedelta(days=1)}.get(text)
    written = named_day.date().isoformat() if named_day else text
    try:
        at = datetime.fromisoformat(written).astimezone()
    except ValueError:
        return _named_days(text, now)
    # A text no longer than a date is a whole day, a longer one an instant.
    return at, timedelta(days=len(written) <= len("2026-11-21"))


def _named_days(text: str, now: datetime) -> tuple[datetime, timedelta]:
    """Parse days by their names in questions: "last week", "May", "gestern"."""
    from datetime import datetime, time, timedelta

    from ...store import find_asked

    # A bare "May" is no date in a question, "in May" is.
    for asked in (text, f"in {text}"):
        for found in find_asked(asked, now.date()):
            if (found.start, found.end) == (0, len(asked)):
                lasts = found.last - found.first + timedelta(days=1)
                return datetime.combine(found.first, time()).astimezone(), lasts
    known = "a day like 2026-11-21, an instant, last week, May, 30m (minutes), 12h, 7d or 2w"
    raise ArgumentTypeError(f"{text!r} is no time: give {known}")
