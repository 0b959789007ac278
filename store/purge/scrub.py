"""Remove purged content from a file and from the ledger's rows: pure functions of the content.

A file of the vault and every image of it in the history become the same, so the hashes along which runs are undone
still match after a purge.
"""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from .. import okf
from ..changes.links import SAME_AS, released
from ..changes.undo import LISTS
from ..index.projection import is_session
from ..ledger.journal import sha256
from ..ledger.records import PURGED, Write, clear_flag, forget_answers, lift_tombstone, packed, unpacked
from ..ledger.work import (
    ANCHORS,
    GOALS,
    TOLD,
    anchor_of_row,
    erase_told,
    erase_work,
    forget_handed,
    goal_of_row,
    set_anchor,
    set_goal,
    set_told,
    told_of_row,
    work_text,
)
from ..model import InvalidInput, Level, NodeId, tombstone_keys
from ..okf import session
from ..okf.entity_page import ALIASES, MENTIONS, NOT_NAMES, NOT_RELATIONS, RELATIONS
from ..okf.memory_file import BY_HAND, body_hash, has_known_words
from ..okf.session import ERASED
from ..redaction import REDACTED, find, redact
from ..roles import Role
from ..text.words import ALPHANUMERIC
from ..vault.layout import suffix_of
from ..vault.vault import is_derived
from .prove import ErasedWords, words_of

PAGES: Final = frozenset({Level.SCENARIO.value, Level.PROFILE.value})
ERASED_SECRET: Final = f"{REDACTED}secret]"
FEWEST_CHARS: Final = 6
"""A shorter secret of one part of a file is no word to be taken from the others."""

_LINKS: Final = (*sorted(LISTS), SAME_AS, "sources", "relates", RELATIONS, NOT_RELATIONS, MENTIONS)
_IDS: Final = ("turns", "gone", "sessions", "work", "doubled", "told")
_NAMES: Final = (ALIASES, NOT_NAMES)
_SAID: Final = ("title", "description", "tags", "about", "slot", *_NAMES, RELATIONS, NOT_RELATIONS)
"""The keys of the frontmatter that hold a person's words."""

_ENDING = re.compile(r"-([a-z2-7]{6})\.md\b")
"""The end of a file's name, of which the id is a part alone."""

_LABEL = re.compile(r"\[\^([tm]\d+)\]")
_QUOTED = re.compile(r"“[^”]*”")
_LINK = re.compile(r"""(\]\([^)]{0,1000}\)|href="[^"]{0,1000}")""")
_PAGE_LINK = re.compile(
    r"""\[(?P<title>[^\]\n]{1,400})\]\((?P<path>/[^)\s]{1,400})\)|href="(?P<target>[^"\n]{1,400})">(?P<name>[^<\n]{1,400})<"""
)
_WORD = re.compile(rf"&#?\w+;|(?P<word>{ALPHANUMERIC.pattern})")
"""A word of a line of HTML or Markdown, or an escaped character, which is none."""

_WHOLE_ENTRY = re.compile(r"\s*(?:[-*] .*|\|.*\||<li\b.*</li>|<tr\b.*</tr>)\s*")
"""A line of a derived page that may go as a whole: an entry of a list or a row of a table."""


