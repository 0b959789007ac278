"""Values as the page words them: times, projects and texts, in which all markup is made here, and the rest escaped."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from urllib.parse import quote

from ...store import RELATION_WORDS
from ...store.channel import project_name
from ...store.roles import Role
from ..formatting import count, date_of, relative, when

GLOBAL = "_global"
_TURN = re.compile(r"^#(\d{1,9}) ([^\s:]{1,64}): ?", re.MULTILINE)
_STEP = re.compile(r"\[(?P<name>[^\]\n:]{1,80})(?:: (?P<what>[^\n]{0,400}))?")


def day(given: str | None, now: datetime) -> str:
    """Return a day as people write it, without the year where it is this one."""
    at = when(given)
    return date_of(at, now) if at else ""


def moment(given: str | None, now: datetime) -> str:
    """Return a day and the time of day."""
    at = when(given)
    return f"{date_of(at, now)}, {at:%H:%M}" if at else ""


def ago(given: str | None, now: datetime) -> str:
    """Return how long ago or ahead something is, roughly: `3 hours ago`."""
    at = when(given)
    return relative(at, now) if at else ""


def project(channel: str, among: Collection[str] = ()) -> str:
    """Return a channel as its person knows it: the name of the project, alone where no other of some has it."""
    return "everywhere" if channel == GLOBAL else project_name(channel, among)


def address(node_id: str) -> str:
    """Return the address of a memory's page; of a turn the place in its session's."""
    session, mark, ordinal = node_id.partition("#")
    return (
        f"/session/{quote(session, safe='')}?turn={ordinal}#t{ordinal}"
        if mark
        else f"/memory/{quote(node_id, safe='')}"
    )


def thing_address(name: str) -> str:
    """Return the address of the page of a person or a thing."""
    return f"/thing/{quote(name, safe='')}"


DREAMS = {"daily": "Dream of the day", "weekly": "Dream of the week", "compaction": "Small dream"}
RUNS: Mapping[str, str] = DREAMS | {
    "edit": "Changed",
    "forget": "Forgot",
    "restore": "Brought back",
    "review": "Decided on",
    "remember": "Said again",
    "link": "Linked what was remembered",
    "undo": "Undid",
    "deleted": "Files that were deleted by hand",
    "migrate": "Gave each project a folder of its own",
    "purge": "Erased for good",
    "learn": "Learned from files",
    "joined": "Put the two files of a session together",
    "sync": "Let in from other machines",
}
_MADE = (
    ("/people/", "New people"),
    ("/things/", "New things"),
    ("/episodes/", "New scenarios"),
    ("/procedures/", "New procedures"),
    ("/insights/", "New patterns"),
)
"""The folders of new pages, each with the name of its group."""

_CHANGED = {
    "decay": "Faded: nobody asked for them",
    "drift": "Replaced, said again, or in question",
    "staleness": "Out of date: their day is over",
    "entities": "People and things of whom more is known",
    "promotion": "Hold in every project now",
    "remember": "Said again",
    "edit": "Changed by you",
    "review": "Decided by you",
    "restore": "Brought back",
    "forget": "Forgotten",
    "purge": "Lines of it erased",
    "by hand": "People and things that you put right",
    "migrate": "Moved",
    "sync": "From your other machines",
}
_FOLLOWS = "Pages that follow what changed"
_GROUPS = (*_CHANGED.values(), "New facts", *dict(_MADE).values(), "New profiles", _FOLLOWS, "Removed")
_FADED = re.compile(r"confidence [\d.]+; (?P<why>.+)")
_SILENT_REASONS = (
    "said in ",
    "turns name it",
    "its facts have changed",
    "a person",
    "to the folder",
    "its links follow",
)


def change_group(change: Mapping[str, Any]) -> str:
    """Return the name of the group that a change of a run is shown in."""
    kind, stage, path = str(change["kind"]), str(change["stage"]), f"/{change['path']}"
    if kind == "delete" and stage != "migrate":
        return "Removed"
    if kind == "create" and stage not in ("migrate", "sync", "remember"):
        made = next((words for folder, words in _MADE if folder in path), "")
        return made or ("New profiles" if stage == "profiles" else "New facts")
    return _CHANGED.get(stage, _FOLLOWS)


def groups_of(changes: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Return the changes of a run in groups, those first that a person looks for."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in changes:
        found.setdefault(change_group(one), []).append(one)
    return sorted(found.items(), key=lambda group: _GROUPS.index(group[0]))


def change_reason(change: Mapping[str, Any]) -> str:
    """Return the reason of a change; "" where the name of its group says it."""
    reason = str(change["reason"])
    if found := _FADED.fullmatch(reason):
        return found["why"]
    return "" if reason.startswith(_SILENT_REASONS) else reason


NOUNS = {"review": "decision", "deleted": "deletion", "link": "linking", "migrate": "move"}
"""The kinds of runs that are called otherwise than a change where another run speaks of them."""

_RUN_ID = re.compile(r"\b(?P<verb>undid|redid) (?P<at>\d{8}-\d{6})-\d{6}-(?P<kind>\w+)-[0-9a-f]{4}\b")


def run_name(run: Mapping[str, Any], now: datetime) -> str:
    """Return the name of a run as a person calls it: `Changed “The port is 8443”`, `Undid the small dream of 3 Nov`."""
    kind = str(run["kind"])
    name = RUNS.get(kind, kind.replace("_", " ").capitalize())
    if found := _RUN_ID.search(run["note"]):
        at = datetime.strptime(found["at"], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
        verb = "Undid" if found["verb"] == "undid" else "Applied again"
        other = (DREAMS | NOUNS).get(found["kind"], "change")
        return f"{verb} the {other[:1].lower()}{other[1:]} of {moment(at, now)}"
    return f"{name} “{run['about']}”" if run["about"] else name


def run_note(run: Mapping[str, Any]) -> str:
    """Return a run's note; "" where it only repeats the run's name."""
    if run["kind"] == "purge":
        counts = ((int(found[2]), found[1]) for found in re.finditer(r"(\w+): (\d+)", run["note"]))
        return ", ".join(
            count(amount, noun.removesuffix("s").replace("memorie", "memory"), noun) for amount, noun in counts
        )
    return "" if run["about"] or _RUN_ID.search(run["note"]) else run["note"]


def counted(run: Mapping[str, Any]) -> str:
    """Return the numbers of a run's changes, without those that are none: `61 new, 15 changed`."""
    counts = ((run["created"], "new"), (run["replaced"], "changed"), (run["deleted"], "removed"))
    return ", ".join(f"{amount:,} {what}" for amount, what in counts if amount)


