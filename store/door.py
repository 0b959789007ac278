"""The door of the store: every field of what comes in passes it, and is kept without secrets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from .model import InvalidInput, NodeId, SessionHead
from .names import TAIL_DIGITS, as_label, channel_complaint, complaint, label_complaint
from .okf import session
from .redaction import Redacted, redact
from .text.controls import plain
from .text.fence import without_recalled

_LINK = re.compile(r"""(\]\([^)]{0,1000}\)|href="[^"]{0,1000}")""")


@dataclass(frozen=True, slots=True)
class Door:
    """The form in which each sort of field is kept. `personal`: identifiers of people are taken out as secrets are."""

    personal: bool = False

    def redacted(self, text: str) -> Redacted:
        """Return any text without secrets, and what was found."""
        return redact(text, personal=self.personal)

    def text(self, text: str) -> str:
        """Return what was said without control characters, secrets and what was recalled; it may be empty."""
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
        """Return a title on one line; what only its lines betray (a table's column) goes before they are joined."""
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
        """Return `session_name`. Raises InvalidInput for what is no name or no channel."""
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