@dataclass(frozen=True)
class Erasure:
    """The nodes that a purge removes, and the words by which their content is recognised elsewhere.

    `turns` lose their text, `gone` are memories whose files go, of `sessions` also title and folder. Of the sessions
    in `work` the anchor and the goals go, and the texts in `told`, which agents were handed. Of an id in `doubled`,
    which several files have, only the files with purged content go: another file of this id may say something else.
    `ids` are the nodes that no other may link to any more. With `secrets` none of these is removed; the secrets are, in
    any file or row.
    """

    words: ErasedWords
    turns: frozenset[NodeId] = frozenset()
    gone: frozenset[NodeId] = frozenset()
    sessions: frozenset[NodeId] = frozenset()
    work: frozenset[NodeId] = frozenset()
    doubled: frozenset[NodeId] = frozenset()
    told: frozenset[str] = frozenset()
    secrets: bool = False
    ids: frozenset[NodeId] = field(init=False)
    endings: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Join the turns and the memories, and note how the names of their files end."""
        object.__setattr__(self, "ids", self.turns | self.gone)
        object.__setattr__(self, "endings", frozenset(map(suffix_of, self.gone)))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        ids = {name: sorted(getattr(self, name)) for name in _IDS}
        return {"words": self.words.to_json(), "secrets": self.secrets, **ids}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Erasure:
        """Read it back. Raises KeyError, TypeError or ValueError for anything else."""
        ids = {name: frozenset(written.get(name, ())) for name in _IDS}
        return cls(ErasedWords.from_json(written["words"]), secrets=bool(written["secrets"]), **ids)

    # ---- short texts

    def is_in(self, text: str) -> bool:
        """Return True if a text contains purged content."""
        return bool(redact(text).found) if self.secrets else self.words.mentions(text)

    def cleaned(self, text: str) -> str:
        """Return a short text without purged content."""
        if self.secrets:
            return self.renamed(redact(text).text)
        return self._masked(text) if self._reveals(text) else text

    def renamed(self, path: str) -> str:
        """Return a path without the words of a secret; any other file with such a path goes."""
        if not self.secrets:
            return path
        return ALPHANUMERIC.sub(lambda word: "erased" if self.words.is_trace(word[0].casefold()) else word[0], path)

    def removes_work(self, session_id: NodeId, text: str) -> bool:
        """Return True for an anchor or a goal that goes: with its session, or since it repeats purged content."""
        return not self.secrets and (session_id in self.work or self.words.overlaps(text))

    def _reveals(self, line: str) -> bool:
        plain = html.unescape(line)
        names_it = not self.gone.isdisjoint(words_of(plain)) or not self.endings.isdisjoint(_ENDING.findall(plain))
        return names_it or self.words.mentions(plain)

    def _masked(self, line: str) -> str:
        line = _QUOTED.sub(lambda quoted: f"“{ERASED}”" if self._reveals(quoted[0]) else quoted[0], line)
        return ALPHANUMERIC.sub(lambda word: "…" if self._reveals(word[0]) else word[0], line)

    # ---- files

    def scrubbed(self, path: str, data: bytes) -> bytes | None:
        """Return a file without purged content, None where nothing of it stays."""
        if is_derived(path):
            text = data.decode("utf-8", "surrogateescape")
            return (self._redacted_page(text) if self.secrets else self._derived(text)).encode(
                "utf-8", "surrogateescape"
            )
        if is_session(path):
            return self._redacted_session(path, data) if self.secrets else self._session(path, data)
        return self._redacted_memory(path, data) if self.secrets else self._memory(path, data)

    def _session(self, path: str, data: bytes) -> bytes:
        head = session.head_of(path, okf.parse(data))
        is_whole = head.session_id in self.sessions
        data = session.with_texts(
            data,
            lambda turn: ERASED if self._removes(f"{head.session_id}#{turn.ordinal}", turn.text) else turn.text,
            lambda turn: Role.USER if self.words.mentions(turn.role) else turn.role,  # a speaker's name
        )
        changes: dict[str, Any] = {"title": head.session_id} if is_whole or self.words.covers(head.title) else {}
        if is_whole:
            changes |= dict.fromkeys(("cwd", "agent_id", "task_id", "user_id"))
        return _edited(data, changes)

    def _removes(self, node_id: NodeId, text: str) -> bool:
        return node_id in self.ids and (node_id not in self.doubled or self.words.covers(text))

    def _memory(self, path: str, data: bytes) -> bytes | None:
        document = okf.parse(data)
        memory = okf.to_memory(path, document)
        if self._removes(memory.node_id, memory.text):
            return None
        if not document.meta:  # a person's own file, which was not selected
            return data
        lost = [source for source in memory.sources if source in self.ids]
        is_page = document.meta.get("level") in PAGES
        is_edited = is_page and document.meta.get(BY_HAND) != body_hash(document.body)  # it may hold a person's lines
        rests_on_it = len(lost) == len(set(memory.sources)) and not is_edited
        if lost and (rests_on_it or (not is_page and self.words.overlaps(memory.text))):
            return None
        if is_page and self.words.mentions(f"{memory.title}\n{memory.description}"):
            return None
        data = _edited(data, self._unlinked(document.meta))
        # Its successor goes, so it holds again: no list of links may say otherwise.
        if memory.superseded_by in self.ids:
            with contextlib.suppress(InvalidInput):
                data = released(data, None)
        return self._page(data, document.meta) if is_page else data

    def _unlinked(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes to frontmatter by which it links to nothing that is purged."""
        lists = {key: listed for key in _LINKS if isinstance(listed := meta.get(key), list)}
        kept = {key: [each for each in listed if _target(each) not in self.ids] for key, listed in lists.items()}
        named = {key: listed for key in _NAMES if isinstance(listed := meta.get(key), list)}
        lists |= named
        kept |= {key: [one for one in listed if not self.words.mentions(str(one))] for key, listed in named.items()}
        return {key: kept[key] or None for key, listed in lists.items() if kept[key] != listed}

    def _page(self, data: bytes, meta: Mapping[str, Any]) -> bytes | None:
        """Return a page without the lines that cite or hold purged content; None where no line is left."""
        sources = meta.get("sources")
        entries = sources if isinstance(sources, list) else []
        lost = {each["id"] for each in entries if isinstance(each, Mapping) and _target(each) in self.ids}
        body = okf.parse(data).body
        lines = body.split("\n")
        kept = [line for line in lines if not (lost.intersection(cited_in(line)) or self.words.mentions(line))]
        if kept == lines:
            return data
        if not any(line.strip() and not line.startswith("#") for line in kept):
            return None
        text = _without_empty_sections("\n".join(kept))
        untouched = meta.get(BY_HAND) == body_hash(body)  # else a person edited it, and it must still read as edited
        return _edited(_with_body(data, text), {BY_HAND: body_hash(text)} if untouched else {})

    def _derived(self, text: str) -> str:
        """Return a digest or a catalogue without the entries that name or contain purged content.

        The link of a page that goes gives its title away; where that is quoted elsewhere, it is masked.
        """
        titles = {
            found["title"] or found["name"]
            for found in _PAGE_LINK.finditer(text)
            if self._reveals(found["path"] or found["target"])
        }
        kept = []
        for line in text.split("\n"):
            line = _QUOTED.sub(lambda quoted: f"“{ERASED}”" if quoted[0][1:-1] in titles else quoted[0], line)
            quoted = self._quoted(line)
            if not quoted and not self._reveals(line):
                kept.append(line)
            elif not _WHOLE_ENTRY.fullmatch(line):
                kept.append(self._masked(_with_dots(line, quoted)))
        return "\n".join(kept)

    def _quoted(self, line: str) -> set[int]:
        """Return the places of a line's words that quote purged content, of whatever words that is."""
        return self.words.quoted([word[0].casefold() for word in _WORD.finditer(line) if word["word"]])

    # ---- files with secrets: the usual mark replaces them in a person's text, not in ids and paths

    def _redacted_page(self, text: str) -> str:
        return self.renamed("".join(part if n % 2 else redact(part).text for n, part in enumerate(_LINK.split(text))))

    def _redacted_session(self, path: str, data: bytes) -> bytes:
        data = session.with_texts(data, lambda turn: self.cleaned(turn.text))
        title = session.head_of(path, okf.parse(data)).title
        return _edited(data, {"title": clean} if (clean := self.cleaned(title)) != title else {})

    def _redacted_memory(self, path: str, data: bytes) -> bytes:
        document = okf.parse(data)
        held = _secrets_in([*(document.meta.get(key) for key in _SAID), document.body])

        def without(text: str) -> str:
            """Return a text without the secrets that it shows, or that another part of the file does."""
            cleaned = self.cleaned(text)
            for secret in held:
                cleaned = cleaned.replace(secret, ERASED_SECRET)
            return cleaned

        changes = {key: _mapped(document.meta[key], without) for key in _SAID if key in document.meta}
        changes["sources"] = _mapped(document.meta.get("sources"), self.renamed)  # they name files
        changes = {key: value for key, value in changes.items() if value != document.meta.get(key)}
        body = without(document.body)
        if body != document.body:
            is_ours = has_known_words(okf.to_memory(path, document))
            data = _with_body(data, body)
            changes |= {BY_HAND: body_hash(body)} if is_ours else {}
        return _edited(data, changes)


