"""Erasure from a file: a pure function of its content, for the vault and for every kept image alike.

Since an image in the history becomes what its file becomes, the hashes along which runs are undone go on to fit.
"""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .. import okf
from ..index.projection import is_session
from ..model import InvalidInput, Level, NodeId
from ..okf import session
from ..okf.session import ERASED
from ..okf.wording import BY_HAND, body_hash, has_known_words
from ..redaction import REDACTED, find, redact
from ..roles import Role
from ..text.words import ALPHANUMERIC
from ..vault.vault import is_derived
from .erased_words import ErasedWords, words_of
from .reverting import LISTS
from .standing import SAME_AS, released

PAGES: Final = frozenset({Level.SCENARIO.value, Level.PROFILE.value})
_LISTS: Final = (*sorted(LISTS), SAME_AS)
_IDS: Final = ("turns", "gone", "sessions", "work", "doubled")
_LABEL = re.compile(r"\[\^([tm]\d+)\]")
_QUOTED = re.compile(r"“[^”]*”")
_LINK = re.compile(r"""(\]\([^)]{0,1000}\)|href="[^"]{0,1000}")""")
_PAGE_LINK = re.compile(
    r"""\[(?P<title>[^\]\n]{1,400})\]\((?P<path>/[^)\s]{1,400})\)|href="(?P<target>[^"\n]{1,400})">(?P<name>[^<\n]{1,400})<"""
)
_SAID: Final = ("title", "description", "tags", "about", "slot")
"""The keys of the frontmatter that hold a person's words."""

ERASED_SECRET: Final = f"{REDACTED}secret]"
FEWEST_CHARS: Final = 6
"""A shorter secret of one part of a file is no word to be taken from the others."""

_WHOLE_ENTRY = re.compile(r"\s*(?:[-*] .*|\|.*\||<li\b.*</li>|<tr\b.*</tr>)\s*")
"""A line of a derived page that may go as a whole: an entry of a list or a row of a table."""


