"""The house stands as designed: which room may see which, what the lower rooms never read, how it is packaged."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dreamd
import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("daemon", "ipc", "llm", "pipelines", "store")
LOWER_ROOMS = ("store", "ipc", "pipelines", "llm")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


# -- the arrows


def run_contracts(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with the contracts of pyproject on the package that lies in `root/dreamd`."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    options = ["--no-cache", "--config", str(ROOT / "pyproject.toml")]
    return subprocess.run([*command, *options], cwd=root, capture_output=True, text=True, env={"PYTHONPATH": str(root)})


@pytest.fixture(scope="session")
def bare_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a package with our folders and nothing in them: the ground to plant violations in."""
    root = tmp_path_factory.mktemp("house")
    for package in PYPROJECT["tool"]["setuptools"]["packages"]:
        folder = root / Path(*package.split("."))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    return root


def test_the_contracts_hold() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("ipc/planted.py", "from ..pipelines import planted_target"),
        ("ipc/planted.py", "from ..llm import planted_target"),
        ("ipc/planted.py", "from ..daemon import planted_target"),
        ("pipelines/planted.py", "from ..ipc import planted_target"),
        ("pipelines/planted.py", "from ..daemon import planted_target"),
        ("store/find/planted.py", "from ...llm import planted_target"),
        ("store/keep/planted.py", "from ...ipc import planted_target"),
        ("store/planted.py", "from ..pipelines import planted_target"),
        ("llm/planted.py", "from ..store import planted_target"),
        ("llm/planted.py", "from ..daemon import planted_target"),
        ("ipc/planted.py", "def late() -> None:\n    from ..llm import planted_target"),
        ("store/planted.py", "import httpx"),
        ("pipelines/planted.py", "import ollama"),
        ("pipelines/stages/planted.py", "from ..report import planted_target"),
        ("pipelines/stages/planted.py", "from ..gate import planted_target"),
        ("pipelines/pages/planted.py", "from ..stages import planted_target"),
        ("pipelines/workspace/planted.py", "from ..pages import planted_target"),
        ("pipelines/language/planted.py", "from ..extract import planted_target"),
    ],
)
def test_a_planted_violation_is_caught(bare_house: Path, tmp_path: Path, module: str, statement: str) -> None:
    shutil.copytree(bare_house / "dreamd", tmp_path / "dreamd")
    for room in ROOMS:
        (tmp_path / "dreamd" / room / "planted_target.py").touch()
    (tmp_path / "dreamd" / module).write_text(statement + "\n")
    done = run_contracts(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout
    assert "planted" in done.stdout


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("daemon/planted.py", "from ..ipc import planted_target"),
        ("pipelines/planted.py", "from ..llm import planted_target"),
        ("ipc/planted.py", "from ..store import planted_target"),
        ("llm/planted.py", "import httpx"),
        ("pipelines/stages/planted.py", "from ..pages import planted_target"),
    ],
)
def test_an_arrow_that_is_drawn_may_be_used(bare_house: Path, tmp_path: Path, module: str, statement: str) -> None:
    shutil.copytree(bare_house / "dreamd", tmp_path / "dreamd")
    for room in ROOMS:
        (tmp_path / "dreamd" / room / "planted_target.py").touch()
    (tmp_path / "dreamd" / module).write_text(statement + "\n")
    done = run_contracts(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


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


@pytest.mark.parametrize("module", ["dreamd.daemon.app", "dreamd.daemon.methods.control", "dreamd.ipc.store_methods"])
def test_what_answers_recall_loads_nothing_that_speaks_to_models(module: str) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"httpx", "ollama", "dreamd.llm.ollama", "dreamd.llm.http", "dreamd.llm.budget"}


# -- what the lower rooms never read

WALL_CLOCKS = re.compile(
    r"^(?:time\.(?:time|time_ns|localtime|ctime|strftime|gmtime)"
    r"|(?:datetime\.)?datetime\.(?:now|utcnow|today)|(?:datetime\.)?date\.today)$"
)
ENVIRONMENT = re.compile(r"^os\.(?:environ|getenv|environb|getenvb|putenv|unsetenv)\b")
# Where a process of its own begins: the client in a person's shell, the dream's child.
BEGINNINGS = {"ipc/paths.py": {"os.environ"}, "pipelines/__main__.py": {"os.environ"}}
# A clock that is given its moment is no clock: time.gmtime(seconds), time.strftime(format, moment).
TAKES_A_MOMENT = {"time.localtime": 1, "time.gmtime": 1, "time.ctime": 1, "time.strftime": 2}


def modules_of(rooms: tuple[str, ...]) -> list[Path]:
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


def references(source: str) -> Iterator[tuple[int, str, int | None]]:
    """Yield every dotted name with its line, resolved through the imports, and how many arguments it is called with."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }
    names |= {
        alias.asname: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname
    }
    written = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript) and not is_read(node)}
    called = {id(node.func): len(node.args) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
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


@pytest.mark.parametrize("path", modules_of(LOWER_ROOMS), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_lower_room_reads_neither_wall_clock_nor_environment(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    found = [
        place for place in reads_of(path.read_text()) if place.rpartition(" ")[2] not in BEGINNINGS.get(name, set())
    ]
    assert not found, f"{name}: {found}"


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


LOCKS = ("requirements.lock", "requirements-dev.lock", "tests/wheel/neighbours.lock")


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
