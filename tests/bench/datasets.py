"""The questions of LoCoMo and BEAM with the turns that answer them, and texts for what only needs many."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dreamd.daemon.importing.items import SessionRead

from .in_process import AnyDaemon
from .sets.beam import read as read_beam
from .sets.locomo import read as read_locomo

READERS = {"locomo": read_locomo, "beam": read_beam}
LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_TURN = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the external ids of the turns that answer it, inside one channel.

    `sides` are the turns of the first and of the second statement, where a question is about two that differ; `new` and
    `old` are, of one about a value that changed, the phrases of the values that hold now and that held before.
    """

    text: str
    gold: frozenset[str]
    kind: str
    answer: str
    channel: str
    sides: tuple[frozenset[str], frozenset[str]] | None = None
    new: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """The files, in which format, and what is asked of them."""

    name: str
    paths: tuple[Path, ...]
    format: str
    questions: tuple[Question, ...]

    def sessions(self) -> Iterator[SessionRead]:
        """Yield the sessions of the files; what a reader passes over is left out."""
        for path in self.paths:
            yield from (item for item in READERS[self.format](path) if isinstance(item, SessionRead))

    def observed_by(self, daemon: AnyDaemon) -> int:
        """Have a daemon take every session in; return how many turns were new. It embeds and links them later."""
        return sum(daemon.call("observe", **_observation(read))["added"] for read in self.sessions())


def _observation(read: SessionRead) -> dict[str, Any]:
    head = read.head
    started_at = head.started_at.isoformat() if head.started_at else None
    session = {"session_id": head.session_id, "channel": head.channel, "title": head.title, "started_at": started_at}
    turns = [
        {
            "role": turn.role,
            "text": turn.text,
            "at": turn.at.isoformat() if turn.at else None,
            "external_id": turn.external_id,
        }
        for turn in read.turns
    ]
    return {"session": session, "turns": turns}


def locomo(file: Path, scratch: Path, conversations: int | None = None) -> Dataset:
    """Categories 1 to 4 with evidence that is there; if told so, of the first conversations only."""
    samples = json.loads(file.read_text())
    if conversations is not None:
        samples = samples[:conversations]
        file = scratch / "locomo.json"
        file.write_text(json.dumps(samples))
    return Dataset("LoCoMo", (file,), "locomo", tuple(q for sample in samples for q in _locomo_questions(sample)))


def locomo_turns(file: Path, conversations: int | None = None) -> dict[str, str]:
    """Return what each turn says, after its speaker, by "CHANNEL/TURN"."""
    return {
        f"{sample['sample_id']}/{turn['dia_id']}": f"{turn['speaker']}: {turn['text']}"
        for sample in json.loads(file.read_text())[:conversations]
        for session in sample["conversation"].values()
        if isinstance(session, list)
        for turn in session
    }


def _locomo_questions(sample: dict[str, Any]) -> Iterator[Question]:
    sessions = [value for value in sample["conversation"].values() if isinstance(value, list)]
    known = {turn["dia_id"] for session in sessions for turn in session}
    for asked in sample["qa"]:
        # A few entries hold two ids in one string, or a bare "D": what names a turn of the conversation counts.
        gold = {turn for entry in asked.get("evidence", ()) for turn in _TURN.findall(entry)} & known
        if asked["category"] in LOCOMO_CATEGORIES and gold:
            kind = LOCOMO_CATEGORIES[asked["category"]]
            yield Question(asked["question"], frozenset(gold), kind, str(asked.get("answer", "")), sample["sample_id"])


def beam(folder: Path, chats: int | None = None) -> Dataset:
    """Every kind of question that names its turns; abstention names none."""
    folders = sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))[
        :chats
    ]
    questions = tuple(question for chat in folders for question in _beam_questions(chat))
    return Dataset("BEAM-100K", tuple(chat / "chat.json" for chat in folders), "beam", questions)


