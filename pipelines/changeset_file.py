"""The file in which a dream hands its changeset to the daemon: JSON lines, with a tail that proves it is whole."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from ..store.model import Action, ActionKind, Changeset
from .protocol import MessageError


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
