"""Skills: procedures that worked several times, as files that an agent reads when it is asked for such work.

Nothing is written unasked: a draft waits for its person, who accepts it in `dreamctl review`. A file that is there, and
is not as it was written, is never touched.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ...ipc.protocol import Refused
from ...store import redact, replace_file
from ...store.channel import WITHIN, channel_of_folder, is_in_repository
from ...store.model import SKILL, SKILL_DRAFT, Memory, NodeId
from ...store.results import Decided

if TYPE_CHECKING:
    from ...store import MemoryStore

FILE = "SKILL.md"
LONGEST_NAME = 60
FILE_MODE = 0o644  # it belongs to a project, whose other readers may be other users

_CITED = re.compile(r" \[\^t\d+\]")
_NOTE = re.compile(r"^\[\^\w+\]: .*\n?", re.MULTILINE)
_STEP = re.compile(r"^(\d+\. `[^`]+`)(, exit 0)? \[\^t(\d+)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A skill that waits for its person: its name, and the text of its file."""

    node_id: NodeId
    name: str
    channel: str
    at: datetime | None
    text: str


class Skills:
    """Offers drafts, and writes and removes their files. Every method may be called from any thread."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def drafts(self) -> list[SkillDraft]:
        """Return the procedures that may become skills."""
        return [_draft(page) for page in self._store.procedures() if SKILL_DRAFT in page.tags]

    def is_draft(self, node_id: NodeId) -> bool:
        """Return True for the id of a draft."""
        return any(draft.node_id == node_id for draft in self.drafts())

    def accept(self, node_id: NodeId, folder: Path | None) -> Decided:
        """Write the skill of a draft below a folder. Raises Refused where another file, or another project, is."""
        page = next(page for page in self._store.procedures() if page.node_id == node_id)
        if folder is None:
            raise Refused("A skill needs a folder.", "`dreamctl review ID --accept --to FOLDER`.")
        if is_in_repository(folder) and channel_of_folder(folder) != page.channel.partition(WITHIN)[0]:
            raise Refused(
                f"{folder} is of another project than the skill.",
                f"Accept it in a folder of {page.channel}, or --to one.",
            )
        draft = _draft(page)
        file, content = folder / draft.name / FILE, draft.text.encode()
        known = _record(page)
        if file.exists() and known.get(str(file)) != _hash_of(file):
            raise Refused(f"{file} is there already, and is not changed.", "Move it away, or --to another folder.")
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, content, FILE_MODE)
        return self._store.mark_skill(node_id, {"path": str(file), "sha256": hashlib.sha256(content).hexdigest()})

    def reject(self, node_id: NodeId) -> Decided:
        """Offer the skill of a draft no more."""
        return self._store.mark_skill(node_id, {})

    def written(self) -> dict[str, str]:
        """Return the files of skills with their hashes."""
        return {path: digest for page in self._store.procedures() for path, digest in _record(page).items()}

    def remove(self, before: Mapping[str, str]) -> None:
        """Remove the files that were those of skills and are so no more, unless somebody changed them."""
        kept = self.written()
        for path, digest in before.items():
            file = Path(path)
            if path not in kept and _hash_of(file) == digest:
                with suppress(OSError):
                    file.unlink()
                    file.parent.rmdir()  # fails, rightly, if something else is in it


def _record(page: Memory) -> dict[str, str]:
    skill = page.extra.get(SKILL)
    if not isinstance(skill, dict) or not isinstance(skill.get("path"), str):
        return {}
    return {skill["path"]: str(skill.get("sha256"))}


def _hash_of(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def _draft(page: Memory) -> SkillDraft:
    """Build the skill of a page: each step names the turn that it is quoted from, and the outcome."""
    # Secrets are looked for before ids of turns are put in, which look like some.
    text = redact(_NOTE.sub("", page.text)).text
    asked = text.partition("\n")[0] if text.startswith("Asked: ") else ""
    body = _STEP.sub(lambda step: f"{step[1]} ({_source(page, step[3])}{step[2] or ''})", text.removeprefix(asked))
    when = f" {_CITED.sub('', asked)}." if asked else ""
    description = json.dumps(f"{page.title}: {page.description}{when}", ensure_ascii=False)
    name = _name(page.title) or page.node_id
    head = f"---\nname: {name}\ndescription: {description}\n---\n\n# {page.title}"
    return SkillDraft(page.node_id, name, page.channel, page.created_at, f"{head}\n\n{body.strip()}\n")


def _source(page: Memory, number: str) -> str:
    place = int(number) - 1
    return page.sources[place] if place < len(page.sources) else "its turn is gone"


def _name(title: str) -> str:
    """Return a title as the name of a folder: words of ASCII letters and digits, with hyphens between them."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:LONGEST_NAME].rstrip("-")
