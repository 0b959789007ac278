"""Measure readers of names on people whom they did not see: `python -m tests.train.measure_names FOLDER`.

FOLDER holds `PERSON.npz` of `tests.train.fit_names fit`; a file `all.npz` is measured on every life. Printed are, a
person and in all: precision and recall of names (same words), of people's names, and of relations (both ends and the
type) at several bounds of sureness.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dreamd.store.judges.judge import JudgedTurn, encoder
from dreamd.store.judges.name_reader import NamedSpan, NamesReader

from tests.train.names_data import NamesExample, of_lives

BOUNDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def counts(reader: NamesReader, examples: Sequence[NamesExample], show: bool = False) -> Counter[str]:
    """Return how many names and relations are right, found and wanted."""
    found: Counter[str] = Counter()
    read = reader.turns([JudgedTurn(one.role, one.text, one.before) for one in examples])
    for example, one in zip(examples, read, strict=True):
        gold = {(n.start, n.end): n.named for n in example.names if n.part == 1 and n.named != "phrase"}
        own = {(n.start, n.end): n.named for n in one.names if n.part == 1 and n.named != "phrase"}
        found["names right"] += len(gold.keys() & own.keys())
        found["names found"] += len(own)
        found["names wanted"] += len(gold)
        found["kinds right"] += sum(gold[each] == own[each] for each in gold.keys() & own.keys())
        people = [{span for span, named in each.items() if named == "person"} for each in (gold, own)]
        found["people right"] += len(people[0] & people[1])
        found["people found"] += len(people[1])
        found["people wanted"] += len(people[0])
        wanted = set(example.relations)
        found["relations wanted"] += len(wanted)
        for bound in BOUNDS:
            stated = {
                (identity(example, each.subject), each.relation, identity(example, each.object))
                for each in one.relations
                if each.sureness >= bound
            }
            found[f"relations right {bound}"] += len(stated & wanted)
            found[f"relations found {bound}"] += len(stated)
            for what, some in (
                (("wrong", stated - wanted), ("missed", wanted - stated)) if show and bound == 0.5 else ()
            ):
                for each in some:
                    print("  ", what, each, "|", " ".join(example.text[:150].split()))
    return found


def identity(example: NamesExample, end: NamedSpan | str) -> str:
    """Return which marked name an end is, its words where it is none."""
    if isinstance(end, str):
        return end
    for name in example.names:
        if name.part == end.part and name.start < end.end and end.start < name.end:
            return name.identity
    return (example.before, example.text)[end.part][end.start : end.end]


def row(found: Counter[str]) -> str:
    """Return the figures of counts on a line."""

    def shares(right: str, of: str, wanted: str) -> str:
        return f"{found[right] / max(1, found[of]):.2f}/{found[right] / max(1, found[wanted]):.2f}"

    parts = [f"{what} {shares(f'{what} right', f'{what} found', f'{what} wanted')}" for what in ("names", "people")]
    parts.append(f"kinds {found['kinds right'] / max(1, found['names right']):.2f}")
    bounds = (
        f"{bound}: {shares(f'relations right {bound}', f'relations found {bound}', 'relations wanted')}"
        for bound in BOUNDS
    )
    return ", ".join([*parts, *bounds])


def main() -> None:
    """Print the figures of the lives named behind the folder, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("person", nargs="*")
    parser.add_argument("--show", action="store_true", help="print the relations that are wrong or missed")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    lives: dict[str, list[NamesExample]] = {}
    for example in of_lives():
        lives.setdefault(example.person, []).append(example)
    for person in given.person or lives:
        path = given.folder / f"{person}.npz"
        reader = NamesReader(*encoder(path if path.exists() else given.folder / "all.npz"))
        found = counts(reader, lives[person], given.show)
        print(person, row(found), flush=True)
        total += found
    print("all", row(total))


if __name__ == "__main__":
    main()