@dataclass(frozen=True)
class Erasure:
    """`turns` lose their text, `gone` are memories whose files go, of `sessions` also title and folder.

    Of the sessions in `work` the anchor and the goals go. Of an id in `doubled`, which several files have, only what
    says what is purged goes: another file of this id may say something else. `ids` are the nodes that no other may
    point at any more.
    With `secrets` nothing of these is removed but what looks like a secret, wherever it is.
    """

    words: ErasedWords
    turns: frozenset[NodeId] = frozenset()
    gone: frozenset[NodeId] = frozenset()
    sessions: frozenset[NodeId] = frozenset()
    work: frozenset[NodeId] = frozenset()
    doubled: frozenset[NodeId] = frozenset()
    secrets: bool = False
    ids: frozenset[NodeId] = field(init=False)

    def __post_init__(self) -> None:
        """Join what loses its text and what goes."""
        object.__setattr__(self, "ids", self.turns | self.gone)

    def scrubbed(self, path: str, data: bytes) -> bytes | None:
        """Return a file without what is purged, None where nothing of it stays."""
        if self.secrets:
            return self._without_secrets(path, data)
        if is_derived(path):
            return self._derived(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if is_session(path):
            return self._session(path, data)
        return self._memory(path, data)

    def renamed(self, path: str) -> str:
        """Return a path without the words of a secret; any other file with such a path goes."""
        return ALPHANUMERIC.sub(self._masked_in_path, path) if self.secrets else path

    def _masked_in_path(self, word: re.Match[str]) -> str:
        return "erased" if self.words.is_trace(word[0].casefold()) else word[0]

    def is_gone(self, path: str, node_id: NodeId) -> bool:
        """Return True for a memory that goes."""
        return node_id in self.gone

    def takes_work(self, session_id: NodeId, text: str) -> bool:
        """Return True for an anchor or a goal that goes: with its session, or since it repeats what is purged."""
        return not self.secrets and (session_id in self.work or self.words.quotes(text))

    def cleaned(self, text: str) -> str:
        """Return a short text without what is purged."""
        if self.secrets:
            return self.renamed(redact(text).text)
        return self._masked(text) if self._betrays(text) else text

    # ---- what is written down

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        ids = {name: sorted(getattr(self, name)) for name in _IDS}
        return {"words": self.words.to_json(), "secrets": self.secrets, **ids}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Erasure:
        """Read it back. Raises KeyError, TypeError or ValueError for anything else."""
        ids = {name: frozenset(written.get(name, ())) for name in _IDS}
        return cls(ErasedWords.from_json(written["words"]), secrets=bool(written["secrets"]), **ids)

    # ---- sessions

    def _session(self, path: str, data: bytes) -> bytes:
        head = session.head_of(path, okf.parse(data))
        is_whole = head.session_id in self.sessions
        data = session.with_texts(
            data,
            lambda turn: ERASED if self._goes(f"{head.session_id}#{turn.ordinal}", turn.text) else turn.text,
            lambda turn: Role.USER if self.words.tells(turn.role) else turn.role,  # a speaker's name
        )
        changes: dict[str, Any] = {"title": head.session_id} if is_whole or self.words.holds_whole(head.title) else {}
        if is_whole:
            changes |= dict.fromkeys(("cwd", "agent_id", "task_id", "user_id"))
        return _edited(data, changes)

    def _goes(self, node_id: NodeId, text: str) -> bool:
        return node_id in self.ids and (node_id not in self.doubled or self.words.holds_whole(text))

    # ---- memories

    def _memory(self, path: str, data: bytes) -> bytes | None:
        document = okf.parse(data)
        memory = okf.to_memory(path, document)
        if self._goes(memory.node_id, memory.text):
            return None
        if not document.meta:  # a person's own file, of which nothing was asked
            return data
        lost = [source for source in memory.sources if source in self.ids]
        is_page = document.meta.get("level") in PAGES
        is_edited = is_page and document.meta.get(BY_HAND) != body_hash(document.body)  # it may hold a person's lines
        rests_on_it = len(lost) == len(set(memory.sources)) and not is_edited
        if lost and (rests_on_it or (not is_page and self.words.quotes(memory.text))):
            return None
        if is_page and self.words.tells(f"{memory.title}\n{memory.description}"):
            return None
        data = _edited(data, self._links(document.meta))
        if memory.superseded_by in self.ids:
            with contextlib.suppress(InvalidInput):
                data = released(data, None)
        return self._page(data, document.meta) if is_page else data

    def _links(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes to frontmatter by which it points at nothing that is purged."""
        changes: dict[str, Any] = {}
        for key in (*_LISTS, "sources", "relates"):
            listed = meta.get(key)
            if (
                isinstance(listed, list)
                and (kept := [each for each in listed if _target(each) not in self.ids]) != listed
            ):
                changes[key] = kept or None
        return changes

    def _page(self, data: bytes, meta: Mapping[str, Any]) -> bytes | None:
        """Return a page without the lines that cite or hold what is purged; None where no line is left."""
        sources = meta.get("sources")
        entries = sources if isinstance(sources, list) else []
        lost = {each["id"] for each in entries if isinstance(each, Mapping) and _target(each) in self.ids}
        body = okf.parse(data).body
        lines = body.split("\n")
        kept = [line for line in lines if not (lost.intersection(cited_in(line)) or self.words.tells(line))]
        if kept == lines:
            return data
        if not any(line.strip() and not line.startswith("#") for line in kept):
            return None
        text = _without_empty_sections("\n".join(kept))
        rewritten = _with_body(data, text)
        untouched = meta.get(BY_HAND) == body_hash(body)  # else a person edited it, and it stays so
        return _edited(rewritten, {BY_HAND: body_hash(text)} if untouched else {})

    # ---- derived pages

    def _derived(self, text: str) -> str:
        """Return a digest or a catalogue without the entries that name or tell what is purged.

        The title of a page that goes is told by its link; quoted elsewhere, it is masked.
        """
        titles = {
            found["title"] or found["name"]
            for found in _PAGE_LINK.finditer(text)
            if self._betrays(found["path"] or found["target"])
        }
        kept = []
        for line in text.split("\n"):
            line = _QUOTED.sub(lambda quoted: f"“{ERASED}”" if quoted[0][1:-1] in titles else quoted[0], line)
            if not self._betrays(line):
                kept.append(line)
            elif not _WHOLE_ENTRY.fullmatch(line):
                kept.append(self._masked(line))
        return "\n".join(kept)

    def _betrays(self, line: str) -> bool:
        plain = html.unescape(line)
        return self.words.tells(plain) or not self.gone.isdisjoint(words_of(plain))

    def _masked(self, line: str) -> str:
        line = _QUOTED.sub(lambda quoted: f"“{ERASED}”" if self._betrays(quoted[0]) else quoted[0], line)
        return ALPHANUMERIC.sub(lambda word: "…" if self._betrays(word[0]) else word[0], line)

    # ---- secrets

    def _without_secrets(self, path: str, data: bytes) -> bytes:
        """Return a file whose secrets are replaced by the usual mark: in what a person said, not in ids and paths."""
        if is_derived(path):
            text = data.decode("utf-8", "surrogateescape")
            parts = (part if n % 2 else redact(part).text for n, part in enumerate(_LINK.split(text)))
            return self.renamed("".join(parts)).encode("utf-8", "surrogateescape")
        if is_session(path):
            data = session.with_texts(data, lambda turn: self.cleaned(turn.text))
            title = session.head_of(path, okf.parse(data)).title
            return _edited(data, {"title": clean} if (clean := self.cleaned(title)) != title else {})
        return self._redacted_memory(path, data)

    def _redacted_memory(self, path: str, data: bytes) -> bytes:
        document = okf.parse(data)
        held = _secrets_in([*(document.meta.get(key) for key in _SAID), document.body])

        def without(text: str) -> str:
            """Return a text without what it shows for a secret, nor what another part of the file does."""
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


def _secrets_in(values: Iterable[Any]) -> list[str]:
    """Return the secrets that the texts in some values of a file show, each text by itself, the longest first."""
    found: set[str] = set()

    def noted(text: str) -> str:
        found.update(text[start:end] for start, end, _ in find(text))
        return text

    for value in values:
        _mapped(value, noted)
    return sorted((one for one in found if len(one) >= FEWEST_CHARS), key=len, reverse=True)


def _with_body(data: bytes, body: str) -> bytes:
    """Return a file with another body, its frontmatter byte for byte."""
    written = body.encode("utf-8", "surrogateescape")
    return okf.with_body_of(data, b"---\n---\n" + written) if okf.has_frontmatter(data) else written


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of the frontmatter with every text in it changed."""
    match value:
        case str():
            return change(value)
        case list():
            return [_mapped(item, change) for item in value]
        case dict():
            return {key: _mapped(item, change) for key, item in value.items()}
    return value


def cited_in(line: str) -> list[str]:
    """Return the labels of the sources that a line of a page cites."""
    return _LABEL.findall(line)


def _target(entry: object) -> object:
    """Return the node that an entry of a list of links points at."""
    return entry.get("title") if isinstance(entry, Mapping) else entry


def _edited(data: bytes, changes: Mapping[str, Any]) -> bytes:
    """Return a file with other keys; one whose frontmatter cannot be edited as it is."""
    with contextlib.suppress(InvalidInput):
        return okf.edit(data, changes)
    return data


def _without_empty_sections(text: str) -> str:
    """Remove the headings under which nothing is left."""
    lines = text.split("\n")
    kept: list[str] = []
    for number, line in enumerate(lines):
        following = next((other for other in lines[number + 1 :] if other.strip()), "#")
        if not (line.startswith("#") and following.startswith(("#", "[^"))):
            kept.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept))
