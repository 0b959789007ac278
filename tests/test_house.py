"""The house stands as designed: which room may see which, what the lower rooms never read, how it is packaged."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import dreamd
import pytest
import yaml
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("daemon", "ipc", "llm", "pipelines", "store")
LOWER_ROOMS = ("store", "ipc", "pipelines", "llm")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


# -- the arrows


def contracts_hold() -> bool:
    """Whether import-linter finds nothing against the contracts of pyproject."""
    # It configures logging and disables all loggers that exist: later tests of log messages would fail.
    with mock.patch("importlinter.cli.logging_config.dictConfig"):
        return lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == EXIT_STATUS_SUCCESS


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a package that import-linter finds in place of ours: the same modules, and nothing in them."""
    for module in [ROOT / "__init__.py", *modules_of(ROOMS)]:
        file = tmp_path / "dreamd" / module.relative_to(ROOT)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.delitem(sys.modules, "dreamd")  # what has been imported is not looked for again
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "dreamd"


def holds_with(house: Path, module: str, statement: str) -> bool:
    """Whether the contracts hold while a statement stands in an empty module that exists."""
    assert (house / module).exists()
    (house / module).write_text(statement + "\n")
    held = contracts_hold()
    (house / module).write_text("")
    return held


BETWEEN_ROOMS = (
    ("ipc/params.py", "from ..pipelines import dream"),
    ("ipc/params.py", "from ..llm import language_model"),
    ("ipc/params.py", "from ..daemon import app"),
    ("pipelines/dream.py", "from ..ipc import client"),
    ("pipelines/dream.py", "from ..daemon import app"),
    ("store/search/search.py", "from ...llm import language_model"),
    ("store/engine/database.py", "from ...ipc import client"),
    ("store/memory.py", "from ..pipelines import dream"),
    ("llm/language_model.py", "from ..store import memory"),
    ("llm/language_model.py", "from ..daemon import app"),
    ("ipc/params.py", "def late() -> None:\n    from ..llm import language_model"),
    ("store/memory.py", "import httpx"),
    ("pipelines/dream.py", "import ollama"),
    ("daemon/app.py", "from ..store.embedding import embedding"),
    ("daemon/importing/importer.py", "from ...store.text import fence"),
    ("daemon/cli/repair_commands.py", "def late() -> None:\n    from ...store.engine import database"),
    ("ipc/errors.py", "from ..store.engine import database"),
    ("ipc/methods.py", "from ..store.changes import corrections"),
    ("ipc/server/server.py", "from ...store.changes import runs"),
    ("ipc/call.py", "from ..store.upkeep import worker"),
)
UP_WITHIN_A_ROOM = (
    ("pipelines/report/sections.py", "from .. import dream"),
    ("pipelines/stages/drift.py", "from ..report import sections"),
    ("pipelines/stages/drift.py", "from ..gate import gate"),
    ("pipelines/gate/gate.py", "from ..stages import drift"),
    ("pipelines/workspace/view.py", "from ..stages import drift"),
    ("pipelines/grounding/verify.py", "from ..workspace import view"),
    ("pipelines/extract/facts.py", "from ..grounding import verify"),
    ("store/upkeep/worker.py", "from .. import memory"),
    ("store/upkeep/worker.py", "from .. import recall"),
    ("store/recall.py", "from . import operations"),
    ("store/changes/runs.py", "from ..upkeep import worker"),
    ("store/index/index.py", "from ..changes import runs"),
    ("store/writer/writer.py", "from ..index import index"),
    ("store/text/words.py", "from ..vault import disk"),
    ("store/text/chunking.py", "from ..engine import database"),
    ("store/model.py", "from .engine import database"),
    ("store/index/index.py", "from ..search import search"),
    ("store/okf/file.py", "from ..writer import writer"),
    ("store/vault/vault.py", "from ..ledger import ledger"),
    ("ipc/protocol.py", "from .server import server"),
    ("ipc/server/server.py", "from .. import methods"),
    ("daemon/methods/control.py", "from .. import app"),
    ("daemon/dreaming/dreamer.py", "from ..methods import control"),
    ("daemon/host/installed_service.py", "from ..dreaming import dreamer"),
)
DRAWN = (
    ("daemon/app.py", "from ..ipc.server import server"),
    ("pipelines/dream.py", "from ..llm import language_model"),
    ("ipc/methods.py", "from ..store import memory"),
    ("llm/ollama.py", "import httpx"),
    ("pipelines/stages/drift.py", "from ..workspace import view"),
    ("store/memory.py", "from .search import search"),
    ("daemon/app.py", "from .. import store"),
    ("daemon/host/folder_watch.py", "from ...store import model"),
    ("pipelines/dream.py", "from ..store import okf"),
    ("store/upkeep/linking.py", "from ..changes import runs"),
)


