"""Turns whose names and relations careful readers marked, as examples: `python -m tests.train.names_data`.

`data/names/*.jsonl` are invented exchanges, a line each, with marks as `[Graça|p1]`; `data/names/read/*.jsonl` are
marks of turns of the shared data, without their text; the lives' labels lie in `tests/data/people`.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dreamd.store.judges.name_reader import NAMED, PROJECT, RELATIONS, SPEAKER

from tests.bench.options import SHARED_DATA
from tests.train.examples import DATA

LETTERS = dict(zip("potjslcfexa", NAMED, strict=True))
PEOPLE = Path(__file__).parents[1] / "data" / "people"
_MARK = re.compile(r"\[([^\[\]|\n]+)\|([a-z])(\d+)\]")


@dataclass(frozen=True, slots=True)
class MarkedName:
    """A name in the words before (`part` 0) or the turn's own, what it names, and which of them it is."""

    part: int
    start: int
    end: int
    named: str
    identity: str


@dataclass(frozen=True, slots=True)
class NamesExample:
    """A turn with its names and its relations, by identities; `person` is who is left out with it."""

    person: str
    role: str
    text: str
    before: str
    names: tuple[MarkedName, ...]
    relations: tuple[tuple[str, str, str], ...]


def unmarked(part: int, marked: str) -> tuple[str, list[MarkedName]]:
    """Return a text without its marks, and the names that they gave."""
    text, names, last = "", [], 0
    for match in _MARK.finditer(marked):
        text += marked[last : match.start()]
        names.append(MarkedName(part, len(text), len(text) + len(match[1]), LETTERS[match[2]], match[2] + match[3]))
        text += match[1]
        last = match.end()
    return text + marked[last:], names


def of_line(person: str, line: Mapping[str, Any]) -> NamesExample:
    """Return the example of a line. Raises ValueError for a relation of an unknown type or end."""
    before, seen = unmarked(0, line.get("before") or "")
    text, names = unmarked(1, line["text"])
    known = {one.identity for one in (*seen, *names)} | {"me", "project"}
    relations = []
    for each in line["relations"]:
        subject, relation, object_ = each.split(":")[0].split()
        if relation not in RELATIONS or not {subject, object_} <= known:
            raise ValueError(f"{person}: {each!r} of {line['text']!r}")
        relations.append((_end(subject), relation, _end(object_)))
    return NamesExample(person, line["role"], text, before, (*seen, *names), tuple(relations))


def _end(identity: str) -> str:
    return {"me": SPEAKER, "project": PROJECT}.get(identity, identity)


def invented(folder: Path = DATA / "names") -> Iterator[NamesExample]:
    """Yield the examples of a folder's files, each file a person."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield of_line(path.stem, json.loads(line))


def read(folder: Path = DATA / "names" / "read") -> Iterator[NamesExample]:
    """Yield the marked turns of the shared data and of the project's own lives, each file a person."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            label = json.loads(line)
            texts = _strings(label["file"])
            number, start, end = label["text"]
            text, before = texts[number][start:end], ""
            if label["before"] is not None:
                number, start, end = label["before"]
                before = texts[number][start:end]
            names = tuple(MarkedName(part, s, e, LETTERS[one[0]], one) for part, s, e, one in label["names"])
            relations = [each.split() for each in label["relations"]]
            yield NamesExample(
                label["file"],
                label["role"],
                text,
                before,
                names,
                tuple((_end(subject), relation, _end(object_)) for subject, relation, object_ in relations),
            )


@cache
def _strings(file: str) -> list[str]:
    """Return every string of a file of JSON, in order: a label names a turn's text by its place there."""
    path = DATA / file.removeprefix("own:") if file.startswith("own:") else SHARED_DATA / file
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    lines = text.splitlines() if ".jsonl" in path.name else [text]
    return [one for line in lines if line.strip() for one in _strings_of(json.loads(line))]


