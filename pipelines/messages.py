"""Messages between the daemon and a dream: one request down, JSON lines up. The changeset goes through a file.

The daemon writes one `RunRequest` line to the child's stdin and keeps the pipe open: its end is the daemon's end. The
child answers on stdout with any number of `Progress` lines and then exactly one `Done` or `Failed`. After the request
the daemon may send single bytes: PAUSE, and later RESUME.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ..llm.settings import REVEAL_SECRETS, LlmSettings
from ..store.model import Action, ActionKind, Changeset
from ..store.settings import StoreSettings
from .settings import PipelineSettings

if TYPE_CHECKING:
    from ..store import StorePaths


RunKind = Literal["daily", "weekly", "compaction"]
LEARN: Final = "learn"
PlanKind = RunKind | Literal["learn"]
"""The kinds of run that a child plans: the dreams, which become due, and one over some sessions when a person asks."""

PAUSE, RESUME = b"p", b"r"
SPENT = "spent.json"
"""A file in a run's folder: the language model's cost so far, for a daemon that finds the run ended."""


class MessageError(Exception):
    """A line or a changeset file that breaks this protocol."""


class RunRequest(BaseModel):
    """One dream to plan. The paths are the real store's: the child copies them once and writes only in `folder`.

    `local_date` and `utc_offset_s` are the person's when the run began; `now` is aware. `at_idle`: the child gets a
    processor only while it is idle, since no client waits. `checkpoint` is the file of finished units, for a dream that
    starts again. `calls_spent` and `tokens_spent` are the model's cost in other runs of the last 24 hours. A run of
    kind `learn` reads `sessions` alone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    kind: PlanKind = "daily"
    sessions: frozenset[str] = frozenset()
    folder: Path
    vault: Path
    ledger: Path
    index: Path
    embeddings: Path
    models: Path
    now: datetime
    local_date: date
    utc_offset_s: int = 0
    dry_run: bool = False
    at_idle: bool = True
    checkpoint: Path | None = None
    calls_spent: int = 0
    tokens_spent: int = 0
    store: StoreSettings = StoreSettings()
    pipelines: PipelineSettings = PipelineSettings()
    llm: LlmSettings = LlmSettings()

    @classmethod
    def of(cls, paths: StorePaths, run_id: str, local_now: datetime, **others: Any) -> Self:
        """Build the request for a dream of one store that begins now; `local_now` has the person's offset."""
        offset = local_now.utcoffset()
        return cls(
            run_id=run_id,
            folder=paths.runs / run_id,
            vault=paths.vault,
            ledger=paths.ledger,
            index=paths.index,
            embeddings=paths.embeddings,
            models=paths.models,
            now=local_now.astimezone(UTC),
            local_date=local_now.date(),
            utc_offset_s=int(offset.total_seconds()) if offset else 0,
            **others,
        )


class Progress(BaseModel):
    """Progress of a dream, in steps; `total` 0 means unknown, `note` is the progress within the step.

    `calls`, `tokens` and `model_s` are the language model's cost in this run so far.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["progress"] = "progress"
    stage: str
    done: int = 0
    total: int = 0
    note: str = ""
    calls: int = 0
    tokens: int = 0
    model_s: float = 0.0


class Foreseen(BaseModel):
    """The final result of a probe in the copy: the shares of its gold and words, and the details in its envelope."""

    model_config = ConfigDict(frozen=True)

    recall: float
    coverage: float
    details: frozenset[frozenset[str]] = frozenset()


class Check(BaseModel):
    """A probe that the daemon asks of the real store before and after applying: a question and its known answers.

    Without `foreseen` it may be no worse after than before.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    channel: str | None
    gold: tuple[str, ...]
    words: frozenset[str] = frozenset()
    details: frozenset[frozenset[str]] = frozenset()
    synthetic: bool = True
    foreseen: Foreseen | None = None


class ReadTurn(BaseModel):
    """The outcome of a turn that was read: a fact that is new, known or forbidden by its person, or nothing."""

    model_config = ConfigDict(frozen=True)

    node_id: str
    outcome: Literal["new", "known", "forbidden", "nothing"]
    fact: str = ""


class Done(BaseModel):
    """The dream is planned: a changeset file in the run's folder (None: nothing to change).

    `digest` is the day's digest as markdown. `derived` maps each path of it in the vault to its whole text
    (`digests/2026-11-21.md` and `.html`); empty where there is nothing to report. `report` is the summary that `runs`
    shows: counts and dropped stages, no texts. `checks` are asked after applying. `turns` are those that a run of kind
    `learn` read.
    """

    model_config = ConfigDict(frozen=True)

    type: Literal["done"] = "done"
    changeset_path: Path | None = None
    digest: str = ""
    derived: dict[str, str] = Field(default_factory=dict)
    report: dict[str, Any] = Field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    turns: tuple[ReadTurn, ...] = ()


class Failed(BaseModel):
    """The dream ended without a plan; no cursor moves."""

    model_config = ConfigDict(frozen=True)

    type: Literal["failed"] = "failed"
    reason: str
    hint: str = ""
    stage: str = ""


Message = Progress | Done | Failed
_messages: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="type")])


def encode(message: RunRequest | Message) -> bytes:
    """Encode a message as one line, newline included."""
    return message.model_dump_json(context={REVEAL_SECRETS: True}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Decode a child's line. Raises MessageError."""
    try:
        return _messages.validate_json(line)
    except ValidationError as error:
        raise MessageError(f"a dream sent an invalid message: {error.error_count()} fields are wrong") from error


def write_changeset(path: Path, changeset: Changeset) -> None:
    """Write a changeset as JSON lines: a head, an action a line, a tail with their number."""
    with path.open("w", encoding="utf-8") as file:
        cursors = [[stage, session, ordinal] for (stage, session), ordinal in sorted(changeset.cursors.items())]
        file.write(json.dumps({"run_id": changeset.run_id, "cursors": cursors}) + "\n")
        for action in changeset.actions:
            file.write(json.dumps(_action_to_json(action)) + "\n")
        file.write(json.dumps({"actions": len(changeset.actions)}) + "\n")


def read_changeset(path: Path) -> Changeset:
    """Read the changeset that a child wrote. Raises MessageError if the file is torn or is not one."""
    try:
        with path.open("r", encoding="utf-8") as file:
            head, *actions, tail = (json.loads(line) for line in file)
        if tail["actions"] != len(actions):
            raise MessageError(f"{path.name} holds {len(actions)} actions and says {tail['actions']}")
        return Changeset(
            run_id=head["run_id"],
            actions=tuple(_action_from_json(action) for action in actions),
            cursors={(stage, session): int(ordinal) for stage, session, ordinal in head["cursors"]},
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MessageError(f"{path.name} is not a whole changeset: {type(error).__name__}") from error


def _action_to_json(action: Action) -> dict[str, Any]:
    return {
        "kind": action.kind.value,
        "path": action.path,
        "node_id": action.node_id,
        "stage": action.stage,
        "reason": action.reason,
        "pre_sha256": action.pre_sha256,
        "content_base64": None if action.content is None else base64.b64encode(action.content).decode(),
        "fingerprint": action.fingerprint,
    }


def _action_from_json(entry: dict[str, Any]) -> Action:
    content = entry.pop("content_base64")
    return Action(
        **(entry | {"kind": ActionKind(entry["kind"])}),
        content=None if content is None else base64.b64decode(content, validate=True),
    )