def _with_dots(line: str, places: Collection[int]) -> str:
    """Return a line of a page in which the words of these places are masked."""
    number = count()
    return _WORD.sub(lambda found: "…" if found["word"] and next(number) in places else found[0], line)


def cited_in(line: str) -> list[str]:
    """Return the labels of the sources that a line of a page cites."""
    return _LABEL.findall(line)


def _secrets_in(values: Iterable[Any]) -> list[str]:
    """Return the secrets that the texts in some values of a file show, each text by itself, the longest first."""
    found: set[str] = set()

    def noted(text: str) -> str:
        found.update(text[start:end] for start, end, _ in find(text))
        return text

    for value in values:
        _mapped(value, noted)
    return sorted((one for one in found if len(one) >= FEWEST_CHARS), key=len, reverse=True)


def _mapped(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:
    """Return a value of JSON or YAML with every text in it changed, also the keys of mappings where `keys` says so."""
    match value:
        case str():
            return change(value)
        case list():
            return [_mapped(item, change, keys=keys) for item in value]
        case dict():
            return {change(key) if keys else key: _mapped(item, change, keys=keys) for key, item in value.items()}
    return value


def _target(entry: object) -> object:
    """Return the node that an entry of a list of links points at."""
    return entry.get("title") if isinstance(entry, Mapping) else entry


def _with_body(data: bytes, body: str) -> bytes:
    """Return a file with another body, its frontmatter byte for byte."""
    written = body.encode("utf-8", "surrogateescape")
    return okf.with_body_of(data, b"---\n---\n" + written) if okf.has_frontmatter(data) else written


def _edited(data: bytes, changes: Mapping[str, Any]) -> bytes:
    """Return a file with other keys; one whose frontmatter cannot be edited as it is."""
    with contextlib.suppress(InvalidInput):
        return okf.edit(data, changes)
    return data


def _without_empty_sections(text: str) -> str:
    """Remove the headings that are followed by no text."""
    lines = text.split("\n")
    kept: list[str] = []
    for number, line in enumerate(lines):
        following = next((other for other in lines[number + 1 :] if other.strip()), "#")
        if not (line.startswith("#") and following.startswith(("#", "[^"))):
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept))


