"""Secrets that no rule was made for: each issuer's keys without the lines that know them, and another author's corpus.

A key of the table of issuers is looked for with every issuer taken out that knows it: what is still gone is what a key
of an issuer that nobody listed may expect. A corpus is a folder with `secrets.jsonl` (`id`, `family`, `issuer`,
`context`, `text`, `secrets`) and `innocents.jsonl` (`id`, `group`, `text`), plain or packed by gzip: five lie in
`tests/data/secrets`. The rules were read against the first two, and the weights learned from the first four; nobody has
read what is missed of the fifth.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from dreamd.store.redaction import redact
from dreamd.store.redaction import redaction as rules
from dreamd.store.redaction.key_forms import SHAPES, Span, find_issued

from tests.store.redaction.test_issuers import example

from .documented_kinds import MARKED, PLACES_OF_UNMARKED, UNMARKED
from .documented_secrets import documented
from .planted_secrets import Planted, corpus
from .table import Row

LEAST_GONE = 0.96
WHOLE_CHARS = 12
"""Part of a shorter secret may stand in a text by chance: only the whole of it counts as left."""

_PART_OF_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY_BLOCK_MARK = "-----"


# ---- leave one issuer out


def leave_one_out(draws: int, *, read: bool = False) -> Iterator[Row]:
    """Measure issued keys, each without the issuers that know it: all, and by where they stand."""
    keys = [*_of_corpora(draws), *_of_table()]
    left = [one for one in keys if is_left(one, without_issuers=True)]
    _print(left if read else ())
    how = (
        f"{len(keys)} keys of {len({one.kind for one in keys})} kinds, without each line of the issuers that know them"
    )
    yield gone("keys gone, their issuers left out", keys, left, how)
    yield from by("keys gone, their issuers left out", "surrounding", keys, left)


def _of_corpora(draws: int) -> Iterator[Planted]:
    """Yield the keys of both corpora that an issuer gave, in the surroundings in which people have them."""
    yield from (one for one in corpus(draws) if one.family == "issued")
    kinds = {line.partition("|")[0] for line in f"{MARKED}{UNMARKED}".splitlines() if line}
    yield from (one for one in documented(random.Random(7), draws) if one.kind in kinds)


def _of_table() -> Iterator[Planted]:
    """Yield a key of each line of the product's table, in each surrounding that names its issuer."""
    for shape in SHAPES:
        rng = random.Random(shape.form)
        name = f"{re.sub(r'[^a-z0-9]', '_', shape.issuer)}_api_key"
        camel = re.sub(r"_(.)", lambda found: found[1].upper(), name)
        for where, places in PLACES_OF_UNMARKED.items():
            key = example(shape, rng)
            text = rng.choice(places).format(
                t=key, v=shape.issuer, E=name.upper(), e=name, c=camel, n=rng.randrange(3, 180)
            )
            yield Planted(shape.form, "table", where, text, (max(_PART_OF_KEY.findall(key), key=len),))


def is_left(one: Planted, *, without_issuers: bool = False) -> bool:
    """Return True if one of a secret's pieces stays in its text."""
    if not without_issuers:
        kept = redact(one.text).text
    else:
        with mock.patch.object(rules, "find_issued", _but_of(one)):
            kept = redact(one.text).text
    return any(piece in kept for piece in one.pieces)


def _but_of(one: Planted) -> Any:
    """Return `find_issued` without what it finds of one secret."""

    def others(text: str, lowered: str, candidates: Sequence[re.Match[str]]) -> Iterator[Span]:
        for start, end, kind in find_issued(text, lowered, candidates):
            found = text[start:end]
            if not any(piece in found or found in piece for piece in one.pieces):
                yield start, end, kind

    return others


# ---- another author's corpus


def secrets_of(folder: Path) -> Iterator[Planted]:
    """Read the secrets of a corpus."""
    for row in rows_of(folder / "secrets.jsonl"):
        yield Planted(row["issuer"], row["family"], row["context"], row["text"], _pieces(row["secrets"]))


def _pieces(secrets: Sequence[str]) -> tuple[str, ...]:
    """Return what may not be left: the first and the last three fifths of each line, or the whole of a short one."""
    lines = [line.strip() for secret in secrets for line in secret.splitlines()]
    pieces: list[str] = []
    for line in (line for line in lines if line and not line.startswith(_KEY_BLOCK_MARK)):
        size = len(line) if len(line) < WHOLE_CHARS else -(-len(line) * 3 // 5)
        pieces += {line[:size], line[-size:]}
    return tuple(pieces)


def of_corpus(folder: Path, *, read: bool = False) -> Iterator[Row]:
    """Measure a corpus: secrets gone, by family and by context, and innocent texts in which something was taken."""
    planted = list(secrets_of(folder))
    left = [one for one in planted if is_left(one)]
    _print(left if read else ())
    kinds = len({one.kind for one in planted})
    yield gone("unseen secrets gone", planted, left, f"{len(planted)} secrets of {kinds} issuers")
    yield from by("unseen secrets gone", "family", planted, left)
    yield from by("unseen secrets gone", "surrounding", planted, left)
    yield from _alarms(list(rows_of(folder / "innocents.jsonl")), read=read)


def _alarms(innocents: Sequence[dict[str, Any]], *, read: bool) -> Iterator[Row]:
    alarms = [one for one in innocents if redact(one["text"]).found]
    for one in alarms if read else ():
        print(f"alarm  {one['id']} {one['group']}: {redact(one['text']).text!r}")
    named = ", ".join(f"{one['id']} ({one['group']})" for one in alarms)
    yield Row("unseen innocents with an alarm", f"{len(alarms)} of {len(innocents)}", "", None, named)


def rows_of(file: Path) -> Iterator[dict[str, Any]]:
    packed = file.with_name(f"{file.name}.gz")
    text = gzip.decompress(packed.read_bytes()).decode() if packed.is_file() else file.read_text()
    yield from (json.loads(line) for line in text.splitlines() if line.strip())


# ---- rows


def _print(left: Iterable[Planted]) -> None:
    for one in left:
        print(f"left   {one.kind} ({one.family}, {one.surrounding}): {one.text!r}")


def gone(measure: str, planted: Sequence[Planted], left: Sequence[Planted], how: str) -> Row:
    """Return the share that is gone, held against the promise."""
    share = 1 - len(left) / max(1, len(planted))
    figures = f"{share:.1%}, {len(left)} of {len(planted)} left"
    return Row(measure, figures, f"at least {LEAST_GONE:.0%}", share >= LEAST_GONE, how)


def by(measure: str, part: str, planted: Sequence[Planted], left: Sequence[Planted]) -> Iterator[Row]:
    """Yield the share of each family or surrounding, which has no promise of its own."""
    for name in sorted({getattr(one, part) for one in planted}):
        of_all, of_left = ([one for one in some if getattr(one, part) == name] for some in (planted, left))
        kinds = ", ".join(sorted({one.kind for one in of_left})[:12])
        figures = f"{1 - len(of_left) / len(of_all):.1%}, {len(of_left)} of {len(of_all)} left"
        yield Row(f"{measure}, {part} {name}", figures, "", None, f"left: {kinds}" if kinds else "")
