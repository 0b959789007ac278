"""Is what is told what was said? Every text that is handed out after a dream of real sessions, held against turns.

`python -m tests.bench.wording` imports the sessions of `entire`, dreams, and looks at turns, facts, pages, digests, the
starts of sessions, envelopes and hits: each must be a piece of what was said, word for word. White space may be
collapsed, and marks of ours stand beside the words: "…" for what is left out, the day that "yesterday" meant, the
number of steps, and what breaks a tag or the mark of a role.
"""

from __future__ import annotations

import argparse
import errno
import gzip
import html
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dreamd.ipc.mcp import render
from dreamd.store import okf
from dreamd.store.model import Level, Memory
from dreamd.store.okf import session as sessions
from dreamd.store.text.quotes import read_reply
from dreamd.store.vault.layout import is_ours
from loguru import logger

from tests.told import strays

from .in_process import DaemonInProcess
from .options import SHARED_DATA
from .scratch import own_folder
from .table import Row, report, say

DATA = "entire"
BUDGETS = (300, 500, 2000)
MOST_SHOWN = 400
"""Violations that are printed."""

_NOTE = re.compile(
    r"\[redacted:[\w-]+\]|^\[it printed\]$|^\[[\w.-]+(?: result| failed)?(?:: | |\])|\]$|^/[\w:.-]+ ", re.MULTILINE
)
"""A secret's mark; the frame of a note of a tool's call; a command, which a transcript keeps apart from its words."""

_HEAD = re.compile(
    r"(?:- )?(?:\d{1,2} [A-Z][a-z]{2} \d{4}(?:, |(?=:)))?(?:user|assistant|tool|note|system)?"
    r"(?:, (?:disputed|until [^,:]+|changed since|likely changed later[^,:]*|out of date))*: ",
)
_REPLY = re.compile(r' \((?:to(?: \w+:)?|after) "(?P<to>.*)"\)\Z', re.DOTALL)
_QUOTED = re.compile(r"“(.*)”", re.DOTALL)
_BETWEEN_QUOTES = re.compile(r"” – “|”, said to “")
_LABEL = re.compile(r"\[\^(\w+)\]\s*$")
_TAG = re.compile(r"<[^>]+>")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ITEM = re.compile(r"^[^\S\n]*(?:[-*+]|\d{1,3}[.)])\s+", re.MULTILINE)
_FENCE_LINE = re.compile(r"^\s*`{3,}[^\n`]*$", re.MULTILINE)
_BARE = re.compile(r"\*\*|`")


@dataclass
class Found:
    """What was looked at, and what is no piece of what was said, by the kind of place."""

    looked_at: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, place: str, told: str, said: Iterable[str], *, where: str = "") -> None:
        """Hold a text against those that it may be a piece of."""
        self.looked_at[place] += 1
        stray = strays(told, said)
        if stray:
            self.wrong[place].append(f"{where}: {stray[0]!r}")


class Said:
    """All that was said: the turns as they are kept, by id, session and channel."""

    def __init__(self, vault: Path) -> None:
        self.turns: dict[str, str] = {}
        self.by_session: dict[str, list[str]] = defaultdict(list)
        self.by_channel: dict[str, list[str]] = defaultdict(list)
        self.titles: dict[str, str] = {}
        self.folders: dict[str, str] = {}
        for path in sorted(vault.glob("sessions/**/*.md")):
            data = path.read_bytes()
            head = sessions.head_of(str(path.relative_to(vault)), okf.parse(data))
            self.titles[head.session_id] = head.title
            if head.cwd:
                self.folders.setdefault(head.channel, head.cwd)
            for turn in sessions.parse(data, session_id=head.session_id).turns:
                self.turns[turn.node_id] = turn.text
                self.by_session[head.session_id].append(turn.text)
                self.by_channel[head.channel].append(turn.text)

    @cached_property
    def everything(self) -> list[str]:
        """All turns and titles as one text."""
        return ["\n\n".join([*self.turns.values(), *self.titles.values()])]

    def of(self, ids: Iterable[str]) -> list[str]:
        """Return the turns with these ids; everything for none."""
        found = [self.turns[one] for one in ids if one in self.turns]
        return found or self.everything

    def around(self, ids: Iterable[str]) -> list[str]:
        """Return the turns with these ids and those right before them."""
        ids = list(ids)
        before = [
            f"{session}#{int(number) - 1}" for session, _, number in (one.partition("#") for one in ids) if number
        ]
        return self.of([*ids, *before])


