"""People, things and relations of the labelled lives: `python -m tests.bench.people_and_things [NAME …]`.

Each life is imported and dreamt in a store of its own. Its labels (`tests/data/people/`) were made by readers who knew
no program. The shipped reader of names has learned from them: `--weights FOLDER` takes readers that did not see the
life (`tests.train.fit_names`). Printed are, a life and in all:

- `people`: the labelled people with a page of one of their names; `b-cubed`: F1 over mentions. A mention is a turn and
  a surface; those that no label covers count as wrong where their page is of a person, else are left out.
- `relations`: those that were found, and the share that the labels have too, by their two names and kind, of any turn.
  Most others are to be read (`--show` prints them): labels are what one careful reader noted.
- `exact`: questions answered by a relation with a right value, `wrong` by a stale or other one; unanswerable ones that
  are answered are wrong.
- `about`, `context`: the share of the turns that the labels have of a person (relations, and the first ten mentions)
  within 1,000 tokens of the two answers, for people of five mentions or more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dreamd.store.judges.name_reader import WEIGHTS
from dreamd.store.okf.entity_page import key_of

from .in_process import DaemonInProcess
from .options import SHARED_DATA

LABELS = Path(__file__).parents[1] / "data" / "people"
TITLES = frozenset("frau herr dr mr mrs seu dona".split())

Figures = dict[str, tuple[float, int]]


def turns_of(life: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the turns of a life as `observe` takes them, by session."""
    for session in life["sessions"]:
        turns = [
            {"role": one["role"], "text": one["text"], "at": session["at"], "external_id": f"{one['n']}"}
            for one in session["turns"]
        ]
        yield {"session": {"session_id": session["id"], "channel": session["project"]}, "turns": turns}


def plain(name: str) -> str:
    """Return a folded name without its title."""
    return " ".join(word for word in key_of(name).split() if word not in TITLES)


def b_cubed(gold: Mapping[tuple[str, str], str], found: Mapping[tuple[str, str], str]) -> tuple[float, float, float]:
    """Return precision, recall and F1 of clusters of mentions; one that the other side lacks counts as 0."""
    both = gold.keys() & found.keys()
    scores = []
    for one, other in ((found, gold), (gold, found)):
        clusters: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for mention, cluster in one.items():
            clusters[cluster].add(mention)
        total = sum(
            sum(other.get(each) == other[mention] for each in clusters[one[mention]]) / len(clusters[one[mention]])
            for mention in both
        )
        scores.append(total / max(1, len(one)))
    precision, recall = scores
    return precision, recall, 2 * precision * recall / max(1e-9, precision + recall)


def measured(name: str, *, show: bool) -> Figures:
    """Import, dream and ask one life."""
    life = json.loads((SHARED_DATA / "lives" / f"{name}.json").read_text())
    labels = json.loads((LABELS / f"{name}.json").read_text())
    with tempfile.TemporaryDirectory(prefix="dreamd-") as folder, DaemonInProcess(Path(folder)) as daemon:
        for request in turns_of(life):
            daemon.call("observe", **request)
        daemon.wait_until_embedded()
        daemon.call("dream", kind="daily", wait=True)
        daemon.wait_until_embedded()
        graph = daemon.call("entities", channel="*", limit=1000)
        texts = {f"{s['id']}#{t['n']}": t["text"] for s in life["sessions"] for t in s["turns"]}
        figures = _of_names(labels, graph, daemon, texts, show)
        figures |= _of_relations(labels, graph, show)
        figures |= _of_questions(labels, daemon, show)
        return figures | _of_about(labels, daemon)


def _of_names(
    labels: Mapping[str, Any], graph: Mapping[str, Any], daemon: DaemonInProcess, texts: Mapping[str, str], show: bool
) -> Figures:
    from dreamd.pipelines.extract.naming import plain_text, surfaces_in

    pages = {one["node_id"]: one for one in graph["entities"]}
    gold, kinds = {}, {}
    for entity in labels["entities"]:
        for turn, surface in entity["mentions"]:
            gold[turn, plain(surface)] = entity["id"]
            kinds[turn, plain(surface)] = entity["type"]
    surfaces = {surface for _, surface in gold}
    found: dict[tuple[str, str], str] = {}
    for node_id, page in pages.items():
        names = [page["name"], *page["aliases"]]
        of_key = {key_of(one): 0 for one in names}
        longest = max(len(key.split()) for key in of_key)
        for turn in daemon.store.catalog.links(node_id, "mentions"):
            for _, surface in surfaces_in(plain_text(texts[turn]), of_key, longest):
                mention = (turn, plain(surface))
                if page["type"] == "person" or mention[1] in surfaces:
                    found[mention] = f"{page['key']} {page['type']}"
    people = [one for one in labels["entities"] if one["type"] == "person" and one["mentions"]]
    named = {plain(name) for page in pages.values() for name in (page["name"], *page["aliases"])}
    with_page = [one for one in people if {plain(one["name"]), *map(plain, one["aliases"])} & named]
    of_people = {mention: one for mention, one in gold.items() if kinds[mention] == "person"}
    found_people = {m: c for m, c in found.items() if c.endswith(" person")}
    everything, alone = b_cubed(gold, found), b_cubed(of_people, found_people)
    if show:
        print("  no page:", [one["name"] for one in people if one not in with_page])
        print(
            "  no person:",
            sorted(
                {
                    page["name"]
                    for page in pages.values()
                    if page["type"] == "person"
                    and not {plain(page["name"]), *map(plain, page["aliases"])} & {s for (_, s) in of_people}
                }
            ),
        )
    return {
        "people": (len(with_page) / len(people), len(people)),
        "b-cubed, people": (alone[2], len(of_people)),
        "b-cubed": (everything[2], len(gold)),
    }