def test_the_contracts_hold() -> None:
    assert contracts_hold()


def test_without_a_violation_the_contracts_hold_there_too(house: Path) -> None:
    assert contracts_hold()


@pytest.mark.parametrize("planted", [BETWEEN_ROOMS, UP_WITHIN_A_ROOM], ids=["between rooms", "up within a room"])
def test_an_arrow_that_is_not_drawn_is_caught(house: Path, planted: tuple[tuple[str, str], ...]) -> None:
    assert [arrow for arrow in planted if holds_with(house, *arrow)] == []


def test_an_arrow_that_is_drawn_may_be_used(house: Path) -> None:
    assert [arrow for arrow in DRAWN if not holds_with(house, *arrow)] == []


def test_a_circle_of_two_modules_is_caught(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = house / "store" / "search"
    (folder / "fusion.py").write_text("from . import search\n")
    (folder / "search.py").write_text("def late() -> None:\n    from . import fusion\n")
    assert not contracts_hold()
    assert "No cycles are allowed in dreamd.store.search" in capsys.readouterr().out


def test_a_new_module_must_be_given_its_place(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (house / "pipelines" / "helpers.py").touch()
    assert not contracts_hold()
    assert "helpers" in capsys.readouterr().out


MOST_FILES = 16


def test_no_folder_holds_more_files_than_one_can_take_in() -> None:
    folders = {folder for module in modules_of(ROOMS) for folder in [module.parent]}
    crowded = {
        folder.relative_to(ROOT).as_posix(): number
        for folder in folders
        if (number := len([file for file in folder.glob("*.py") if file.name != "__init__.py"])) > MOST_FILES
    }
    assert crowded == {}


@pytest.mark.parametrize("module", ["dreamd.ipc.client"])
def test_what_an_agent_starts_imports_the_standard_library_alone(module: str) -> None:
    program = (
        "import json, sys; before = set(sys.modules)\n"
        f"import {module}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert loaded - set(sys.stdlib_module_names) <= {"dreamd"}
    ours = {name for name in json.loads(done.stdout) if name.startswith("dreamd")}
    assert {name.split(".")[1] for name in ours if "." in name} == {"ipc"}
    assert "asyncio" not in loaded


def test_the_asynchronous_client_imports_the_standard_library_alone() -> None:
    program = "import json, sys, dreamd.ipc.async_client; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert not {"pydantic", "dreamd.store", "dreamd.ipc.answers"} & set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["dreamd.daemon.app", "dreamd.daemon.methods.control", "dreamd.ipc.methods"])
def test_what_answers_recall_loads_nothing_that_speaks_to_models(module: str) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"httpx", "ollama", "dreamd.llm.ollama", "dreamd.llm.http", "dreamd.llm.budget"}
    assert "dreamd.store.judges.judge" not in loaded  # it judges in dreams
    assert "mcp" not in loaded  # a second of a processor: the first session of an agent brings it


# -- what the lower rooms never read

WALL_CLOCKS = re.compile(
    r"^(?:time\.(?:time|time_ns|localtime|ctime|strftime|gmtime)"
    r"|(?:datetime\.)?datetime\.(?:now|utcnow|today)|(?:datetime\.)?date\.today)$"
)
ENVIRONMENT = re.compile(r"^os\.(?:environ|getenv|environb|getenvb|putenv|unsetenv)\b")
# Where a process of its own begins: the client in a person's shell, the dream's child.
BEGINNINGS = {
    "ipc/socket_path.py": {"os.environ"},
    "ipc/mcp/relay.py": {"os.environ"},
    "pipelines/__main__.py": {"os.environ"},
}
# A clock that is given its moment is no clock: time.gmtime(seconds), time.strftime(format, moment).
TAKES_A_MOMENT = {"time.localtime": 1, "time.gmtime": 1, "time.ctime": 1, "time.strftime": 2}


def modules_of(rooms: tuple[str, ...]) -> list[Path]:
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


def references(source: str) -> Iterator[tuple[int, str, int | None]]:
    """Yield every dotted name with its line, resolved through the imports, and how many arguments it is called with."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }
    names |= {
        alias.asname: alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    written = {id(node.value) for node in nodes if isinstance(node, ast.Subscript) and not is_read(node)}
    called = {id(node.func): len(node.args) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in written:
            head, *rest = ast.unparse(node).split(".")
            yield node.lineno, ".".join([names.get(head, head), *rest]), called.get(id(node))


def is_read(node: ast.Subscript) -> bool:
    """Whether an item is looked at: to set one for a library that is about to be loaded is no reading."""
    return isinstance(node.ctx, ast.Load)


def reads_of(source: str) -> list[str]:
    """Name each place that reads the wall clock or the environment."""
    found = []
    for line, name, arguments in references(source):
        given = TAKES_A_MOMENT.get(name)
        if given is not None and arguments is not None and arguments >= given:
            continue
        if read := WALL_CLOCKS.match(name) or ENVIRONMENT.match(name):
            found.append(f"line {line}: {read[0]}")
    return found


def test_no_lower_room_reads_the_wall_clock_or_the_environment() -> None:
    found = [
        f"{name}: {place}"
        for path in modules_of(LOWER_ROOMS)
        for name in [path.relative_to(ROOT).as_posix()]
        for place in reads_of(path.read_text())
        if place.rpartition(" ")[2] not in BEGINNINGS.get(name, set())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.time()",
        "from time import time\nx = time()",
        "from time import time_ns as t\nx = t()",
        "import datetime\nx = datetime.datetime.now(datetime.UTC)",
        "from datetime import datetime, UTC\nx = datetime.now(UTC)",
        "from datetime import datetime as dt\nx = dt.utcnow()",
        "from datetime import date\nx = date.today()",
        "from datetime import datetime\nclock = datetime.now",
        "import os\nx = os.environ['HOME']",
        "import os\nx = os.getenv('HOME')",
        "from os import environ\nx = environ.get('HOME')",
        "import os as o\nx = o.environ",
        "import time\nx = time.strftime('%Y')",
    ],
)
def test_the_check_sees_a_clock_or_the_environment(source: str) -> None:
    assert reads_of(source)


@pytest.mark.parametrize(
    "source",
    [
        "import time\nx = time.monotonic() + time.perf_counter()",
        "from datetime import datetime\nx = datetime.fromisoformat('2026-11-21')",
        "def f(now):\n    return now()",
        "import time\nx = time.gmtime(0)",
        "import os\nx = os.fspath('a')",
        "x = self.environ",
        "import os\nos.environ['OMP_NUM_THREADS'] = '1'",
    ],
)
def test_the_check_lets_durations_and_given_moments_pass(source: str) -> None:
    assert not reads_of(source)


# -- the packaging


def test_every_package_folder_is_listed() -> None:
    listed = set(PYPROJECT["tool"]["setuptools"]["packages"])
    there = {"dreamd"} | {
        ".".join(("dreamd", *init.parent.relative_to(ROOT).parts))
        for room in ROOMS
        for init in (ROOT / room).rglob("__init__.py")
    }
    assert listed == there


def test_the_architecture_describes_every_folder_of_a_room() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    there = {f"{room}/{init.parent.name}" for room in ROOMS for init in (ROOT / room).glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+/\w+)/` \|", text, re.MULTILINE)) == there


def test_every_module_lies_in_a_package() -> None:
    homeless = [path for path in modules_of(ROOMS) if not (path.parent / "__init__.py").exists()]
    assert homeless == []


def test_the_package_data_is_there() -> None:
    for package, patterns in PYPROJECT["tool"]["setuptools"]["package-data"].items():
        folder = ROOT / Path(*package.split(".")[1:])
        for pattern in patterns:
            assert list(folder.glob(pattern)), f"{package}: nothing is {pattern}"


def test_the_type_checkers_see_every_room() -> None:
    typing = ROOT / "tests" / "typing" / "dreamd"
    for name in (*ROOMS, "__init__.py", "py.typed"):
        assert (typing / name).is_symlink()
        assert (typing / name).resolve() == (ROOT / name).resolve()


def test_the_version_has_one_home() -> None:
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    assert "version" not in PYPROJECT["project"]
    assert version("dreamd") == dreamd.__version__


def test_the_changelog_speaks_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## [{dreamd.__version__}]" in text or "## [Unreleased]" in text


def test_two_programs_come_onto_the_path() -> None:
    assert set(PYPROJECT["project"]["scripts"]) == {"dreamd", "dreamctl"}
    assert not {"gui-scripts", "entry-points"} & set(PYPROJECT["project"])


def test_ci_runs_it_on_the_systems_and_pythons_that_the_readme_names() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    machines = workflow["jobs"]["check"]["strategy"]["matrix"]["include"]
    minors = sorted(int(machine["python"].partition(".")[2]) for machine in machines)
    assert {machine["os"] for machine in machines} == {"ubuntu-latest", "macos-latest"}
    assert f"on Linux and macOS with Python 3.{minors[0]} to 3.{minors[-1]}" in (ROOT / "README.md").read_text()
    assert PYPROJECT["project"]["requires-python"] == f">=3.{minors[0]}"


LOCKS = ("requirements.lock", "requirements-dev.lock", "tests/wheel/neighbours.lock", "tests/adapters/packages.lock")


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_with_hashes_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links|@ file:", text)
    for entry in re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip()):
        assert re.match(r"[\w.-]+==\S+", entry), entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]


def test_the_locks_agree() -> None:
    pins: dict[tuple[str, str], set[str]] = {}
    for lock in LOCKS:
        for name, pin, marker in re.findall(
            r"^([\w.-]+)==(\S+)(?: ; ([^\\\n]*))?", (ROOT / lock).read_text(), re.MULTILINE
        ):
            version_marker = " ".join(re.findall(r"python_full_version \S+ \S+", marker))
            pins.setdefault((name, version_marker), set()).add(pin)
    assert {name: found for name, found in pins.items() if len(found) > 1} == {}


def test_every_dependency_is_locked() -> None:
    for lock, wanted in (
        ("requirements.lock", PYPROJECT["project"]["dependencies"]),
        ("requirements-dev.lock", PYPROJECT["project"]["optional-dependencies"]["dev"]),
    ):
        locked = set(re.findall(r"^([\w.-]+)==", (ROOT / lock).read_text(), re.MULTILINE))
        assert {re.split(r"[<>=!~ \[]", requirement)[0].lower() for requirement in wanted} <= locked


# -- the docstrings

OPENERS = re.compile(r"(?:What|Whether|Who|Whose|Whom|How)\b")


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield each string that stands alone, a docstring or a constant's, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value.strip()


@pytest.mark.parametrize("room", ROOMS)
def test_a_docstring_names_the_thing_and_does_not_ask_for_it(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in modules_of((room,))
        for line, text in docstrings(path.read_text())
        if OPENERS.match(text)
    ]
    assert found == []


def test_the_check_sees_every_docstring() -> None:
    source = '"""What it is."""\nX = 1\n"""How many."""\ndef f():\n    """Who asks."""\n'
    assert [line for line, text in docstrings(source) if OPENERS.match(text)] == [1, 3, 5]


MOST_PARAMETERS, MOST_IMPORTS, MOST_MODULES = 7, 25, 330
FAMILIES = {"__main__", "limits", "settings"}
"""Module names that stand for the same thing in several rooms."""

MOST_RELATIVE_WHAT = 2.0
"""A thousand words of docstrings may have so many: a noun of the field says more."""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for module in modules_of(ROOMS):
        yield module, ast.parse(module.read_text(encoding="utf-8"))


def test_no_two_modules_or_classes_are_named_alike() -> None:
    modules = Counter(module.stem for module in modules_of(ROOMS) if module.name != "__init__.py")
    classes = Counter(node.name for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in modules.items() if times > 1} <= FAMILIES
    assert [name for name, times in classes.items() if times > 1] == []
    assert modules.total() <= MOST_MODULES


def test_a_constructor_has_few_parameters() -> None:
    many = [
        f"{module.name}: {owner.name}"
        for module, tree in trees()
        for owner in ast.walk(tree)
        if isinstance(owner, ast.ClassDef)
        for init in owner.body
        if isinstance(init, ast.FunctionDef) and init.name == "__init__"
        if len(init.args.args) + len(init.args.kwonlyargs) - 1 > MOST_PARAMETERS
    ]
    assert many == []


def test_a_module_uses_few_others() -> None:
    many = {}
    for module, tree in trees():
        relative = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level]
        used = {(node.level, node.module or alias.name) for node in relative for alias in node.names}
        if len(used) > MOST_IMPORTS and module.name != "__init__.py":
            many[module.name] = len(used)
    assert many == {}


def test_docstrings_use_nouns() -> None:
    texts = [text for module in modules_of(ROOMS) for _, text in docstrings(module.read_text(encoding="utf-8"))]
    words = [word for text in texts for word in re.findall(r"[A-Za-z'’]+", text)]
    assert 1000 * words.count("what") <= MOST_RELATIVE_WHAT * len(words)