def said(relation: str) -> str:
    """Return the type of a relation in words: `reports to`."""
    return RELATION_WORDS.get(relation, relation)


COMMANDS = {
    "told": ("Told to agents", "/told"),
    "runs": ("Runs", "/runs"),
    "dream": ("Runs", "/runs"),
    "review": ("Review", "/review"),
    "list": ("Memories", "/memories"),
    "recall": ("Search", "/search"),
    "entities": ("People and things", "/things"),
    "about": ("People and things", "/things"),
    "status": ("Health", "/health"),
    "doctor": ("Health", "/health"),
    "check": ("A look at every file", "/health?check=1"),
    "resume": ("The switch of learning", "/health#learning"),
    "pause": ("The switch of learning", "/health#learning"),
    "backup": ("A backup", "/health#keep"),
    "purge": ("Erasing", "/purge"),
    "digest": ("The digest", "/digest"),
}
"""The commands that are places of the page, each with the words and the address of its place."""

_COMMAND = re.compile(r"`dreamctl (?P<name>[a-z]+)(?: (?P<what>[\w.#-]+))?[^`\n]*`")


def as_places(text: str) -> str:
    """Return a text of our own in which commands are links to the places of the page that do the same."""
    return _COMMAND.sub(_place_of_command, text)


def _place_of_command(found: re.Match[str]) -> str:
    name, what = found["name"], found["what"] or ""
    if name in ("undo", "redo"):
        return f"[its run](/run/{what})" if "-" in what else "[Runs](/runs)"
    if name in ("show", "restore", "edit", "forget"):
        return f"[its page](/memory/{quote(what)})" if re.search(r"[a-z0-9]", what) else "its page"
    words, place = COMMANDS.get(name, ("", ""))
    return f"[{words}]({place})" if place else str(found[0])