def _of_relations(labels: Mapping[str, Any], graph: Mapping[str, Any], show: bool) -> Figures:
    names: dict[str, set[str]] = {
        one["id"]: {plain(one["name"]), *map(plain, one["aliases"])} for one in labels["entities"]
    }
    known = [
        (one["relation"], _ends(one["subject"], names), _ends(one["object"], names)) for one in labels["relations"]
    ]
    right = 0
    for one in graph["relations"]:
        ends = plain(one["subject"]), plain(one["object"])
        is_known = any(
            kind == one["relation"] and _meets(ends[0], subject) and _meets(ends[1], object_)
            for kind, subject, object_ in known
        )
        right += is_known
        if show:
            print(
                "  +" if is_known else "  ?",
                one["turn"],
                one["subject"],
                one["relation"],
                one["object"],
                "|",
                one["words"][:110],
            )
    return {"relations": (right / max(1, len(graph["relations"])), len(graph["relations"]))}


def _ends(end: Any, names: Mapping[str, set[str]]) -> set[str]:
    if isinstance(end, Mapping):
        return {plain(end.get("text", ""))}
    return names.get(end, {plain(str(end))})


def _meets(said: str, names: set[str]) -> bool:
    return any(said == name or f" {name} " in f" {said} " or f" {said} " in f" {name} " for name in names if name)


def _of_questions(labels: Mapping[str, Any], daemon: DaemonInProcess, show: bool) -> Figures:
    right = wrong = 0
    asked = labels["questions"]
    for one in asked:
        answer = daemon.call("recall", query=one["question"], channel=one["project"], limit=5)
        told = [key_of(line["answer"]) for line in answer.get("exact", ())]
        is_right = bool(told) and any(
            f" {key_of(value)} " in f" {said} " for value in one["answers"] for said in told[:1]
        )
        right += is_right
        wrong += bool(told) and not is_right
        if show and told:
            print("  exact", "right" if is_right else "WRONG", one["question"], told, one["answers"])
    answerable = sum(bool(one["answers"]) for one in asked)
    return {"exact": (right / max(1, answerable), answerable), "wrong": (wrong / len(asked), len(asked))}


def _of_about(labels: Mapping[str, Any], daemon: DaemonInProcess) -> Figures:
    shares: dict[str, list[float]] = {"about": [], "context": []}
    for one in labels["entities"]:
        if one["type"] != "person" or len(one["mentions"]) < 5:
            continue
        ends = (one["id"],)
        evidence = {r["turn"] for r in labels["relations"] if r["subject"] in ends or r["object"] in ends}
        evidence |= {turn for turn, _ in one["mentions"][:10]}
        about = daemon.call("about", name=one["name"], channel="*", budget_tokens=1000)
        context = daemon.call("context", query=f"who is {one['name']}", channel="*", budget_tokens=1000)
        cited = {
            "about": {turn for line in about["lines"] for turn in line["evidence"]},
            "context": {turn["node_id"] for slot in context["slots"] for turn in slot["evidence"]},
        }
        for name, turns in cited.items():
            shares[name].append(len(evidence & turns) / len(evidence))
    return {name: (sum(found) / max(1, len(found)), len(found)) for name, found in shares.items()}


@contextmanager
def reading_with(weights: Path | None) -> Iterator[None]:
    """Put other weights of the reader of names into the package for a while: a dream's process reads them there."""
    if weights is None:
        yield
        return
    shipped = WEIGHTS.read_bytes()
    try:
        WEIGHTS.write_bytes(weights.read_bytes())
        yield
    finally:
        WEIGHTS.write_bytes(shipped)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of some lives, or of all, and their means."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.people_and_things",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", help="lives, by the names of their files")
    parser.add_argument("--show", action="store_true", help="print what was found and missed")
    parser.add_argument("--weights", type=Path, help="a folder of LIFE.npz: readers of names that did not see the life")
    given = parser.parse_args(arguments)
    columns: dict[str, Figures] = {}
    for name in given.name or sorted(path.stem for path in LABELS.glob("*.json")):
        print(name, flush=True)
        with reading_with(given.weights and given.weights / f"{name}.npz"):
            columns[name] = measured(name, show=given.show)
        print("  " + ", ".join(f"{what} {value:.3f} ({n})" for what, (value, n) in columns[name].items()), flush=True)
    for what in next(iter(columns.values())):
        number = sum(one[what][1] for one in columns.values())
        mean = sum(value * n for value, n in (one[what] for one in columns.values())) / max(1, number)
        print(f"{what}: {mean:.3f} ({number})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