# ---- rows of the ledger

ROWS_AT_ONCE: Final = 64
"""Actions read at once, with their images."""

_ERASE_ACTION: Final = (
    f"UPDATE action SET state = '{PURGED}', path = '', node_id = '', reason = '', refusal = NULL, fingerprint = NULL,"
    " pre_sha256 = NULL, post_sha256 = NULL, pre_image = NULL, post_image = NULL WHERE id = ?"
)
_CHANGE_ACTION: Final = (
    "UPDATE action SET path = ?, reason = ?, refusal = ?, pre_sha256 = ?, post_sha256 = ?,"
    " pre_image = ?, post_image = ? WHERE id = ?"
)

Ask = Callable[..., Sequence[Any]]
"""Runs a query with its values; returns the rows."""


def row_erasures(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    """Yield the statements that remove purged content from every row; none where the ledger holds none."""
    yield from _actions(ask, erasure)
    yield from _texts(ask, erasure)
    yield from _questions(ask, erasure)
    yield from _withheld(ask, erasure)
    yield from _work(ask, erasure)
    yield from _told(ask, erasure)
    if ask("SELECT 1 FROM answered LIMIT 1"):
        yield forget_answers()
    if ask("SELECT 1 FROM handed LIMIT 1"):
        yield forget_handed()
    for table in ("usage", "reinforcement", "feedback", "event"):
        for (node_id,) in ask(f"SELECT DISTINCT node_id FROM {table}"):
            if node_id in erasure.ids:
                yield Write(f"DELETE FROM {table} WHERE node_id = ?", (node_id,))
    sessions = {node_id.partition("#")[0] for node_id in erasure.ids}
    for (name,) in ask("SELECT name FROM flag WHERE name LIKE 'named:%'"):  # a transcript's path holds its session's id
        if any(session_id in name for session_id in sessions):
            yield clear_flag(name)
    for name, lines in ask("SELECT name, value FROM flag WHERE name LIKE 'line:%'"):
        if not erasure.sessions.isdisjoint((name.removeprefix("line:"), *lines.split())):
            yield clear_flag(name)
    for stage, key in ask("SELECT stage, session_id FROM cursor"):
        if erasure.cleaned(key) != key:
            yield Write("DELETE FROM cursor WHERE stage = ? AND session_id = ?", (stage, key))


def _actions(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    numbers = [row[0] for row in ask(f"SELECT id FROM action WHERE state != '{PURGED}' ORDER BY id")]
    for start in range(0, len(numbers), ROWS_AT_ONCE):
        for row in ask(
            "SELECT id, path, node_id, reason, refusal, fingerprint, pre_sha256, post_sha256, pre_image, post_image"
            " FROM action WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(numbers[start : start + ROWS_AT_ONCE]),),
        ):
            yield from _action(row, erasure)


def _action(row: Sequence[Any], erasure: Erasure) -> Iterator[Write]:
    number, path, node_id, reason, refusal, fingerprint, *hashes_and_images = row
    hashes, images = hashes_and_images[:2], [unpacked(image) for image in hashes_and_images[2:]]
    kept = [None if image is None else erasure.scrubbed(path, image) for image in images]
    loses_a_file = any(new is None and old is not None for old, new in zip(images, kept, strict=True))
    # An action whose file is gone before or after it can neither be undone nor be shown: only its number stays.
    if node_id in erasure.gone or loses_a_file:
        yield Write(_ERASE_ACTION, (number,))
        # The tombstone's key is a hash of the words, by which they could be guessed.
        yield from (lift_tombstone(key) for key in tombstone_keys(fingerprint))
        return
    said = [erasure.renamed(path), *(None if text is None else erasure.cleaned(text) for text in (reason, refusal))]
    if kept != images or said != [path, reason, refusal]:
        # The hashes follow the images, so that an undo of the rest still recognises the files.
        hashes = [held if new is None else sha256(new) for held, new in zip(hashes, kept, strict=True)]
        yield Write(_CHANGE_ACTION, (*said, *hashes, *map(packed, kept), number))


def _texts(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    for table, key, column, clean in (
        ("run", "run_id", "summary", _cleaned_json),
        ("tombstone", "fingerprint", "reason", Erasure.cleaned),
        ("feedback", "id", "query", Erasure.cleaned),
        ("event", "id", "detail", Erasure.cleaned),
    ):
        for number, text in ask(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL"):
            if (kept := clean(erasure, text)) != text:
                yield Write(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (kept, number))


def _cleaned_json(erasure: Erasure, text: str) -> str:
    before = json.loads(text)
    after = _mapped(before, erasure.cleaned, keys=True)
    return text if after == before else json.dumps(after, ensure_ascii=False, sort_keys=True)


def _questions(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    """Remove questions that mention purged content, or that it alone answered; in others, remove its ids."""
    for number, text, shown, gold in ask("SELECT id, text, shown, gold FROM question"):
        listed = [json.loads(shown), json.loads(gold)]
        kept = [[node_id for node_id in ids if node_id not in erasure.ids] for ids in listed]
        if erasure.cleaned(text) != text or (listed[1] and not kept[1]):
            yield Write("DELETE FROM question WHERE id = ?", (number,))
        elif kept != listed:
            yield Write("UPDATE question SET shown = ?, gold = ? WHERE id = ?", (*map(json.dumps, kept), number))


def _work(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    """Remove the anchors and goals that go; clean each text of the others."""
    anchors, goals = map(anchor_of_row, ask(ANCHORS)), map(goal_of_row, ask(GOALS))
    for anchor in anchors:
        if erasure.removes_work(anchor.session_id, work_text(anchor)):
            yield from erase_work([anchor.session_id], [])
            continue
        task, plan, next_step, asked, failing = map(
            erasure.cleaned, (anchor.task, anchor.plan, anchor.next_step, anchor.asked, anchor.failing)
        )
        decisions, edited = (tuple(map(erasure.cleaned, texts)) for texts in (anchor.decisions, anchor.edited))
        kept = replace(anchor, task=task, plan=plan, decisions=decisions, next_step=next_step)
        kept = replace(kept, asked=asked, edited=edited, failing=failing)
        if kept != anchor:
            yield set_anchor(kept)[0]
    for goal in goals:
        if erasure.removes_work(goal.session_id, goal.text):
            yield from erase_work([], [goal.goal_id])
        elif (text := erasure.cleaned(goal.text)) != goal.text:
            yield set_goal(replace(goal, text=text))[0]


def _told(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    """Remove the lines of texts that agents were handed, and the texts of purged sessions."""
    for told in map(told_of_row, ask(TOLD)):
        if str(told.told_id) in erasure.told:
            yield erase_told(told.told_id)
            continue
        kept = tuple(
            replace(line, text=erasure.cleaned(line.text))
            for line in told.lines
            if not (line.node_id in erasure.ids or erasure.removes_work("", line.statement))
        )
        if kept != told.lines:
            yield set_told(replace(told, lines=kept))[0] if kept else erase_told(told.told_id)


def _withheld(ask: Ask, erasure: Erasure) -> Iterator[Write]:
    """Remove contents that wait for a person: files that vanished, and changes that an edit kept out."""
    for path, image in ask("SELECT path, image FROM withheld"):
        content = unpacked(image)
        kept = None if content is None else erasure.scrubbed(path, content)
        if content is not None and kept is None:
            yield Write("DELETE FROM withheld WHERE path = ?", (path,))
        elif kept != content:
            yield Write("UPDATE withheld SET image = ? WHERE path = ?", (packed(kept), path))
    for seq, path, content in ask("SELECT seq, path, content FROM journal WHERE state = 'conflict'"):
        data = content or b""
        text = data.decode("utf-8", "replace")
        if erasure.scrubbed(path, data) != data or erasure.cleaned(text) != text:
            yield Write("DELETE FROM journal WHERE seq = ?", (seq,))
