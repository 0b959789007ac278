"""Dreams with real small models, which invent freely: what of it comes into the vault, checked apart from the product.

The check reads the vault's files alone and knows nothing of grounding: every name, number and date of a fact must be in
the turns that it cites, in their speakers' names, or, for a date, follow from the day on which they were said.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.memories import facts_in

from .daemon_under_test import DaemonUnderTest
from .datasets import Dataset
from .options import ROOT, Options
from .scratch import own_folder
from .table import Row, say, skipped

PYTHON = ROOT / ".venv-llm" / "bin" / "python"
LIES = "dream with {}: facts whose names, numbers or dates are not in their turns"
ACCEPTED = "dream with {}: facts accepted"
LEAST_ACCEPTED = 200
SESSIONS = 4
"""So many of each conversation, 20 of 128 in all: a quarter of an hour a model, on one core."""

CATALOGUE = "index.md"
"""The derived list of the files beside it."""

_TURN = re.compile(r'^<!-- turn n=(\d+) role="([^"]*)"(?: at="([^"]*)")?[^\n]*-->\n(?:\*\*[^\n]*\n\n)?', re.MULTILINE)
_NUMBERS = dict(
    zip("one two three four five six seven eight nine ten eleven twelve".split(), range(1, 13), strict=True)
)
_MONTHS: tuple[str, ...] = tuple(
    "January February March April May June July August September October November December".split()
)
_DAYS: tuple[str, ...] = tuple("monday tuesday wednesday thursday friday saturday sunday".split())
_DATE = re.compile(rf"\b(?:(\d{{1,2}}) )?({'|'.join(_MONTHS)}) (\d{{4}})\b|\b((?:19|20)\d\d)(?:/\d{{4}})?\b")
_RELATIVE = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|from now|last|next|this|past|coming"
    r"|in \w+ (?:days?|weeks?|months?|years?))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said, by whom, on which day."""

    role: str
    text: str
    day: date | None


def measure(options: Options) -> Iterator[Row]:
    """Dream once with each model that is installed."""
    file = options.data / "locomo" / "dev.json"
    why = "" if file.is_file() else f"{file} is not there"
    why = why or ("" if PYTHON.exists() else "no model is installed: make test-llm")
    if why:
        yield skipped(LIES.format("a small model"), "0", why)
        yield skipped(ACCEPTED.format("a small model"), f"at least {LEAST_ACCEPTED}", why)
        return
    with served() as (url, models):
        for model in models:
            yield from _dreamt(file, url, model, options)


