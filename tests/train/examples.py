"""Labelled turns of many people, read for training and for leaving people out: `python -m tests.train.examples`.

Sixteen invented lives lie in `data/lives`, beside those of the shared data sets; `data/entire` labels more turns of the
real sessions there, and `data/pairs.json` pairs of statements of both. A label names what it quotes by spans, so that
no text of the real sessions is in this repository: `README.md` beside the data says how each was made.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from tests.bench.options import SHARED_DATA

DATA = Path(__file__).parent / "data"
BETWEEN_QUOTES = " … "
NOT_KEPT = frozenset(("none", "intention"))

FOLDS = 3

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Example:
    """A turn with its place, and what a careful reader made of it.

    `person` is who is left out with it: one invented life, or a real session. `before` and `after` are what the other
    side said around it. `reply` is of a person's turns; `refuted` says that an assistant's claim turned out wrong.
    """

    person: str
    role: str
    text: str
    before: str
    after: str
    keep: str
    words: tuple[Span, ...]
    reply: str = ""
    refuted: bool = False
    sure: bool = True

    @property
    def is_worth_keeping(self) -> bool:
        """Return True for what a memory should hold."""
        return self.keep not in NOT_KEPT and not self.refuted


@dataclass(frozen=True, slots=True)
class Asked:
    """A question or a prompt of an invented person in one project, and the turns that help it, by `SESSION#N`."""

    person: str
    form: str
    text: str
    project: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """Some words of a turn."""

    text: str
    words: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements of one person or project, and how the later stands to the earlier."""

    person: str
    earlier: Statement
    later: Statement
    relation: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A statement, later ones with their relation to it, and what is asked that it answers."""

    earlier: str
    laters: tuple[tuple[str, str], ...]
    asked: tuple[str, ...]


class People:
    """The labelled people of a folder of data sets and of this repository."""

    def __init__(self, shared: Path = SHARED_DATA, own: Path = DATA) -> None:
        self._shared = shared
        self._own = own

    def examples(self) -> Iterator[Example]:
        """Yield every labelled turn. Raises FileNotFoundError where the shared data is absent."""
        for life in self.lives:
            yield from of_life(life, self.lives[life])
        for label in self._labelled:
            yield from self._of_exchange(label)
        for label in _read(self._own / "entire" / "narration.json"):
            yield self._of_narration(label)

    def pairs(self) -> Iterator[Pair]:
        """Yield every labelled pair: of the lives themselves, and those of near neighbours."""
        turns = {(life, key): turn for life in self.lives for key, turn in turns_of(self.lives[life]).items()}
        for life, told in self.lives.items():
            for pair in told["pairs"]:
                earlier, later = (
                    Statement(turn["text"], quoted(turn["text"], turn.get("words", "")))
                    for turn in (turns[life, pair["earlier"]], turns[life, pair["later"]])
                )
                yield Pair(life, earlier, later, pair["relation"], True)
        for pair in _read(self._own / "pairs.json"):
            who = pair["person"]
            earlier, later = (
                Statement(
                    self._said[side["turn"]].text if who == "entire" else turns[who, side["turn"]]["text"],
                    _spans(side["words"]),
                )
                for side in (pair["earlier"], pair["later"])
            )
            yield Pair(who, earlier, later, pair["relation"], pair.get("sure", True))

    def asked(self, name: str) -> Iterator[Asked]:
        """Yield what is asked of a life: its own questions and prompts, and those that were written to it later."""
        life = self.lives[name]
        project_of = {f"{one['id']}#{turn['n']}": one["project"] for one in life["sessions"] for turn in one["turns"]}
        for form, text, turns in (("question", "question", "evidence"), ("prompt", "prompt", "needs")):
            for one in life[f"{form}s"]:
                yield Asked(name, form, one[text], one["project"], tuple(one[turns]))
        for one in _lines(self._own / "questions" / f"{name}.jsonl"):
            project = project_of[one["turns"][0]] if one["turns"] else life["sessions"][0]["project"]
            yield Asked(name, one["form"], one["text"], project, tuple(one["turns"]))

    @cached_property
    def lives(self) -> Mapping[str, Any]:
        """The lives by their names. Raises FileNotFoundError where the shared ones are absent."""
        shared = lives_in(self._shared)
        if not shared:
            raise FileNotFoundError(2, "no lives", str(self._shared / "lives"))
        return {**shared, **lives_in(self._own)}

    @cached_property
    def _labelled(self) -> list[Any]:
        """Return the labels of exchanges: those of the data set, flattened as ours are, and ours."""
        there = [
            {
                "id": row["id"],
                "answer": row["assistant_id"],
                **row["label"],
                "words": quoted(row["user"], row["label"]["words"]),
                "after_words": quoted(row["assistant_after"], row["label"]["after_words"]),
            }
            for row in self._rows
        ]
        return there + _read(self._own / "entire" / "exchanges.json")

    @cached_property
    def _rows(self) -> list[Any]:
        return _read(self._shared / "entire" / "labels" / "turns.json")

    @cached_property
    def _said(self) -> Mapping[str, _Said]:
        """Return what was said in the real sessions, by its id; what only the labels have, as they have it."""
        said: dict[str, _Said] = {}
        for file in sorted((self._shared / "entire" / "sessions").glob("*.gz")):
            for one in _of_session(file):
                said.setdefault(one.id, one)
        for row in self._rows:
            answer = row["assistant_after"]
            said.setdefault(row["id"], _Said(row["id"], row["session"], row["user"], row["assistant_before"], answer))
            if row["assistant_id"]:
                said.setdefault(row["assistant_id"], _Said(row["assistant_id"], row["session"], answer, row["user"]))
        return said

    def _of_exchange(self, label: Mapping[str, Any]) -> Iterator[Example]:
        asked = self._said[label["id"]]
        sure = label.get("sure", True)
        yield Example(
            asked.session,
            "user",
            asked.text,
            asked.before,
            asked.after,
            label["keep"],
            _spans(label["words"]),
            label["reply"],
            sure=sure,
        )
        if label.get("answer"):
            answer = self._said[label["answer"]]
            yield Example(
                answer.session,
                "assistant",
                answer.text,
                asked.text,
                answer.after,
                label["after"],
                _spans(label["after_words"]),
                sure=sure,
            )

    def _of_narration(self, label: Mapping[str, Any]) -> Example:
        told = self._said[label["id"]]
        return Example(
            told.session,
            "assistant",
            told.text,
            told.before,
            told.after,
            label["after"],
            _spans(label["after_words"]),
            sure=label.get("sure", True),
        )


def fold_of_people(people: Sequence[str], folds: int = FOLDS) -> Mapping[str, int]:
    """Return the fold that leaves each person out: lives in turn, real sessions in blocks, for some are resumed."""
    lives = sorted(name for name in people if name.isalpha())
    sessions = sorted(name for name in people if not name.isalpha())
    place = {name: at % folds for at, name in enumerate(lives)}
    return place | {name: at * folds // len(sessions) for at, name in enumerate(sessions)}


def of_life(person: str, life: Mapping[str, Any]) -> Iterator[Example]:
    """Yield the turns of one invented person and their assistants, each session by itself."""
    for session in life["sessions"]:
        said = [turn for turn in session["turns"] if turn["role"] != "tool"]
        for at, turn in enumerate(said):
            others = [one for one in said[:at] if one["role"] != turn["role"]]
            following = next((one["text"] for one in said[at + 1 :] if one["role"] != turn["role"]), "")
            yield Example(
                person,
                turn["role"],
                turn["text"],
                others[-1]["text"] if others else "",
                following,
                turn["keep"],
                quoted(turn["text"], turn.get("words", "")),
                turn.get("reply", ""),
                "refuted_by" in turn,
            )


def lives_in(folder: Path = DATA) -> Mapping[str, Any]:
    """Return the lives of a folder of data sets by their names; those of this repository by default."""
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted((folder / "lives").glob("*.json"))
    }


def groups_in(folder: Path = DATA) -> Mapping[str, list[Group]]:
    """Return the groups of statements of a folder of data sets by their files."""
    return {
        file.stem: [
            Group(
                one["earlier"],
                tuple((later["text"], later["relation"]) for later in one["laters"]),
                (*one["questions"], *one["prompts"]),
            )
            for one in _lines(file)
        ]
        for file in sorted((folder / "groups").glob("*.jsonl"))
    }


def turns_of(life: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the turns of a life by `SESSION#N`."""
    return {f"{session['id']}#{turn['n']}": turn for session in life["sessions"] for turn in session["turns"]}