def _measure(daemon: DaemonInProcess, folder: Path, data: Path, every: int) -> Iterator[Row]:
    raw = _unpacked(data / "sessions", folder / "unpacked", every)
    say("wording: importing")
    daemon.call("import", paths=[str(folder / "unpacked")], format="claude-code")
    daemon.wait_until_embedded()
    say("wording: dreaming")
    run = daemon.call("dream", kind="daily", wait=True)
    daemon.wait_until_embedded()
    yield Row("wording, the dream", run["state"], "applied", run["state"] == "applied", f"{run['seconds']:.0f} s")
    vault = Path(daemon.call("status")["vault"])
    said, found = Said(vault), Found()
    memories = _memories(vault)
    say("wording: looking")
    _look_at_turns(said, raw, found)
    _look_at_facts(memories, said, found)
    _look_at_pages(memories, said, found)
    _look_at_digests(vault, memories, said, found)
    _look_at_starts(daemon, said, found)
    _look_at_shown(daemon, memories, said, found)
    _look_at_answers(daemon, json.loads((data / "labels" / "prompts.json").read_text()), said, memories, found)
    for place, number in found.looked_at.items():
        wrong = found.wrong[place]
        yield Row(f"wording, {place}: no piece of what was said", f"{len(wrong):,}", "0", not wrong, f"of {number:,}")
    for place, listed in found.wrong.items():
        for one in listed[:MOST_SHOWN]:
            print(f"         {place} {one[:400]}")


def _unpacked(folder: Path, into: Path, every: int) -> dict[str, str]:
    """Unpack the sessions; return all strings of each file, by its session ids, as one text."""
    into.mkdir(parents=True, exist_ok=True)
    raw: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.glob("*.gz"))[::every]:
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        (into / path.stem).write_text(text)
        for line in filter(None, text.split("\n")):
            try:
                value = json.loads(line)
            except ValueError:  # a line that broke off; nothing of it is read
                continue
            raw[sessions.session_id(str(value.get("sessionId") or Path(path.stem).stem))] += _strings(value)
    return {name: "\n".join(dict.fromkeys(strings)) for name, strings in raw.items()}


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from _strings(inner)
        case list():
            for inner in value:
                yield from _strings(inner)


def _memories(vault: Path) -> dict[str, Memory]:
    found = {}
    for path in vault.rglob("*.md"):
        if is_ours(name := path.relative_to(vault).as_posix()) and path.name != "index.md":
            memory = okf.to_memory(name, okf.parse(path.read_bytes()))
            found[memory.node_id] = memory
    return found


def _look_at_turns(said: Said, raw: Mapping[str, str], found: Found) -> None:
    for node_id, text in said.turns.items():
        for part in re.split(r"\n?\[… [\d,]+ characters left out …\]\n?", text):
            bare = "…".join(_NOTE.sub("…", part).split("\n"))
            found.take("turns", bare, [raw.get(node_id.partition("#")[0], "")], where=node_id)


def _look_at_facts(memories: Mapping[str, Memory], said: Said, found: Found) -> None:
    for fact in memories.values():
        if fact.level is not Level.FACT:
            continue
        words, reply_to = read_reply(fact.text)
        cited = said.of(fact.sources)
        found.take("facts", words, cited, where=fact.path)
        found.take("facts", reply_to, cited, where=fact.path)
        found.take("titles of facts", fact.title, cited, where=fact.path)
        for name in fact.about:
            found.take("names of facts", name, said.by_session[fact.session_id or ""], where=fact.path)