def _strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings_of(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _strings_of(each)


_TYPES = {"path": "file"}


def of_lives() -> Iterator[NamesExample]:
    """Yield every turn of the labelled lives of the shared data."""
    for path in sorted(PEOPLE.glob("*.json")):
        labels = json.loads(path.read_text())
        life = json.loads((SHARED_DATA / "lives" / path.name).read_text())
        yield from _of_life(path.stem, life, labels)


def _of_life(person: str, life: Mapping[str, Any], labels: Mapping[str, Any]) -> Iterator[NamesExample]:
    kinds = {one["id"]: _TYPES.get(one["type"], one["type"]) for one in labels["entities"]}
    surfaces: dict[str, list[tuple[str, str]]] = {}
    for one in labels["entities"]:
        for turn, surface in one["mentions"]:
            surfaces.setdefault(turn, []).append((surface, one["id"]))
    stated: dict[str, list[Mapping[str, Any]]] = {}
    for each in labels["relations"]:
        stated.setdefault(each["turn"], []).append(each)
    for session in life["sessions"]:
        before, before_turn = "", ""
        for turn in session["turns"]:
            if turn["role"] not in ("user", "assistant"):
                continue
            here = f"{session['id']}#{turn['n']}"
            names = [
                *_places(0, before, surfaces.get(before_turn, ()), kinds),
                *_places(1, turn["text"], surfaces.get(here, ()), kinds),
            ]
            relations = []
            for each in stated.get(here, ()):
                subject = _end_of_life(each["subject"], names, kinds, before, turn["text"])
                object_ = _end_of_life(each["object"], names, kinds, before, turn["text"])
                if subject is not None and object_ is not None:
                    relations.append((subject, str(each["relation"]), object_))
            yield NamesExample(person, turn["role"], turn["text"], before, tuple(names), tuple(relations))
            before, before_turn = turn["text"], here


def _places(
    part: int, text: str, surfaces: Sequence[tuple[str, str]], kinds: Mapping[str, str]
) -> Iterator[MarkedName]:
    taken: set[int] = set()
    for surface, identity in sorted(surfaces, key=lambda one: -len(one[0])):
        for match in re.finditer(rf"(?<!\w){re.escape(surface)}(?!\w)", text):
            if not taken & set(range(*match.span())):
                taken |= set(range(*match.span()))
                yield MarkedName(part, *match.span(), kinds[identity], identity)


def _end_of_life(end: Any, names: list[MarkedName], kinds: Mapping[str, str], before: str, text: str) -> str | None:
    """Return the identity of a relation's end; an end that no word names is the project's or the speaker's."""
    if isinstance(end, Mapping):
        identity = f"text {end['text'].lower()}"
        for part, where in ((1, text), (0, before)):
            found = re.search(rf"(?<!\w){re.escape(end['text'])}(?!\w)", where, re.IGNORECASE)
            if found and not any(
                one.part == part and one.start < found.end() and found.start() < one.end for one in names
            ):
                names.append(MarkedName(part, *found.span(), "phrase", identity))
            if found:
                return next((n.identity for n in names if n.part == part and n.start <= found.start() < n.end), None)
        return None
    if any(one.identity == end for one in names):
        return str(end)
    if end is None:
        return SPEAKER
    return PROJECT if kinds.get(end) == "project" else None


# ---- the same scene with other names


@dataclass(frozen=True, slots=True)
class Pools:
    """Names by kind, from which an example's are exchanged."""

    of_kind: Mapping[str, Sequence[str]]

    def varied(self, example: NamesExample, rng: random.Random) -> NamesExample:
        """Return an example with some names exchanged, and sometimes all letters low or without accents."""
        chosen: dict[str, str] = {}
        for one in example.names:
            share = 0.7 if one.named == "person" else 0.25
            pool = self.of_kind.get(one.named, ())
            if one.identity not in chosen and pool and rng.random() < share:
                chosen[one.identity] = rng.choice(pool)
        # One surface stands for all mentions of an identity: a nickname becomes the same other name.
        texts = [example.before, example.text]
        names: list[MarkedName] = []
        for part in (0, 1):
            pieces, last, length = [], 0, 0
            for one in sorted((each for each in example.names if each.part == part), key=lambda each: each.start):
                written = texts[part][one.start : one.end]
                new = chosen.get(one.identity, written)
                if one.identity in chosen and written.islower():
                    new = new.lower()
                pieces += [texts[part][last : one.start], new]
                length += one.start - last
                names.append(replace(one, start=length, end=length + len(new)))
                length += len(new)
                last = one.end
            texts[part] = "".join([*pieces, texts[part][last:]])
        before, text = texts
        if example.role == "user" and rng.random() < 0.25 and len(text.lower()) == len(text):
            text = text.lower()
        if example.role == "user" and rng.random() < 0.12:
            bare = "".join(unicodedata.normalize("NFKD", letter)[0] for letter in text)
            text = bare if len(bare) == len(text) else text
        return replace(example, before=before, text=text, names=tuple(names))


def made_up(names: Sequence[str], count: int, rng: random.Random) -> list[str]:
    """Return names that sound like these and are none of them, by the letters that follow each two in them.

    Most people's names stand in a list of first names, and a reader that meets no others learns the list.
    """
    follow: dict[str, list[str]] = {}
    for name in names:
        padded = f"^^{name}$"
        for at in range(len(padded) - 2):
            follow.setdefault(padded[at : at + 2], []).append(padded[at + 2])
    known, found = set(names), set[str]()
    while len(found) < count:
        letters = "^^"
        while not letters.endswith("$"):
            letters += rng.choice(follow[letters[-2:]])
        name = letters[2:-1]
        if 3 <= len(name) <= 10 and name.isalpha() and name not in known:
            found.add(name)
    return sorted(found)


def pools_of(examples: Sequence[NamesExample], first_names: Sequence[str]) -> Pools:
    """Return the names of examples by kind; people get first names and made-up ones, some with a surname."""
    found: dict[str, list[str]] = {}
    surnames = []
    for one in examples:
        for name in one.names:
            surface = (one.before, one.text)[name.part][name.start : name.end]
            if name.named == "person" and len(surface.split()) == 2 and surface[:1].isupper():
                surnames.append(surface.split()[1])
            elif name.named not in ("person", "phrase", "file"):
                found.setdefault(name.named, []).append(surface)
    rng = random.Random(7)
    people = [name.title() for name in (*first_names, *made_up(first_names, len(first_names), rng))]
    people += [f"{rng.choice(people)} {rng.choice(surnames)}" for _ in range(len(people) // 5) if surnames]
    people += surnames[: len(people) // 10]
    return Pools({kind: sorted(set(names)) for kind, names in found.items()} | {"person": people})


def main() -> None:
    """Print what there is."""
    for name, examples in (("invented", list(invented())), ("read", list(read())), ("lives", list(of_lives()))):
        kinds = Counter(one.named for example in examples for one in example.names)
        relations = Counter(relation for example in examples for _, relation, _ in example.relations)
        print(name, len(examples), dict(kinds), dict(relations))


if __name__ == "__main__":
    main()
