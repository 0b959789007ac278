"""A fact of the domain has one home: who is an assistant, what a stop word is, what is live, a run's id, the stages."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("daemon", "ipc", "llm", "pipelines", "store")
Sources = Mapping[str, str]


def product() -> Sources:
    """Return the text of each module, by its path."""
    files = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(source)))


def strings_of(node: ast.AST) -> set[str]:
    """Return the strings of a display, or the words of a string that is split into a list."""
    if isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict):
        inner: Iterable[ast.AST | None] = node.keys if isinstance(node, ast.Dict) else node.elts
        return {item.value for item in inner if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set(re.findall(r"[A-Za-z]+", node.value))
    return set()


@cache
def lists_of(source: str) -> tuple[set[str], ...]:
    """Return the words of each list, and of each string, in lower case."""
    found = (strings_of(node) for node in nodes(source))
    return tuple({word.lower() for word in words} for words in found if len(words) > 1)


def lists_with(words: set[str], source: str) -> bool:
    """Check for a list, or a string with a list in it, that holds all of some words in either case."""
    return any(words <= listed for listed in lists_of(source))


def imports(module: str, source: str) -> bool:
    return any(
        (isinstance(node, ast.Import) and any(name.name.split(".")[0] == module for name in node.names))
        or (isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == module)
        for node in nodes(source)
    )


def defines(name: str, source: str) -> bool:
    """Check for a function, a class or a constant of this name, private or not."""
    for node in nodes(source):
        match node:
            case ast.FunctionDef(name=found) | ast.ClassDef(name=found) | ast.Name(id=found, ctx=ast.Store()):
                if found.lstrip("_").lower() == name:
                    return True
    return False


def names_assistant_as_role(source: str) -> bool:
    """Check for a comparison of something called a role, or a speaker, with the word itself."""
    for node in nodes(source):
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            words = set[str]().union(*map(strings_of, sides))
            named = any(re.search(r"role|speaker", ast.unparse(side)) for side in sides)
            if named and words & {"assistant", "ai", "model", "bot"}:
                return True
    return False


def tells_liveness(source: str) -> bool:
    """Check for an expression that puts two of the three signs of a memory's end together."""
    signs = (
        r"\.status is (?:not )?Status\.DEPRECATED",
        r"\.archived_at is (?:not )?None",
        r"superseded_by is (?:not )?None",
    )
    return any(
        sum(bool(re.search(sign, ast.unparse(node))) for sign in signs) > 1
        for node in nodes(source)
        if isinstance(node, ast.BoolOp)
    )


def defines_a_word(source: str) -> bool:
    """Check for a pattern of a word: a run of letters and digits, with marks inside it or without."""
    texts = (node.value for node in nodes(source) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return any(text in {r"\w+", r"[^\W_]+"} or text.startswith((r"[^\W_][\w", r"[^\W_]+(?:[")) for text in texts)


FACTS: dict[str, tuple[Callable[[str], bool], set[str], str]] = {
    "the words for an assistant": (
        lambda source: lists_with({"assistant", "model", "bot"}, source) or names_assistant_as_role(source),
        {"store/roles.py"},
        'ASSISTANTS = {"assistant", "model", "ai", "bot"}',
    ),
    "a comparison of a role": (
        names_assistant_as_role,
        set(),
        'def weigh(turn):\n    return 0.5 if turn.role == "assistant" else 1.0',
    ),
    "stop words": (
        lambda source: lists_with({"the", "of", "which", "should", "because", "your"}, source),
        set(),
        'STOP = frozenset("a the of at which should because your".split())',
    ),
    "the stemmer": (
        lambda source: imports("snowballstemmer", source),
        {"store/text/words.py"},
        "def stem(word):\n    from snowballstemmer import stemmer\n    return stemmer('english').stemWord(word)",
    ),
    "the patterns of a word": (
        defines_a_word,
        {"store/text/words.py"},
        'WORDS = re.compile(r"[^\\W_][\\w]*")',
    ),
    "the names of the months": (
        lambda source: lists_with({"january", "july"}, source) or lists_with({"jan", "jul", "dec"}, source),
        {"store/text/dates.py"},
        'MONTHS = ("Jan", "Feb", "Jul", "Dec")',
    ),
    "the number words": (
        lambda source: lists_with({"one", "seven", "eleven"}, source),
        set(),
        'NUMBERS = ["one", "two", "seven", "eleven"]',
    ),
    "the long forms of contractions": (
        lambda source: any(
            {"can't", "won't"} <= strings_of(node) for node in nodes(source) if isinstance(node, ast.Dict)
        ),
        {"store/text/words.py"},
        """LONG = {"can't": "can not", "won't": "will not"}""",
    ),
    "whether a memory is live": (
        tells_liveness,
        {"store/model.py"},
        "def is_living(m):\n    return m.status is not Status.DEPRECATED and m.superseded_by is None",
    ),
    "a run's id": (
        lambda source: (
            defines("new_run_id", source) or bool(re.search(r"token_hex\(|uuid4\(", source) and "run" in source)
        ),
        {"store/changes/run_kinds.py"},
        'def begin():\n    run = f"{now:%Y}-{secrets.token_hex(3)}"',
    ),
    "the list of the stages": (
        lambda source: (
            lists_with({"consolidate", "drift", "decay"}, source)
            or sum(word in source for word in ("consolidate.plan", "drift.plan", "decay.plan")) > 1
            or bool(re.search(r"class Stage\b", source))
        ),
        {"pipelines/settings.py"},
        "STEPS = (Step(consolidate.plan), Step(drift.plan))",
    ),
    "the list of the cursors": (
        lambda source: (
            defines("cursor_stages", source) or lists_with({"consolidate", "scenarios", "staleness"}, source)
        ),
        set(),
        'CURSORS = ("consolidate", "scenarios", "staleness")',
    ),
}


def homes_of(fact: str, sources: Sources) -> set[str]:
    return {path for path, source in sources.items() if FACTS[fact][0](source)}


@pytest.fixture(scope="module")
def sources() -> Iterator[Sources]:
    yield product()
    nodes.cache_clear()
    lists_of.cache_clear()


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_has_one_home(fact: str, sources: Sources) -> None:
    found, homes = homes_of(fact, sources), FACTS[fact][1]
    assert found <= homes
    assert found or not homes


@pytest.mark.parametrize("fact", FACTS)
def test_a_second_home_is_seen(fact: str) -> None:
    assert homes_of(fact, {"store/planted.py": FACTS[fact][2]}) == {"store/planted.py"}


def test_words_of_languages_lie_in_their_files_and_each_section_is_read() -> None:
    lists = {path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in {".txt", ".phrases"}}
    assert lists == {ROOT / "store" / "redaction" / "issuers.txt"}  # forms of keys, in no language
    quoted = set(re.findall(r'"([\w.]+)"', "\n".join(product().values())))
    for file in (ROOT / "store" / "text" / "data" / "languages").glob("*.toml"):
        sections = tomllib.loads(file.read_text(encoding="utf-8"))
        names = {f"{key}.{name}" for key, value in sections.items() if isinstance(value, dict) for name in value}
        names |= {key for key, value in sections.items() if isinstance(value, list)}
        assert not [name for name in names if not {name, name.rpartition(".")[2]} & quoted], file