KINDS_IN_WORDS = {
    "fact": ("fact", "something worth keeping, in the words in which it was said"),
    "decision": ("decision", "what was decided, with its reason"),
    "value": ("set value", "a number, date or setting that holds until it changes"),
    "preference": ("preference", "how you want things to be"),
    "procedure": ("procedure", "how something is done, step by step"),
    "pitfall": ("pitfall", "what goes wrong, and why"),
    "correction": ("correction", "a claim that was put right"),
    "negative": ("refusal", "what was proposed and refused"),
    "event": ("event", "something with a day"),
    "person": ("person", "who somebody is, and what they do"),
    "finding": ("finding", "what an assistant found out"),
    "note": ("note", "a text that was written down"),
    "episode": ("episode", "something that happened in a session"),
    "scenario": ("scenario", "a page of one subject over one or several sessions, made by a dream"),
    "insight": ("pattern", "what recurs over several sessions, found by a dream"),
    "profile": ("profile", "a page of all that holds in a project, made by a dream"),
    "entity": ("person or thing", "a page of a person or a thing, made by a dream"),
    "document": ("document", "a text that an agent keeps under a key"),
    "turn": ("said", "a sentence of a session, as it was said"),
    "session": ("session", "a conversation with an agent"),
}
"""The kinds of memories in plain words, each with its meaning."""


def kind_word(kind: str) -> str:
    """Return a kind in plain words."""
    return KINDS_IN_WORDS.get(kind, (kind.replace("_", " "), ""))[0]


def kind_meaning(kind: str) -> str:
    """Return the meaning of a kind."""
    return KINDS_IN_WORDS.get(kind, ("", ""))[1]


def sure(confidence: float) -> str:
    """Return a confidence of 0 to 1 in a word."""
    return "sure" if confidence >= 0.6 else "likely" if confidence >= 0.3 else "perhaps"


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn of a conversation, by its ordinal."""

    ordinal: int
    role: str
    text: str

    @property
    def step(self) -> str:
        """The tool that it calls or answers, in a few words; "" where a person or an agent speaks."""
        found = _STEP.match(self.text)
        if self.role == Role.TOOL or (found and self.role == Role.ASSISTANT):
            what = f" {found['what'].rstrip(']')}" if found and found["what"] else ""
            return f"{found['name']}{what}" if found else "output"
        return ""


def turns(text: str) -> list[ShownTurn]:
    """Take the text of a session apart into its turns, whose ordinals only grow."""
    heads = []
    last = 0
    for found in _TURN.finditer(text):
        is_first = found.start() == 0 or text[max(0, found.start() - 2) : found.start()] == "\n\n"
        if is_first and int(found[1]) > last:
            heads.append(found)
            last = int(found[1])
    ends = [found.start() for found in heads[1:]] + [len(text)]
    return [
        ShownTurn(int(found[1]), found[2], text[found.end() : end].strip("\n"))
        for found, end in zip(heads, ends, strict=True)
    ]


def conversation(shown: Sequence[ShownTurn]) -> list[tuple[bool, list[ShownTurn]]]:
    """Return the turns in groups: those that speak, and the steps between them, which are folded."""
    return [(is_step, list(some)) for is_step, some in groupby(shown, key=lambda turn: bool(turn.step))]