@contextmanager
def served(threads: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Run the test server with the models that are installed."""
    command = [str(PYTHON), str(ROOT / "tests" / "llm" / "server.py"), "--threads", str(threads)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            yield told["url"], told["models"]
        finally:
            process.terminate()


def _dreamt(file: Path, url: str, model: str, options: Options) -> Iterator[Row]:
    environ = {
        "DREAMD_LLM__PROVIDER": "ollama",
        "DREAMD_LLM__MODEL": model,
        "DREAMD_LLM__BASE_URL": url,
        "DREAMD_LLM__DEADLINE_S": "600",
        "DREAMD_LLM__CONTEXT_TOKENS": "2048",
        "DREAMD_LLM__ANSWER_TOKENS": "300",
        "DREAMD_LLM__CALLS_A_NIGHT": "100000",
        "DREAMD_LLM__TOKENS_A_NIGHT": "100000000",
        "DREAMD_LLM__FAILURES_IN_A_ROW": "100000",
        "DREAMD_PIPELINES__LIMITS__TIME_S": "86400",
        "DREAMD_PIPELINES__LIMITS__SILENCE_S": "3600",
        "DREAMD_PIPELINES__IDLE__QUIET_S": "0",
    }
    with own_folder("model") as scratch:
        conversations = json.loads(file.read_text())
        conversations = [_beginning(sample, options.of(SESSIONS, 2)) for sample in conversations[: options.of(5, 1)]]
        chosen = scratch / "locomo.json"
        chosen.write_text(json.dumps(conversations))
        with DaemonUnderTest(environ=environ) as daemon:
            Dataset("LoCoMo", (chosen,), "locomo", ()).observed_by(daemon)
            say(f"{model}: a dream of {len(conversations)} conversations")
            dream = daemon.call("dream", kind="daily", wait=True)
            report = _summary(daemon.folder / "data", dream["run_id"])
            facts = list(checked(daemon.folder / "data"))
    part = f"the first {options.of(SESSIONS, 2)} sessions of {len(conversations)} conversations"
    yield from _rows(model, part, dream, report, facts)


def _summary(data: Path, run_id: str) -> dict[str, Any]:
    """What the run's report says, as the ledger keeps it."""
    with closing(sqlite3.connect(f"file:{next(data.rglob('ledger.db'))}?mode=ro", uri=True)) as ledger:
        (summary,) = ledger.execute("SELECT summary FROM run WHERE run_id = ?", (run_id,)).fetchone()
    told: dict[str, Any] = json.loads(summary)
    return told


def _beginning(sample: Mapping[str, Any], sessions: int) -> dict[str, Any]:
    talk = sample["conversation"]
    kept = {
        key: value for key, value in talk.items() if not (found := re.search(r"\d+", key)) or int(found[0]) <= sessions
    }
    return {**sample, "conversation": kept}


def _rows(
    model: str, part: str, dream: Mapping[str, Any], report: Mapping[str, Any], facts: list[tuple[str, bool, list[str]]]
) -> Iterator[Row]:
    counts = report["stages"]["consolidate"]
    lies = [(text, wrong) for text, _, wrong in facts if wrong]
    worded = sum(by_model for _, by_model, _ in facts)
    for text, wrong in lies[:20]:
        say(f"not in its turns: {', '.join(wrong)}: {text}")
    accepted = counts.get("claims accepted", 0)
    told = f"{len(facts)} facts in the vault, {worded} worded by the model"
    how = f"{part}; {told}; {dream['state']}, {dream['seconds']:.0f} s"
    yield Row(LIES.format(model), str(len(lies)), "0", not lies, how)
    told = f"{accepted} of {counts.get('claims', 0)} claims"
    yield Row(
        ACCEPTED.format(model), told, f"at least {LEAST_ACCEPTED}", accepted >= LEAST_ACCEPTED, json.dumps(counts)
    )


# -- the check


def checked(data: Path) -> Iterator[tuple[str, bool, list[str]]]:
    """Read every fact of a vault: its text, whether a model worded it, and what of it is not in its turns."""
    turns = dict(_turns(data))
    for path in facts_in(data):
        _, head, body = path.read_text().split("---\n", 2)
        meta = yaml.safe_load(head)
        text = re.sub(r"\[\^\w+\](?::[^\n]*)?", "", body).strip()
        cited = [turns[source["title"]] for source in meta["sources"] if source["title"] in turns]
        generated = str((meta.get("generated") or {}).get("by", ""))
        yield text, generated.startswith(("ollama/", "openai")), unsupported(text, cited)


def _turns(data: Path) -> Iterator[tuple[str, Turn]]:
    for path in data.rglob("sessions/**/*.md"):
        if path.name == CATALOGUE:
            continue
        text = path.read_text()
        node_id = yaml.safe_load(text.split("---\n", 2)[1])["node_id"]
        heads = list(_TURN.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            said = text[head.end() : following.start() if following else len(text)]
            day = date.fromisoformat(head[3][:10]) if head[3] else None
            yield f"{node_id}#{head[1]}", Turn(head[2], said, day)


def unsupported(text: str, cited: list[Turn]) -> list[str]:
    """Name what a fact says that its turns do not."""
    said = " ".join(f"{turn.role} {turn.text}" for turn in cited)
    there = {word.lower() for word in re.findall(r"\w+", said)}
    numbers = {str(_NUMBERS.get(word, word)) for word in there}
    wrong = [f"date {match[0]}" for match in _DATE.finditer(text) if not _is_dated(match, said, cited)]
    rest = _DATE.sub(" ", text)
    rest = re.sub(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|\bthe \w+ (?:before|after|of)\b|\bSaid\b", " ", rest)
    for word in re.findall(r"\b\w+\b", rest):
        if (word.isdigit() or word.lower() in _NUMBERS) and str(_NUMBERS.get(word.lower(), word)) not in numbers:
            wrong.append(f"number {word}")
    for match in re.finditer(r"(?<![.!?–:\"“] )(?<!^)\b[A-Z][a-z]+\b", rest):
        if match[0].lower() not in there and not _is_partner(match[0], cited):
            wrong.append(f"name {match[0]}")
    return wrong


def _is_partner(name: str, cited: list[Turn]) -> bool:
    """Whether a name is the other's of a conversation of two."""
    return any(name in partner for turn in cited for partner in PARTNERS.get(turn.role, ()))


PARTNERS: dict[str, set[str]] = {}
"""Who talks to whom in LoCoMo's dev conversations."""
for _pair in ("Caroline Melanie", "Jon Gina", "John Maria", "Joanna Nate", "Tim John"):
    _first, _second = _pair.split()
    PARTNERS.setdefault(_first, set()).add(_second)
    PARTNERS.setdefault(_second, set()).add(_first)


def _is_dated(match: re.Match[str], said: str, cited: list[Turn]) -> bool:
    """Whether a date was said, or is one that its turns' relative words can mean."""
    if match[0] in said or (match[4] and match[4] in said):
        return True
    for turn in cited:
        if turn.day is None or not _RELATIVE.search(turn.text):
            continue
        if match[1]:
            named = date(int(match[3]), _MONTHS.index(match[2]) + 1, int(match[1]))
            if named in _days(turn):
                return True
        elif match[2]:
            months = (int(match[3]) - turn.day.year) * 12 + _MONTHS.index(match[2]) + 1 - turn.day.month
            if abs(months) <= 12 and re.search(r"month|last|next|this|year", turn.text, re.IGNORECASE):
                return True
        elif abs(int(match[4]) - turn.day.year) <= 20 and re.search(
            r"year|summer|winter|spring|fall|autumn", turn.text, re.I
        ):
            return True
    return False


def _days(turn: Turn) -> set[date]:
    """Every day that the relative words of a turn can mean; the day itself, from which vaguer spans are told."""
    assert turn.day is not None
    text, day = turn.text.lower(), turn.day
    days = {day}
    for pattern, offset in ((r"yesterday|last (?:night|evening)", -1), (r"tomorrow", 1), (r"day before yesterday", -2)):
        if re.search(pattern, text):
            days.add(day + timedelta(days=offset))
    for number, unit in re.findall(r"\b(\w+(?: of)?) (day|week)s? (?:ago|from now)", text):
        count = _NUMBERS.get(
            number, {"a": 1, "an": 1, "couple of": 2}.get(number, int(number) if number.isdigit() else 0)
        )
        days |= {
            day - timedelta(days=count * (7 if unit == "week" else 1)),
            day + timedelta(days=count * (7 if unit == "week" else 1)),
        }
    if any(re.search(rf"\b(?:last|next|this|past|coming) (?:{name}|{name[:3]})\b", text) for name in _DAYS):
        days |= {
            day + timedelta(days=offset)
            for offset in range(-7, 8)
            if re.search(_DAYS[(day + timedelta(days=offset)).weekday()][:3], text)
        }
    return days
