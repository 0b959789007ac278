"""What a dream keeps of what was said: few facts, and those that a careful colleague would have written down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.memories import facts_in

from ..in_process import AnyDaemon
from ..table import Row, say
from .reading import Precision, is_kept, words_of
from .to_read import memories, write, write_all

WORTH, MOST_FACTS = (0.85, 0.80), 30
"""Least precision and recall of what is kept, and the most facts of 100 turns."""

FEWEST_WORDS, BEGINNING = 3, 60
"""A labelled turn of so many long words stands in the sessions if its beginning does."""

Turn = dict[str, Any]


def in_sessions(daemon: AnyDaemon, data: Path, results: Path, turns: int) -> Iterator[Row]:
    """Judge what a dream of the whole sessions kept, and write what it made for a person to read."""
    vault = Path(daemon.call("status")["vault"])
    facts = [frozenset(words_of(path.read_text())) for path in facts_in(vault)]
    said = " ".join(" ".join(words_of(path.read_text())) for path in vault.glob("sessions/**/*.md"))
    labelled = [turn for turn in _labelled(data) if _is_long(turn) and _beginning(turn) in said]
    kept = [is_kept(turn["text"], facts) for turn in labelled]
    yield _worth("worth keeping, in the sessions: precision / recall", labelled, kept, kept, results)
    share = 100 * len(facts) / max(1, turns)
    yield Row("facts of 100 turns", f"{share:.0f}", f"≤ {MOST_FACTS}", share <= MOST_FACTS, f"{len(facts)} of {turns}")
    write_all(daemon, results)


def each_in_its_place(daemon: AnyDaemon, data: Path, results: Path) -> Iterator[Row]:
    """Judge every labelled turn after the one that came before it, in a session of its own.

    It is kept wrongly if any fact cites it, and kept rightly if one that cites it holds half of its words.
    """
    labelled = _labelled(data)
    for number, turn in enumerate(labelled):
        other = "assistant" if turn["role"] == "user" else "user"
        said = [{"role": other, "text": turn["before"], "external_id": "before"}] if turn.get("before") else []
        said.append({"role": turn["role"], "text": turn["text"], "external_id": f"worth {number}"})
        daemon.call("observe", session={"session_id": f"worth-{number}", "channel": "worth"}, turns=said)
    daemon.wait_until_embedded()
    say("readers: dreaming over each labelled turn")
    daemon.call("dream", kind="daily", wait=True)
    cited: dict[str, list[frozenset[str]]] = {}
    for fact in memories(daemon, "L1"):
        for turn in fact["evidence"]:
            cited.setdefault(turn["external_id"], []).append(frozenset(words_of(fact["text"])))
    facts = [cited.get(f"worth {number}", []) for number in range(len(labelled))]
    told = [is_kept(turn["text"], of) for turn, of in zip(labelled, facts, strict=True)]
    kept = list(map(bool, facts))
    yield _worth("worth keeping, each in its place: precision / recall", labelled, kept, told, results)


def _worth(measure: str, labelled: Sequence[Turn], kept: Sequence[bool], told: Sequence[bool], results: Path) -> Row:
    """Judge, and write the misjudged turns. `kept`: anything of a turn is; `told`: enough of it is."""
    right = sum(one and turn["keep"] for turn, one in zip(labelled, told, strict=True))
    wrong = [turn for turn, one in zip(labelled, kept, strict=True) if one and not turn["keep"]]
    missed = [turn for turn, one in zip(labelled, told, strict=True) if turn["keep"] and not one]
    misjudged = [("missed", turn) for turn in missed] + [("wrongly kept", turn) for turn in wrong]
    write(results / f"{measure.partition(':')[0]}, misjudged.txt", [_to_read(*one) for one in misjudged])
    found = Precision(right, len(wrong), sum(turn["keep"] for turn in labelled))
    enough = found.precision >= WORTH[0] and found.recall >= WORTH[1]
    how = f"{len(labelled)} labelled turns; missed: {_counted(missed, 'kind')}; wrongly kept: {_counted(wrong, 'role')}"
    return Row(measure, str(found), f"≥ {WORTH[0]:.2f} / {WORTH[1]:.2f}", enough, how)


def _to_read(how: str, turn: Turn) -> str:
    return (
        f"{how}: {turn['kind']}, {turn['role']} ({turn['why']})\n    before: {turn.get('before')}\n    {turn['text']}\n"
    )


def _counted(turns: Sequence[Turn], by: str) -> str:
    counts = Counter(str(turn[by]) for turn in turns)
    return ", ".join(f"{what} {number}" for what, number in sorted(counts.items())) or "none"


def _labelled(data: Path) -> list[Turn]:
    turns: list[Turn] = json.loads((data / "worth.json").read_text())
    return turns


def _is_long(turn: Turn) -> bool:
    return len([word for word in words_of(turn["text"]) if len(word) > 2]) >= FEWEST_WORDS


def _beginning(turn: Turn) -> str:
    return " ".join(words_of(turn["text"]))[:BEGINNING]
