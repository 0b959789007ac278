"""The fortnight that we ship is what the demo and its readers believe it to be."""

from __future__ import annotations

import json
from pathlib import Path

from dreamd.daemon.importing.formats.claude_code import read
from dreamd.store.redaction import redact

from tests.daemon.importing.conftest import sessions, skipped

SAMPLE = Path(__file__).parents[3] / "examples" / "fortnight"


def test_every_line_hangs_on_the_one_before() -> None:
    uuids: set[str] = set()
    for path in sorted(SAMPLE.glob("*.jsonl")):
        last = None
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if entry["type"] in {"user", "assistant"}:
                assert entry["parentUuid"] == last
                assert entry["uuid"] not in uuids
                last = entry["uuid"]
                uuids.add(last)


def test_a_fortnight_of_one_project_in_order() -> None:
    items = [item for path in sorted(SAMPLE.glob("*.jsonl")) for item in read(path)]
    assert not skipped(items)
    found = sessions(items)
    assert len(found) == len({item.head.session_id for item in found}) == 11
    assert len({item.head.channel for item in found}) == 1
    turns = [turn for item in found for turn in item.turns]
    assert len([turn for turn in turns if turn.role != "tool"]) >= 150
    instants = [turn.at for turn in turns if turn.at is not None]
    assert len(instants) == len(turns)
    assert instants == sorted(instants)
    assert (instants[-1].date() - instants[0].date()).days == 11  # a fortnight, but for its last weekend


def test_the_pasted_secret_is_one_that_is_found() -> None:
    texts = [turn.text for path in SAMPLE.glob("*.jsonl") for item in sessions(read(path)) for turn in item.turns]
    (pasted,) = (text for text in texts if "AKIA" in text)
    assert len(redact(pasted).found) == 2
    assert not {text for text in texts if text != pasted and redact(text).found}
