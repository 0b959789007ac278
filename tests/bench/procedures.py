"""Print the procedures of sessions for a reader to judge: `python -m tests.bench.procedures FOLDER [--channel NAME]`.

All sessions of the folder are of one project where a channel is named; else of that of their own folder. The pages are
those that a dream would write.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import SessionRead
from dreamd.pipelines.stages import know_how
from dreamd.store import okf
from dreamd.store.model import STRATEGY, Turn

from tests.pipelines.fakes import FakeSource

from .table import say


def source_of(folder: Path, channel: str | None) -> FakeSource:
    """Return a memory of the sessions of a folder."""
    source = FakeSource()
    for file in sorted(folder.rglob("*.jsonl")):
        for item in read(file):
            if isinstance(item, SessionRead):
                name = item.head.session_id
                said = source.said.setdefault(name, [])
                source.channels[name] = channel or item.head.channel
                for turn in item.turns:
                    said.append(Turn(name, len(said) + 1, turn.role, turn.text, turn.at, turn.external_id))
    return source


def main() -> int:
    """Print the pages of a folder's sessions."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.procedures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--channel")
    options = parser.parse_args()
    source = source_of(options.folder, options.channel)
    planned = know_how.plan(source.view(), datetime.now(UTC))
    pages = [okf.to_memory(action.path, okf.parse(action.content or b"")) for action in planned.actions]
    found = [page for page in pages if STRATEGY in page.tags]
    for page in found:
        say(f"## {page.title} ({page.channel}; {', '.join(page.tags)})\n\n{page.text}\n")
    say(f"{len(found)} procedures in {len(source.said)} sessions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