def quoted(text: str, words: str) -> tuple[Span, ...]:
    """Return where the quoted pieces stand in a text, in order; a piece that is not there has no span."""
    spans = []
    at = 0
    for piece in filter(None, words.split(BETWEEN_QUOTES)):
        start = text.find(piece, at)
        if start < 0:
            start = text.find(piece)
        if start >= 0:
            at = start + len(piece)
            spans.append((start, at))
    return tuple(spans)


@dataclass(frozen=True, slots=True)
class _Said:
    """A text of a real session. `before` and `after` are what the other side said last before it and last after it."""

    id: str
    session: str
    text: str
    before: str = ""
    after: str = ""


def _of_session(file: Path) -> Iterator[_Said]:
    """Yield what was said in a session, its id the first eight letters of the session's, as in the labels."""
    session = file.name.partition(".")[0][-36:][:8]
    rows = list(texts_of(file))
    for at, (role, uuid, text) in enumerate(rows):
        before = next((said for who, _, said in reversed(rows[:at]) if who != role), "")
        yield _Said(uuid, session, text, before, _answer_to(role, rows[at + 1 :]))


def _answer_to(role: str, following: Sequence[tuple[str, str, str]]) -> str:
    """Return the last that the other side said before this one spoke again; a person's first word to an assistant."""
    if role == "assistant":
        return next((said for who, _, said in following if who == "user"), "")
    answers = [said for _, _, said in takewhile(lambda row: row[0] == "assistant", following)]
    return answers[-1] if answers else ""