def _look_at_pages(memories: Mapping[str, Memory], said: Said, found: Found) -> None:
    for page in memories.values():
        if page.level is Level.FACT:
            continue
        labels = {label: memories[one] for one, label in okf.source_ids(page.sources).items() if one in memories}
        for line in page.text.splitlines():
            if line.lstrip().startswith("- ") and (label := _LABEL.search(line)) and label[1] in labels:
                _quotes(
                    f"{page.level.value} pages", line[: label.start()], labels[label[1]].sources, said, found, page.path
                )
        if page.level is Level.SCENARIO and page.run:
            told = re.sub(r"^[\w .-]{1,40}: ", "", page.title)
            ours = page.title == "What comes up again"
            found.take("titles of pages", "" if ours else told, said.everything, where=page.path)
        elif page.title != "What holds now":
            found.take("titles of pages", page.title, said.everything, where=page.path)


def _quotes(place: str, line: str, sources: Iterable[str], said: Said, found: Found, where: str) -> None:
    """Take the quotes of a line of a page."""
    if (quoted := _QUOTED.search(line)) is None:
        return
    for one in _BETWEEN_QUOTES.split(quoted[1]):
        found.take(place, one, said.of(sources), where=where)


def _look_at_digests(vault: Path, memories: Mapping[str, Memory], said: Said, found: Found) -> None:
    by_path = {memory.path: memory for memory in memories.values()}
    for path in vault.glob("digests/2*.md"):
        for line in path.read_text().splitlines():
            for text, target in re.findall(r"\[((?:\\.|`[^`]*`|[^\]\\])*)\]\(/([^)\s]+)\)", line):
                _told(f"digest, {path.suffix}", _without_escapes(text), by_path.get(target), said, found, path.name)
    for path in vault.glob("digests/*.html"):
        page = path.read_text().partition("<main>")[2]
        for target, text in re.findall(r'<a href="\.\./([^"]+)">(.*?)</a>', page, re.DOTALL):
            bare = html.unescape(_TAG.sub("", re.sub(r"<(?:li|ul|ol|pre)\b[^>]*>", " ", text)))
            memory = by_path.get(html.unescape(target))
            _told(f"digest, {path.suffix}", bare, memory, said, found, path.name)
            if "**" in bare.replace("****", ""):
                found.wrong["digest, marks shown raw"].append(f"{path.name}: {bare!r}")
            found.looked_at["digest, marks shown raw"] += 1


def _without_escapes(text: str) -> str:
    """Return a line of markdown without its escapes, which are none inside code."""
    parts = re.split(r"(`+[^`]+`+)", text)
    return "".join(part if number % 2 else _ESCAPE.sub(r"\1", part) for number, part in enumerate(parts))


def _told(place: str, text: str, memory: Memory | None, said: Said, found: Found, where: str) -> None:
    """Take a line of a digest, which is about a memory."""
    if memory is None:
        found.take(place, text, said.everything, where=where)
    elif memory.level is not Level.FACT:
        titles = [memory.title, _BARE.sub("", memory.title)]
        found.take(place, text.partition(f" ({memory.channel})")[0], titles, where=where)
    else:
        quoted = _QUOTED.search(text)
        for one in _BETWEEN_QUOTES.split(quoted[1] if quoted else ""):
            texts = said.of(memory.sources)
            if ".html" in place:
                one, texts = _BARE.sub("", one), list(map(_as_shown, texts))
            found.take(place, one, texts, where=f"{where} {memory.path}")


def _as_shown(text: str) -> str:
    """Return a text as HTML shows it on one line, and as it does in lists and blocks of code."""
    return f"{_BARE.sub('', text)}\n\n{_BARE.sub('', _FENCE_LINE.sub('', _ITEM.sub('', text)))}"


