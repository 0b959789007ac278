"""Measure what the judge keeps, by people that it has not seen: `python -m tests.train.measure FOLDER`.

FOLDER is that of `tests.train.fit`: of each fold the quantized weights of a network that saw none of its people. Every
life and every labelled real session goes the product's own way from turns to facts; `score.py` of the data sets counts
the same things of a running daemon.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from dreamd.pipelines.extract.facts import Draft, drafts_of
from dreamd.store.judges import judge as judging
from dreamd.store.model import Turn

from tests.bench.options import SHARED_DATA
from tests.train.examples import Example, People, fold_of_people, texts_of

Counts = defaultdict[str, list[bool]]


class Told:
    """The facts that were drawn from one person's turns, by the turn."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.of: dict[str, list[Draft]] = defaultdict(list)
        for draft in drafts:
            for source in draft.sources:
                self.of[source].append(draft)


def count(counts: Counts, example: Example, drafts: Sequence[Draft]) -> None:
    """Add what one labelled turn says of precision, recall and kind."""
    is_real = not example.person.isalpha()
    group = "real" if is_real else "lives"
    name = f"{group}, {example.role}"
    is_done = is_real and example.keep == "done"
    if drafts:
        counts[f"{name}: kept rightly (precision)"].append(example.is_worth_keeping)
    if example.is_worth_keeping and not is_done:
        counts[f"{name}: kept (recall)"].append(bool(drafts))
        if drafts and example.role == "user" and (is_real or example.keep != "value"):
            counts[f"{name}: kind right"].append(any(draft.attributes.kind.value == example.keep for draft in drafts))
    if example.refuted:
        counts[f"{name}: refuted and yet kept"].append(bool(drafts))
    if example.role == "assistant":
        own = [draft for draft in drafts if draft.said_by == example.role]
        if own:
            counts[f"{name}, its own words alone: precision"].append(example.is_worth_keeping)
        if example.refuted:
            counts[f"{name}, its own words alone: refuted and yet kept"].append(bool(own))


def main() -> None:
    """Print the figures over all people, each judged by the weights of the fold that left them out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=0, help="print so many facts of real sessions, drawn by lot")
    given = parser.parse_args()
    labelled: dict[str, dict[str, Example]] = defaultdict(dict)
    for example in People().examples():
        labelled[example.person][" ".join(example.text.split())] = example
    folds = fold_of_people(list(labelled))
    counts: Counts = defaultdict(list)
    shown: list[str] = []
    facts = turns_read = 0
    for fold in sorted(set(folds.values())):
        file = given.folder / f"fold{fold}-weights.npz"
        if not file.exists():
            continue
        judging.WEIGHTS = file
        judging.unload()
        for person, turns in _turns_by_person():
            if folds.get(person) != fold:
                continue
            told = Told(drafts_of(turns))
            is_real = not person.isalpha()
            facts, turns_read = (
                facts + is_real * len({id(d) for ds in told.of.values() for d in ds}),
                turns_read + is_real * len(turns),
            )
            for turn in turns:
                if said := labelled[person].get(" ".join(turn.text.split())):
                    count(counts, said, told.of.get(turn.node_id, []))
            if is_real:
                shown += [f"{turn.role}: {draft.text}" for turn in turns for draft in told.of.get(turn.node_id, [])[:1]]
    for name, values in sorted(counts.items()):
        print(f"{name:48} {sum(values) / len(values):.3f}  n={len(values)}")
    print(f"real sessions: {100 * facts / max(1, turns_read):.1f} facts a hundred turns, of {turns_read}")
    for text in random.Random(given.show).sample(shown, min(given.show, len(shown))):
        print(f"\n- {text[:400]}")


def _turns_by_person() -> Iterator[tuple[str, list[Turn]]]:
    """Yield the turns of each life's sessions and of each real session."""
    people = People()
    for person, life in people.lives.items():
        for session in life["sessions"]:
            yield (
                person,
                [Turn(session["id"], turn["n"], turn["role"], turn["text"], None, None) for turn in session["turns"]],
            )
    for file in sorted((SHARED_DATA / "entire" / "sessions").glob("*.gz")):
        session = file.name.partition(".")[0][-36:][:8]
        yield (
            session,
            [Turn(session, at, role, text, None, None) for at, (role, _, text) in enumerate(texts_of(file), 1)],
        )


if __name__ == "__main__":
    main()
