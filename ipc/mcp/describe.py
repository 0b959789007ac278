"""Writes the table of tools to the file that the relay reads: `python -m dreamd.ipc.mcp.describe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .opening import FILE
from .resources import RESOURCES, TEMPLATES
from .tools import INSTRUCTIONS, TOOLS


def description() -> dict[str, Any]:
    """Return what the file holds."""
    return {
        "instructions": INSTRUCTIONS,
        "tools": [tool.listed() for tool in TOOLS.values()],
        "resources": list(RESOURCES),
        "resourceTemplates": list(TEMPLATES),
    }


if __name__ == "__main__":
    Path(FILE).write_text(json.dumps(description(), indent=1) + "\n", encoding="utf-8")
