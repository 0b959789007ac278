"""The names that the store exports: those for the type checkers and those for the loader agree."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import dreamd.store
import pytest

SOURCE = ast.parse(Path(dreamd.store.__file__).read_text())


def imported_for_type_checkers() -> dict[str, str]:
    """Return the home of each name, `module:original` where it is renamed, as the block for type checkers says."""
    (block,) = (node for node in SOURCE.body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            found[alias.asname or alias.name] = f"{node.module}:{alias.name}" if alias.asname else str(node.module)
    return found


def test_the_loader_knows_what_the_type_checkers_see() -> None:
    assert imported_for_type_checkers() == dreamd.store._HOMES
    assert set(dreamd.store.__all__) == set(dreamd.store._HOMES)


@pytest.mark.parametrize("name", dreamd.store.__all__)
def test_an_exported_name_can_be_loaded(name: str) -> None:
    assert getattr(dreamd.store, name) is not None


def test_a_name_that_is_not_exported_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Writer'"):
        dreamd.store.Writer  # noqa: B018


@pytest.mark.parametrize(
    ("module", "loaded"),
    [
        ("dreamd.store", set()),
        ("dreamd.daemon.settings", {"settings"}),
    ],
)
def test_a_command_that_needs_no_store_loads_none_of_it(module: str, loaded: set[str]) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout))
    assert {name.removeprefix("dreamd.store.") for name in modules if name.startswith("dreamd.store.")} == loaded
    assert not modules & {"apsw", "numpy", "yaml"}


ROOT = Path(dreamd.store.__file__).parents[1]
BEHIND = re.compile(r"\bstore\.(?:vault|ledger|index|catalog|derived|parts)\b")


@pytest.mark.parametrize("room", ["daemon", "ipc", "pipelines"])
def test_no_other_room_reaches_behind_an_open_store(room: str) -> None:
    lines = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / room).rglob("*.py")
        for line in path.read_text().splitlines()
        if BEHIND.search(line.replace("_store.", "store.")) and "import" not in line
    }
    assert lines == set()