def _look_at_starts(daemon: DaemonInProcess, said: Said, found: Found) -> None:
    for channel, folder in said.folders.items():
        given = {
            "session_id": f"start-{channel}",
            "source": "startup",
            "cwd": folder,
            "hook_event_name": "SessionStart",
        }
        output = daemon.call("hook", agent="claude-code", event="SessionStart", given=given, cwd=folder)["output"]
        text = json.loads(output)["hookSpecificOutput"]["additionalContext"] if output else ""
        texts = said.by_channel[channel]
        for line in text.splitlines():
            if quoted := _QUOTED.search(line):
                for one in _BETWEEN_QUOTES.split(quoted[1]):
                    found.take("starts of sessions", one, texts, where=channel)


def _look_at_shown(daemon: DaemonInProcess, memories: Mapping[str, Memory], said: Said, found: Found) -> None:
    """Show every fact as an agent sees it."""
    for fact in memories.values():
        if fact.level is Level.FACT:
            shown = render.shown(daemon.call("show", node_id=fact.node_id), {})
            body = shown.partition("\n")[2].partition("</dreamd-memory>")[0]
            words, reply_to = read_reply(body)
            for one in (words, reply_to):
                found.take("show", one, said.of(fact.sources), where=fact.path)


def _look_at_answers(
    daemon: DaemonInProcess,
    prompts: Iterable[Mapping[str, Any]],
    said: Said,
    memories: Mapping[str, Memory],
    found: Found,
) -> None:
    for prompt in prompts:
        for budget in BUDGETS:
            answer = daemon.call("context", query=prompt["prompt"], channel="*", budget_tokens=budget)
            for slot in answer["slots"]:
                _take_slot(f"envelopes of {budget}", slot, said, found)
        answer = daemon.call("recall", query=prompt["prompt"], limit=10, channel="*")
        for hit in answer["hits"]:
            _take_hit(hit, said, memories, found)


def _take_slot(place: str, slot: Mapping[str, Any], said: Said, found: Found) -> None:
    ids = [one["node_id"] for one in slot["evidence"]]
    text = slot["text"]
    head = _HEAD.match(text)
    if head is None:
        found.wrong[place].append(f"{slot['node_id']}: no head: {text!r}")
        return
    words = text[head.end() :]
    if reply := _REPLY.search(words):
        found.take(place, reply["to"], said.around(ids), where=slot["node_id"])
        words = words[: reply.start()]
    found.take(place, words, said.of(ids), where=slot["node_id"])


def _take_hit(hit: Mapping[str, Any], said: Said, memories: Mapping[str, Memory], found: Found) -> None:
    ids = [one["node_id"] for one in hit["evidence"]]
    memory = memories.get(hit["node_id"])
    texts = said.of(ids) if memory is None or memory.level is Level.FACT else [memory.text]
    words, reply_to = read_reply(hit["text"]) if memory else (hit["text"], "")
    rendered = render.recalled({"hits": [hit], "notes": [], "elsewhere": []}, {})
    lines = rendered.partition("\n")[2].partition("</dreamd-memory>")[0].splitlines()
    for one in (words, reply_to):
        found.take("hits", one, texts, where=hit["node_id"])
    for line in lines:
        if not line.startswith("(goes on: show "):
            found.take("hits as an agent sees them", line.removeprefix("> "), texts, where=hit["node_id"])


def main() -> int:
    """Take the rows; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.wording", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=SHARED_DATA / DATA, help="the sessions' folder")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every Nth session alone")
    parser.add_argument("--folder", type=Path, help="keep the store there, to look at it (a folder that is empty)")
    given = parser.parse_args()
    if not given.data.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no sessions", str(given.data))
    logger.remove()
    folder: AbstractContextManager[Path] = nullcontext(given.folder) if given.folder else own_folder(DATA)
    with folder as place, DaemonInProcess(place) as daemon:
        return report(_measure(daemon, place, given.data, given.every))


if __name__ == "__main__":
    sys.exit(main())
