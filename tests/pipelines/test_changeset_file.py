"""The changeset's file: read back as it was written, and refused when it is torn."""

from __future__ import annotations

from pathlib import Path

import pytest
from dreamd.pipelines.messages import MessageError, read_changeset, write_changeset
from dreamd.store.model import Action, ActionKind, Changeset

CHANGESET = Changeset(
    run_id="run-1",
    actions=(
        Action(
            kind=ActionKind.CREATE, path="facts/ä.md", node_id="a", stage="lint", reason="r", content=b"\xff\x00 bytes"
        ),
        Action(kind=ActionKind.DELETE, path="facts/b.md", node_id="b", stage="s", reason="line\nbreak", pre_sha256="0"),
    ),
    cursors={("consolidate", "s1"): 3, ("scenarios", "proj"): 2**40},
)


def test_a_changeset_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_changeset(tmp_path / "changeset.jsonl", CHANGESET)
    assert read_changeset(tmp_path / "changeset.jsonl") == CHANGESET


def test_a_torn_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "changeset.jsonl"
    write_changeset(path, CHANGESET)
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in (b"".join(lines[:-1]), b"".join(lines)[:-9], lines[0] + lines[-1], b"", b"[]\n[]\n", b"\xff\n"):
        path.write_bytes(damaged)
        with pytest.raises(MessageError):
            read_changeset(path)
    with pytest.raises(MessageError):
        read_changeset(tmp_path / "none.jsonl")
