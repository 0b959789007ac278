"""The door of the store: secrets are taken out of every field that comes in, and of every text on its way out.

A text that goes out also loses control characters, which could command a terminal, and in a hit, which has no fence
around it, the marks that could command an agent. Texts that came in through the door hold neither; an older version's
rules, or a person's own file, may have let them pass.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from .model import Envelope, Hit, InvalidInput, NodeId, SessionHead, Slot
from .names import TAIL_DIGITS, as_label, channel_complaint, complaint, label_complaint
from .okf import session
from .redaction import Redacted, redact
from .text.fence import fenced, plain, unmarked, unmarked_lines, without_recalled

# Titles and texts of hits kept as they were shown last: 2 MB at most, since a hit is a section.
HITS_KEPT: Final = 1024

_LINK = re.compile(r"""(\]\([^)]{0,1000}\)|href="[^"]{0,1000}")""")


@dataclass(frozen=True, slots=True)
class Door:
    """Returns each kind of field in the form in which it is kept. `personal`: identifiers of people go like secrets."""

    personal: bool = False

    def redacted(self, text: str) -> Redacted:
        """Return any text without secrets, and the secrets found."""
        return redact(text, personal=self.personal)

    def text(self, text: str) -> str:
        """Return a text without control characters, secrets and recalled text; it may be empty."""
        return self.redacted(plain(without_recalled(text)).strip()).text

    def statement(self, text: str) -> str:
        """Return `text`. Raises InvalidInput when nothing is left."""
        if not (kept := self.text(text)):
            raise InvalidInput("there is no text to remember", hint="Give a sentence: `dreamctl remember TEXT`.")
        return kept

    def turn(self, text: str) -> str:
        """Return the text of a turn: as `text`, with its space around it."""
        return self.redacted(plain(without_recalled(text))).text

    def line(self, text: str) -> str:
        """Return a short text on one line."""
        return self.title(without_recalled(text))

    def title(self, title: str) -> str:
        """Return a title on one line; secrets that only its lines show (a column) go before that."""
        return self.redacted(" ".join(self.redacted(plain(title)).text.split())).text

    def page(self, page: str) -> str:
        """Return a page of ours that quotes persons' files; a link is looked at by itself, so that an id stays one."""
        return "".join(self.redacted(part).text for part in _LINK.split(page))

    def name(self, name: str) -> str:
        """Return a name, an id or a tag; six digits of its hash keep two apart that differ in their secrets alone."""
        found = self.redacted(name)
        if not found.found:
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        return as_label(f"{found.text}-{digest[:TAIL_DIGITS]}")

    def name_if_any(self, name: str | None) -> str | None:
        """Return a name that may be missing."""
        return None if name is None else self.name(name)

    def session_name(self, session_id: NodeId) -> NodeId:
        """Return a session's id as it is kept: it can be part of a path."""
        return session.session_id(self.name(session_id))

    def checked_session(self, session_id: NodeId, channel: str) -> NodeId:
        """Return `session_name`. Raises InvalidInput for a session or channel that cannot be a name."""
        self.check_names(channel, (session_id,))
        return self.session_name(session_id)

    def head(self, head: SessionHead) -> SessionHead:
        """Return a session's head."""
        return replace(
            head,
            session_id=self.session_name(head.session_id),
            title=self.title(head.title),
            agent_id=self.name_if_any(head.agent_id),
            task_id=self.name_if_any(head.task_id),
            user_id=self.name_if_any(head.user_id),
            cwd=None if head.cwd is None else self.redacted(head.cwd).text,
        )

    def check_names(self, channel: str, names: Iterable[str | None] = (), labels: Iterable[str] = ()) -> None:
        """Raise InvalidInput for a channel, an agent's or task's name, or a tag that cannot be one."""
        secret = "holds a secret" if self.redacted(channel).found else ""
        found = [("channel", channel, channel_complaint(channel) or secret)]
        found += [("name", name, complaint(name)) for name in names if name is not None]
        found += [("tag", label, label_complaint(label)) for label in labels]
        for what, given, why in found:
            if why:
                raise InvalidInput(f"{self.shown(given)} is no {what}: it {why}", hint="Use one short line of words.")

    def shown(self, name: str) -> str:
        """Return the beginning of a refused name, for the message that refuses it."""
        return repr(self.redacted(name).text[:40])


def outgoing(text: str) -> str:
    """Return a text as it may be shown."""
    return redact(plain(text)).text


def outgoing_hit(hit: Hit) -> Hit:
    """Return a hit as it may be shown."""
    title, text = _shown(hit.title, hit.text)
    return hit if title == hit.title and text == hit.text else replace(hit, title=title, text=text)


@lru_cache(HITS_KEPT)
def _shown(title: str, text: str) -> tuple[str, str]:
    """Return the title and text of a hit as they may be shown. Cached: the next question is about the same."""
    clean = outgoing(text)  # a title that is part of a clean text needs no check of its own
    if clean != text or not clean.startswith(title.removesuffix("…")):  # the title of a long turn is its text, cut
        title = outgoing(title)
    return unmarked(title), unmarked_lines(clean)


def outgoing_envelope(envelope: Envelope) -> Envelope:
    """Return an envelope as it may be shown."""
    slots = tuple(_outgoing_slot(slot) for slot in envelope.slots)
    if slots == envelope.slots:
        return envelope
    return replace(envelope, text=fenced("\n".join(slot.text for slot in slots)), slots=slots)


def _outgoing_slot(slot: Slot) -> Slot:
    text = outgoing(slot.text)
    words = slot.words if text == slot.text and slot.words in text else outgoing(slot.words)
    return replace(slot, text=text, words=unmarked_lines(words))
