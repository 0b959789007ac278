"""A second package with an extension, as an installer leaves it: a module, and a dist-info with an entry point."""

from __future__ import annotations

from pathlib import Path

MODULE = '''
"""An extension that fills every hook, and notes in a file what it was told."""

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pluggy

hookimpl = pluggy.HookimplMarker("dreamd")
HELD = threading.Event()


def note(*what):
    with Path(os.environ["ACME_NOTES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\\n")


@hookimpl
def on_memory_created(node_id, kind, channel, text):
    if "held" in text:
        HELD.wait()
    if "broken" in text:
        raise SystemExit(text)
    note("created", node_id, kind, channel, text)


@hookimpl
def on_memory_retrieved(question, hits):
    if "held" in question:
        HELD.wait()
    if "broken" in question:
        raise ValueError(question)
    return [hit.node_id for hit in hits if "confidential" in hit.text]


@hookimpl
def on_session_end(session_id, channel):
    note("ended", session_id, channel)


@hookimpl
def importers():
    return {"diary": read_diary}


@hookimpl
def recognise(path):
    return "diary" if path.suffix == ".diary" else None


def read_diary(path):
    from dreamd.daemon.importing.items import SessionRead
    from dreamd.store.model import GLOBAL_CHANNEL, NewTurn, SessionHead

    at = datetime(2026, 7, 1, tzinfo=UTC)
    lines = path.read_text(encoding="utf-8").splitlines()
    turns = tuple(NewTurn("user", line, at, str(number)) for number, line in enumerate(lines))
    yield SessionRead(SessionHead(f"diary-{path.stem}", GLOBAL_CHANNEL, path.stem), turns)


@hookimpl
def providers():
    return {"echo": Echo}


class Echo:
    name = "acme/echo"

    def __init__(self, settings):
        self.settings = settings

    def check(self, deadline_s):
        pass

    def complete_json(self, prompt, schema, deadline_s):
        note("asked")
        raise ValueError("a model of another kind")

    def abort(self):
        pass

    def release(self, deadline_s):
        pass


@hookimpl
def backends():
    from dreamd.store.engine.files import FilesStore

    return {"words": lambda home: FilesStore(home.path)}
'''


def install(folder: Path, name: str = "acme", source: str = MODULE) -> None:
    """Write the package into a folder of the path."""
    module = f"{name}_memory"
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-memory\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[dreamd]\n{name} = {module}\n", encoding="utf-8")
