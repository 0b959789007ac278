"""Prompts: the templates of the folder, filled with a conversation that cannot instruct the model.

The conversation is data. It is enclosed in two fences with the hash of the enclosed text, so no text can imitate its
fence. Each turn is one line of JSON, like the answer: even a very small model then copies rather than invents. Marks of
a role or a template are broken up. A transcript may still mislead a model, so its answers are claims and are grounded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...llm.budget import Asker

Remembered = Callable[[Sequence[str], Callable[[], bytes]], bytes]
"""Returns the bytes made from these parts by an earlier call, or makes them (`workspace.memo.once`)."""

_FOLDER = Path(__file__).parent / "templates"
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+"
)
_MARKS = str.maketrans({"<": "‹", ">": "›", "{": "(", "}": ")", "|": "¦"})
_INST = re.compile(r"\[\s*(/?)\s*(INST|SYS|SYSTEM|USER|ASSISTANT|TOOL_CALLS|AVAILABLE_TOOLS)\s*\]", re.IGNORECASE)
_HASHES = re.compile(r"#{2,}|`{3,}|={4,}|-{4,}|\*{3,}")
_ROLE = re.compile(r"\b(system|user|assistant|human|ai|model|tool|developer|instructions?|record)(\s*):", re.IGNORECASE)


@cache
def prompt(name: str) -> str:
    """Return the template of one prompt, with its {places}."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def filled(name: str, turns: Sequence[str]) -> str:
    """Fill a prompt with these turns as its record, numbered from 1."""
    return with_record(name, [{"turn": number, "said": harmless(text)} for number, text in enumerate(turns, start=1)])


def with_record(name: str, lines: Sequence[Mapping[str, Any]]) -> str:
    """Fill a prompt with these lines as its record; their texts must be `harmless`."""
    record = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    fence = sha256(record.encode("utf-8", "replace")).hexdigest()[:16]
    return prompt(name).replace("{fence}", fence).replace("{record}", record)


def answer_to(prompt: str, schema: Mapping[str, Any], model: Asker, remembered: Remembered) -> dict[str, Any]:
    """Return a model's answer, remembered if it was asked the same before. Raises LlmUnavailable, LlmRefused."""
    ask = lambda: json.dumps(model.ask(prompt, schema), ensure_ascii=False).encode()  # noqa: E731
    answer: dict[str, Any] = json.loads(remembered([model.name, prompt, json.dumps(schema)], ask))
    return answer


def harmless(text: str) -> str:
    """Return a text on one line with every mark of a role, a template or a fence broken up, readable as before."""
    line = " ".join(_INVISIBLE.sub(" ", text).split())
    line = _INST.sub(lambda mark: f"({mark[1]}{mark[2]})", line.translate(_MARKS))
    line = _HASHES.sub(lambda mark: mark[0][0], line)
    return _ROLE.sub(lambda mark: f"{mark[1]}{mark[2]} -", line).encode("utf-8", "replace").decode()