def texts_of(file: Path) -> Iterator[tuple[str, str, str]]:
    """Yield role, id and text of what was said in a session file of Claude Code; a line that is torn is left out."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            if entry.get("type") in ("user", "assistant") and not entry.get("isMeta"):
                content = entry["message"].get("content", "")
                blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
                text = "\n".join(block["text"] for block in blocks if block.get("type") == "text").strip()
                if text:
                    yield entry["type"], entry["uuid"], text


def _spans(pairs: Any) -> tuple[Span, ...]:
    return tuple((start, end) for start, end in pairs)


def _lines(file: Path) -> Iterator[Any]:
    """Yield the objects of a file that has one a line."""
    return map(json.loads, filter(None, file.read_text(encoding="utf-8").splitlines()))


def _read(file: Path) -> list[Any]:
    rows: list[Any] = json.loads(file.read_text(encoding="utf-8"))
    return rows


def main() -> None:
    """Print how many turns are labelled, of whom, and as what."""
    people = People()
    examples = list(people.examples())
    for role in ("user", "assistant"):
        of_role = [example for example in examples if example.role == role]
        kinds = Counter(example.keep for example in of_role).most_common()
        kept = sum(example.is_worth_keeping for example in of_role)
        print(f"{role}: {len(of_role)} turns, {kept} worth keeping: " + ", ".join(f"{k} {n}" for k, n in kinds))
    pairs = list(people.pairs())
    relations = Counter(pair.relation for pair in pairs).most_common()
    print(f"pairs: {len(pairs)}: " + ", ".join(f"{relation} {number}" for relation, number in relations))


if __name__ == "__main__":
    main()
