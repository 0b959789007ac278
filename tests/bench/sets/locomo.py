"""LoCoMo's conversations (Maharana et al. 2024): two people, some dozens of dated sessions.

A conversation is a channel, named by its `sample_id`; a turn's external id is its `dia_id`. The set dates sessions,
not turns, so turns are set half a minute apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dreamd.daemon.importing.items import SessionRead, Skipped
from dreamd.daemon.importing.json_lines import guarded, json_document
from dreamd.daemon.importing.sanitize import tidy
from dreamd.store import session_id
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.names import as_channel

from .dates import locomo_instant

_BETWEEN_TURNS = timedelta(seconds=30)
_SESSION = re.compile(r"session_(\d+)")


def recognises(document: object) -> bool:
    """Say whether a file's value holds conversations."""
    return bool(_conversations(document))


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of every conversation of one file."""
    try:
        conversations = _conversations(json_document(path))
    except ValueError as error:
        yield Skipped(path, None, str(error))
        return
    if not conversations:
        yield Skipped(path, None, "no LoCoMo conversation in it")
    for position, sample in enumerate(conversations, start=1):
        channel = as_channel(str(sample.get("sample_id") or f"{path.stem}-{position}")) or f"locomo-{position}"
        yield from guarded(_sessions(path, channel, sample.get("conversation", sample)), path)


def _conversations(document: object) -> list[Mapping[str, Any]]:
    """Return the samples of a list, or the one sample or bare conversation that a document is."""
    samples = document if isinstance(document, list) else [document]
    return [
        sample
        for sample in samples
        if isinstance(sample, dict) and _is_conversation(sample.get("conversation", sample))
    ]


def _is_conversation(value: object) -> bool:
    return isinstance(value, dict) and any(_SESSION.fullmatch(key) and isinstance(value[key], list) for key in value)


def _sessions(path: Path, channel: str, conversation: Mapping[str, Any]) -> Iterator[SessionRead | Skipped]:
    numbers = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    speakers = " and ".join(str(conversation[key]) for key in ("speaker_a", "speaker_b") if conversation.get(key))
    for number in numbers:
        entries = conversation[f"session_{number}"]
        started_at = locomo_instant(conversation.get(f"session_{number}_date_time"))
        turns: list[NewTurn] = []
        for position, entry in enumerate(entries if isinstance(entries, list) else []):
            turn = _turn(entry, f"D{number}:{position + 1}", started_at, position)
            if turn is None:
                yield Skipped(path, None, f"{channel}, session {number}, turn {position + 1}: no speaker or no text")
            else:
                turns.append(turn)
        if turns:
            head = SessionHead(
                session_id=session_id(f"{channel}-session-{number}"),
                channel=channel,
                title=f"{speakers or channel}, session {number}",
                started_at=started_at,
            )
            yield SessionRead(head, tuple(turns))


def _turn(entry: object, default_id: str, started_at: datetime | None, position: int) -> NewTurn | None:
    if not isinstance(entry, dict) or not isinstance(speaker := entry.get("speaker"), str):
        return None
    said, caption = entry.get("text"), entry.get("blip_caption")
    image = f"[image: {caption}]" if isinstance(caption, str) and caption else ""
    text = tidy("\n".join(part for part in (said if isinstance(said, str) else "", image) if part))
    at = started_at + position * _BETWEEN_TURNS if started_at else None
    return NewTurn(speaker, text, at, str(entry.get("dia_id") or default_id)) if text else None