def _beam_questions(chat: Path) -> Iterator[Question]:
    batches = json.loads((chat / "chat.json").read_text())
    known = {str(turn["id"]) for batch in batches for turn in _flat(batch["turns"])}
    for kind, questions in json.loads((chat / "probing_questions.json").read_text()).items():
        for asked in questions:
            gold = {str(turn) for turn in _flat(asked.get("source_chat_ids", ()))} & known
            if kind != "abstention" and gold:
                answer = str(asked.get("answer") or asked.get("ideal_answer") or "")
                new, old = _values(asked) if kind == "knowledge_update" else ((), ())
                channel, sides = f"beam-{chat.name}", _sides(asked)
                yield Question(asked["question"], frozenset(gold), kind, answer, channel, sides, new, old)


def _sides(asked: dict[str, Any]) -> tuple[frozenset[str], frozenset[str]] | None:
    """The turns of the original and the updated, or of the first and the second statement."""
    named = asked.get("source_chat_ids")
    if not isinstance(named, dict) or len(named) != 2:
        return None
    first, second = (frozenset(str(turn) for turn in _flat(turns)) for turns in named.values())
    return first, second


def _values(asked: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what an answer must state, and what it might wrongly recall instead of that."""
    new = (line.partition(":")[2].strip() for line in asked.get("rubric", ()))
    old = asked.get("potential_confusion", "").partition("instead of")[0].partition("recall")[2].strip()
    return tuple(filter(None, new)), (old,) if old else ()


def _flat(value: Any) -> Iterator[Any]:
    """Yield the leaves: source ids lie in lists, or in lists under names; turns (they have an id) are leaves."""
    if isinstance(value, dict) and "id" not in value:
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    else:
        yield value


# -- many turns


def many_turns(count: int, data: Path, rng: random.Random) -> list[str]:
    """Make distinct turns: LoCoMo's own where it is, spoken again in other company; invented ones elsewhere."""
    file = data / "locomo" / "dev.json"
    said = _locomo_texts(file) if file.is_file() else [_invented(rng) for _ in range(3000)]
    turns = list(dict.fromkeys(said))[:count]
    seen = set(turns)
    while len(turns) < count:
        first, second = rng.sample(said, 2)
        mixed = " ".join((*_part(first, rng), *_part(second, rng)))
        if mixed not in seen:
            seen.add(mixed)
            turns.append(mixed)
    return turns


def many_queries(count: int, turns: Sequence[str], rng: random.Random) -> list[str]:
    """Ask for words of turns, each question once."""
    queries: dict[str, None] = {}
    while len(queries) < count:
        words = re.findall(r"[A-Za-z]{4,}", rng.choice(turns))
        if len(words) >= 4:
            queries[f"What was said about {' '.join(rng.sample(words, 4))}?"] = None
    return list(queries)


def write_chat(path: Path, turns: Sequence[str], session_turns: int = 40, prefix: str = "") -> Path:
    """Write turns as generic chats, one message a line, some dozens a session; a prefix makes sessions of their own."""
    with path.open("w") as out:
        for number, text in enumerate(turns):
            role = ("user", "assistant")[number % 2]
            message = {
                "role": role,
                "content": text,
                "id": f"m{number}",
                "session": f"{prefix}s{number // session_turns}",
            }
            out.write(json.dumps(message) + "\n")
    return path


def _locomo_texts(file: Path) -> list[str]:
    conversations = (sample["conversation"].values() for sample in json.loads(file.read_text()))
    return [t["text"] for values in conversations for session in values if isinstance(session, list) for t in session]


def _part(text: str, rng: random.Random) -> list[str]:
    sentences = re.split(r"(?<=[.!?])\s+", text)
    return rng.sample(sentences, min(len(sentences), rng.randint(1, 2)))


_WHO = "Alice Bruno Chiara Deniz Emeka Farah Goran Hana Ines Jonas Kofi Lena".split()
_DID = "moved tested painted deployed repaired measured planned reviewed rewrote sold cooked lost".split()
_WHAT = "kitchen billing-service garden parser bicycle invoice novel migration lamp dashboard roof query".split()
_WHY = "budget weather deadline neighbour outage customer curiosity audit birthday holiday storm bug".split()


def _invented(rng: random.Random) -> str:
    who, did, what, why = (rng.choice(words) for words in (_WHO, _DID, _WHAT, _WHY))
    again = f"It took {rng.randint(2, 90)} days, and {rng.choice(_WHO)} helped with the {rng.choice(_WHAT)}."
    return f"{who} {did} the {what} because of the {why}. {again}"
