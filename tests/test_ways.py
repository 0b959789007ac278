"""The ways through the daemon stay short: `python -m tests.ways` shows one file by file."""

from __future__ import annotations

import json
import subprocess
import sys

MOST_FILES, MOST_CHANGES = 54, 300
"""Of a recall in a small memory: the files of ours that it enters, and its calls from one file to another.

Raise neither: a new step on the way belongs in a file that is on it. The second was raised once, by 15, when hits began
to say who spoke and how it was answered.
"""


def test_a_recall_enters_few_files_and_changes_between_them_seldom() -> None:
    command = [sys.executable, "-m", "tests.ways", "recall", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    figures = json.loads(done.stdout)["recall"]
    assert figures["files"] <= MOST_FILES
    assert figures["changes"] <= MOST_CHANGES
