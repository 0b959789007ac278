"""A conversation in a file that `import` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def chat(folder: Path, said: Sequence[str]) -> Path:
    """Write what a person said in one session, one message a line."""
    path = folder / "chat.jsonl"
    lines = [
        {"session": "s1", "role": "user", "content": text, "timestamp": f"2026-11-01T09:0{n}:00+00:00"}
        for n, text in enumerate(said)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
