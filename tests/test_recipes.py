"""The README's "Change it" is true: each recipe is followed, in a copy, with the files that it names and no others."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from dreamd.daemon.cli.main import COMMANDS

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import plain, typed

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[1]
COPIED = ("daemon", "docs", "ipc", "llm", "pipelines", "store", "__init__.py", "py.typed", "pyproject.toml")
TESTS = (
    "servers.py",
    "conftest.py",
    "examples.py",
    "stand_ins.py",
    "answer_types.py",
    "daemon/test_protocol_docs.py",
    "store/engine",
)
A_PATH = re.compile(r"`((?:daemon|docs|ipc|llm|pipelines|store|tests)/[\w./]*)`")


def recipes() -> dict[str, str]:
    """Return what the README says of each change, by its title."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Change it\n")[2].partition("\n## ")[0]
    parts = re.split(r"^\*\*(.+?)\.\*\*", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


RECIPES = recipes()


@dataclass
class Workshop:
    """A copy of the package, which only what a recipe names may change."""

    folder: Path
    recipe: str = ""

    def following(self, title: str) -> Workshop:
        return Workshop(self.folder, RECIPES[title])

    def named(self) -> set[str]:
        return set(A_PATH.findall(self.recipe))

    def add(self, path: str, text: str) -> None:
        """Write a new file; its folder is named."""
        assert f"{Path(path).parent.as_posix()}/" in self.named(), f"the recipe does not name the folder of {path}"
        assert not (self.folder / path).exists()
        (self.folder / path).write_text(text, encoding="utf-8")

    def edit(self, path: str, *edits: tuple[str, str]) -> None:
        """Put each text before the first context that matches; the file is named, or lies in a named folder."""
        assert {path, f"{Path(path).parent.as_posix()}/"} & self.named(), f"the recipe does not name {path}"
        text = (self.folder / path).read_text(encoding="utf-8")
        for context, new in edits:
            found = re.search(context, text, re.MULTILINE)
            assert found, f"{path} has no {context!r} any more: is the recipe still true?"
            text = text[: found.start()] + new + text[found.start() :]
        (self.folder / path).write_text(text, encoding="utf-8")

    def append(self, path: str, text: str) -> None:
        self.edit(path, (r"\Z", f"\n\n{text}"))

    @property
    def environ(self) -> dict[str, str]:
        """An environment in which `dreamd` is the copy, wherever the package is installed."""
        return {"PYTHONPATH": f"{self.folder / 'path'}{os.pathsep}{self.folder}"}

    def test(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *arguments]
        environ = {**os.environ, **self.environ}
        done = subprocess.run(command, cwd=self.folder, env=environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Give a copy in which every recipe has been followed."""
    folder = tmp_path_factory.mktemp("workshop")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (*COPIED, *(f"tests/{name}" for name in TESTS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, folder / name)
    (folder / "path").mkdir()
    (folder / "path" / "dreamd").symlink_to(folder)
    workshop = Workshop(folder)
    add_stage(workshop.following("A stage of a dream"))
    add_language(workshop.following("A language"))
    add_command(workshop.following("A command"))
    add_backend(workshop.following("A search backend"))
    add_importer(workshop.following("An importer"))
    return workshop


@pytest.fixture(scope="module")
def daemon(changed: Workshop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonUnderTest]:
    """Give a daemon of the copy."""
    environ = {"DREAMD_STORE__EMBEDDING__MODEL": "stub", **changed.environ}
    with DaemonUnderTest(tmp_path_factory.mktemp("recipes"), environ) as one:
        yield one


def said_by(daemon: DaemonUnderTest, *words: str | Path) -> str:
    """Run a command that must succeed; return what it says in one line."""
    done = typed(daemon, *words)
    assert done.returncode == 0, done.stderr
    return plain(done.stdout)


# -- the recipes themselves


def test_there_is_a_recipe_for_each_seam() -> None:
    assert set(RECIPES) == {"A stage of a dream", "A language", "A command", "A search backend", "An importer"}


@pytest.mark.parametrize("title", RECIPES)
def test_what_a_recipe_names_is_there(title: str) -> None:
    named = A_PATH.findall(RECIPES[title])
    assert named
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md"])
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = {target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target}
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]
    assert not [path for path in A_PATH.findall(text) if not (ROOT / path).exists()]


def test_the_readme_lists_every_command() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("| Command | Does |")[2].partition("\n\n")[0]
    first_cells = " ".join(line.split("|")[1] for line in table.splitlines()[2:])
    assert {name.split()[0] for name in re.findall(r"`([^`]+)`", first_cells)} == {*COMMANDS, "--man"}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".pre-commit-config.yaml", ".ci/run"])
def test_the_make_targets_that_a_page_names_are_there(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = r"(?:`|^ {4}|entry: |step )make (?:-j \d+ )?([a-z-]+(?: [a-z-]+)*)"
    lines = re.findall(commands, (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    named = {target for line in lines for target in line.split()}
    assert named
    assert named <= targets


def test_a_target_that_the_readme_names_sets_up_what_it_needs() -> None:
    named = set(re.findall(r"^ {4}make ([a-z-]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"venv", "demo", "test", "lint", "bench"} <= named
    for target in named:
        planned = ["make", "--dry-run", "--what-if=pyproject.toml", target]  # as if it had not been set up since
        done = subprocess.run(planned, cwd=ROOT, capture_output=True, text=True, check=True)
        assert "pip --disable-pip-version-check install" in done.stdout, target


# -- a stage

STAGE = '''
"""Labels: a new note gets the number of those that the last dream knew as a tag."""

from __future__ import annotations

from datetime import datetime

from ...store import okf
from ...store.model import Action, Kind
from ..workspace.proposals import Proposals
from ..workspace.view import View

STAGE = "labels"


def plan(view: View, now: datetime) -> Proposals:
    """Propose the tag; the cursor counts the notes."""
    planned = Proposals()
    assert view.history is not None
    notes = [memory for memory in view.memories() if memory.kind is Kind.NOTE]
    before = view.history.cursors.get((STAGE, "notes"), 0)
    for memory in notes:
        data = view.read(memory.path)
        if data is not None and not memory.tags:
            content = okf.edit(data, {"tags": [f"after-{before}"]})
            planned.actions.append(
                Action.replacing(memory.path, memory.node_id, data, content, stage=STAGE, reason="it is new")
            )
    planned.count("labelled", len(planned.actions))
    planned.cursors[STAGE, "notes"] = len(notes)
    return planned
'''


def add_stage(workshop: Workshop) -> None:
    workshop.add("pipelines/stages/labels.py", STAGE.lstrip())
    workshop.edit(
        "pipelines/settings.py",
        (r"^    DECAY = ", '    LABELS = "labels"\n'),
        (r"^    DreamStep\(Stage.LINT,", '    DreamStep(Stage.LABELS, "labels", "labels"),\n'),
    )


@pytest.mark.nightly
def test_a_new_stage_changes_files_and_keeps_its_cursor(daemon: DaemonUnderTest) -> None:
    for known, text in enumerate(("The kettle is descaled with vinegar.", "The garden gate squeaks when it rains.")):
        node_id = json.loads(said_by(daemon, "remember", text, "--json"))["node_id"]
        said_by(daemon, "dream", "daily", "--wait")
        [note] = (daemon.folder / "data" / "vault").rglob(f"*-{node_id[:6]}.md")
        assert f"after-{known}" in note.read_text(encoding="utf-8")


# -- a command


def add_command(workshop: Workshop) -> None:
    workshop.edit(
        "daemon/methods/control.py",
        (
            r"^@dataclass",
            'class LengthParams(Params):\n    """A text."""\n\n    text: str\n\n\n'
            '@dataclass(frozen=True, slots=True)\nclass LengthAnswer:\n    """The length of a text."""\n\n'
            "    letters: int\n\n\n",
        ),
        (
            r'^    Method\("stop"',
            '    Method("length", LengthParams, LengthAnswer, ControlMethods.length),\n',
        ),
        (
            r"^    def stop\(",
            "    def length(self, params: LengthParams, call: Call) -> LengthAnswer:\n"
            '        """Count the letters of a text."""\n'
            "        return LengthAnswer(len(params.text))\n\n",
        ),
    )
    workshop.append("docs/protocol.md", "### `length {text}` → `{letters}`\n")
    workshop.append(
        "daemon/cli/query_commands.py",
        "def length_arguments(parser: ArgumentParser) -> None:\n"
        '    """Declare the arguments of length."""\n'
        '    parser.add_argument("text")\n\n\n'
        "def length(options: Namespace, terminal: Terminal) -> int:\n"
        '    """Print how long a text is."""\n'
        '    answer = ask(terminal, "length", {"text": options.text})\n'
        "    terminal.document(answer)\n"
        "    return 0\n",
    )
    workshop.edit("daemon/cli/main.py", (r'^    "recall": ', '    "length": ("query_commands", "count letters"),\n'))


@pytest.mark.nightly
def test_a_new_command_is_answered_by_the_daemon(daemon: DaemonUnderTest) -> None:
    assert json.loads(said_by(daemon, "length", "kettle")) == {"letters": 6}
    assert "length" in said_by(daemon, "--help")


@pytest.mark.nightly
def test_a_new_method_is_documented(changed: Workshop) -> None:
    changed.test("tests/daemon/test_protocol_docs.py")


# -- a search backend

BACKEND = '''
"""An engine that hands everything on to sqlite-vec, and leaves a sign that it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .interface import Filter, Match, VectorStore

SIGN = Path(__file__).with_name("was_asked")


class Relay:
    """Another engine's answers."""

    def __init__(self, engine: VectorStore) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Hand the question on."""
        SIGN.touch()
        return self._engine.search_keyword(name, terms, limit, where)
'''


def add_backend(workshop: Workshop) -> None:
    workshop.add("store/engine/relay.py", BACKEND.lstrip())
    workshop.edit(
        "tests/store/engine/test_backends.py",
        (r"^from dreamd.store.engine.sqlite_vec", "from dreamd.store.engine.relay import Relay\n"),
        (r'(?<=^WITH_VECTORS = \()"', '"relay", '),
        (
            r"^    yield sqlite.store",
            '    if engine == "relay":\n        yield Relay(sqlite.store)\n        sqlite.close()\n        return\n',
        ),
    )
    workshop.edit(
        "store/index/open_index.py",
        (r"^from ..engine.sqlite_vec", "from ..engine.relay import Relay\n"),
        (r"(?<=return )SqliteVecStore\(home", "Relay("),
        (r"(?<=home\.most_held\))", ")"),
    )


@pytest.mark.nightly
def test_a_new_backend_passes_the_contract(changed: Workshop) -> None:
    changed.test("tests/store/engine/test_backends.py", "-k", "relay")


@pytest.mark.nightly
def test_a_new_backend_is_asked_by_recall(changed: Workshop, daemon: DaemonUnderTest) -> None:
    said_by(daemon, "remember", "The bakery on Elm Street closes at noon on Saturdays.")
    assert "Elm Street" in said_by(daemon, "recall", "When does the bakery close?")
    assert (changed.folder / "store" / "engine" / "was_asked").exists()


# -- an importer

IMPORTER = '''
"""Diaries: one entry a line, `{"who", "wrote", "on"}`; a file is a session."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from ....store.model import GLOBAL_CHANNEL, NewTurn, SessionHead
from ..items import SessionRead, Skipped
from ..json_lines import json_lines


def recognises(value: object) -> bool:
    """Return whether a line's value is an entry."""
    return isinstance(value, dict) and {"who", "wrote", "on"} <= value.keys()


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of a file."""
    turns = []
    for line in json_lines(path):
        if isinstance(line, Skipped):
            yield line
            continue
        number, value = line
        turns.append(NewTurn(value["who"], value["wrote"], datetime.fromisoformat(value["on"]), str(number)))
    yield SessionRead(SessionHead(f"diary-{path.stem}", GLOBAL_CHANNEL, path.stem), tuple(turns))
'''


def add_importer(workshop: Workshop) -> None:
    workshop.add("daemon/importing/formats/diary.py", IMPORTER.lstrip())
    workshop.edit(
        "daemon/importing/detect.py",
        (r"^from \.formats import ", "from .formats import diary\n"),
        (r'^    "markdown": ', '    "diary": diary.read,\n'),
        (
            r"^    if any\(chat_jsonl",
            '    if any(diary.recognises(value) for value in values):\n        return "diary"\n',
        ),
    )
    workshop.edit("daemon/importing/__init__.py", (r'^    "markdown",', '    "diary",\n'))
    workshop.edit("docs/protocol.md", (r"`markdown`;", "`diary`, "))
    workshop.append("docs/importing.md", "| `diary` | `{who, wrote, on}` a line | the file | `_global` | the line |\n")


@pytest.mark.nightly
def test_a_new_importer_reads_a_file(daemon: DaemonUnderTest, tmp_path: Path) -> None:
    diary = tmp_path / "summer.jsonl"
    diary.write_text(
        '{"who": "user", "wrote": "We saw a kingfisher at the weir.", "on": "2026-07-01T10:00:00+00:00"}\n'
        '{"who": "user", "wrote": "The canoe has a leak near the bow.", "on": "2026-07-02T10:00:00+00:00"}\n'
    )
    said_by(daemon, "import", diary)
    assert "kingfisher" in said_by(daemon, "recall", "the kingfisher at the weir")
    named = typed(daemon, "import", "--format", "diary", diary)
    assert named.returncode == 0, named.stderr


# -- a language

NORWEGIAN = """# Norwegian: a few of its words.
function_words = ["og", "ikke", "det", "vi", "jeg", "er", "på", "til", "med", "som", "en", "har"]
months = [
    "januar", "februar", "mars", "april", "mai", "juni",
    "juli", "august", "september", "oktober", "november", "desember",
]
weekdays = ["mandag", "tirsdag", "onsdag", "torsdag", "fredag", "lørdag", "søndag"]

[days]
offsets = { -1 = "i går", 1 = "i morgen" }
dates = ["{d}\\\\. {month}(?: {year})?"]

[worth]
standing = ["aldri", "alltid"]
decision = ["vi bruker"]
reason = ["fordi"]
"""

SAID_IN_NORWEGIAN = """
from datetime import UTC, date, datetime
from dreamd.pipelines.extract.facts import drafts_of
from dreamd.store.model import Turn
from dreamd.store.text.dates import with_days
from dreamd.store.text.sentences import sentences_of
from dreamd.store.text.words import language_of

text = "Vi bruker alltid Postgres til bestillingene, fordi vi har lært det i går."
assert language_of(text) == "nb"
assert with_days("Det var i går.", date(2026, 11, 6)) == "Det var i går [5 Nov 2026]."
apart = ["Vi møtes den 12. mai på kontoret.", "Det er alt vi har."]
assert sentences_of(" ".join(apart)) == apart
at = datetime(2026, 11, 6, tzinfo=UTC)
(draft,) = drafts_of([Turn("s", 1, "user", text, at, None)])
assert draft.text == text, draft
assert draft.days == (date(2026, 11, 5),), draft
"""


def add_language(workshop: Workshop) -> None:
    workshop.add("store/text/data/languages/nb.toml", NORWEGIAN)


@pytest.mark.nightly
def test_a_new_language_is_understood(changed: Workshop) -> None:
    environ = {**os.environ, **changed.environ}
    done = subprocess.run([sys.executable, "-c", SAID_IN_NORWEGIAN], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
