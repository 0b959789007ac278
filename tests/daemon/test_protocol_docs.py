"""`docs/protocol.md` against what the daemon has: every method, parameter, field, bound and figure, both ways."""

from __future__ import annotations

import json
import re
from collections import abc
from collections.abc import Iterator
from concurrent import futures
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
from dreamd.daemon.agents.hook_formats import FORMATS
from dreamd.daemon.importing import FOLLOWED, FORMAT_NAMES
from dreamd.daemon.importing.importer import MAX_SKIPPED
from dreamd.daemon.methods import review_methods
from dreamd.daemon.methods.table import METHODS
from dreamd.ipc import client, filter_params, methods, protocol, question_methods
from dreamd.ipc.call import Method
from dreamd.ipc.filter_params import BoundedFilter
from dreamd.ipc.mcp import mcp_session
from dreamd.ipc.mcp.render import LONGEST_ANSWER
from dreamd.ipc.mcp.tools import TOOLS
from dreamd.ipc.question_methods import MAX_TEXT_BYTES
from dreamd.ipc.server.server import PROGRESS_INTERVAL_S
from dreamd.ipc.settings import IpcSettings
from dreamd.ipc.socket_path import MAX_SOCKET_PATH_BYTES
from dreamd.store.changes.document_file import MOST_VALUE_BYTES
from dreamd.store.ledger.records import ANSWERS_KEPT
from dreamd.store.ledger.work import KEPT_DAYS, MOST_ANCHORS, THREAD_DAYS
from dreamd.store.limits import LONGEST_CURATED, SESSION_TTL_S
from dreamd.store.memory import MemoryStore
from dreamd.store.names import MAX_CHARACTERS
from dreamd.store.search.packing import CURATED_SHARE
from dreamd.store.search.question import MEANT_TOKENS, READ_CHARS
from dreamd.store.working import anchors, goals
from pydantic import ValidationError

from tests.answer_types import ANSWERS, dataclasses_in, sent, within

DOC = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
PAGE = " ".join(DOC.split())
SECTIONS = DOC.partition("\n## Methods\n")[2]
NOTATION = re.compile(r"[a-z_]+\??|[{}\[\]:,]")


class Field(NamedTuple):
    """A documented field: whether it may be left out, and its own fields where they are named."""

    optional: bool
    fields: dict[str, Any] | None


class Documented(NamedTuple):
    """What the docs say of a method."""

    params: dict[str, Field]
    answer: dict[str, Field]


def fields_of(tokens: Iterator[str]) -> dict[str, Field]:
    """Read `name, name?, name: {…}, name: [{…}]` up to the closing brace."""
    fields: dict[str, Field] = {}
    name = ""
    for token in tokens:
        if token == "}":
            return fields
        if token == "{":
            fields[name] = Field(fields[name].optional, fields_of(tokens))
        elif token[0].isalpha():
            name = token.rstrip("?")
            fields[name] = Field(token.endswith("?"), None)
    raise AssertionError("a brace is not closed")


def notation(text: str) -> dict[str, Field]:
    tokens = iter(NOTATION.findall(text))
    assert next(tokens) == "{"
    return fields_of(tokens)


def documented() -> Iterator[tuple[str, Documented]]:
    for section in re.split(r"^### ", SECTIONS, flags=re.MULTILINE)[1:]:
        for method in re.finditer(r"`(\w+) (\{[^`]*\})`", section.partition("\n")[0]):
            answer = re.compile(r"→\s+`(\{[^`]*\})`").search(section, method.end())
            assert answer, f"{method[1]} has no answer"
            yield method[1], Documented(notation(method[2]), notation(answer[1]))


DOCUMENTED = dict(documented())


TABLE: dict[str, Method[Any, Any]] = {method.name: method for method in METHODS}


def test_every_method_is_one_row_and_one_section() -> None:
    assert len(TABLE) == len(METHODS)
    assert set(DOCUMENTED) == set(ANSWERS) == {*TABLE, "cancel"}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_row_has_the_types_of_its_function(method: Method[Any, Any]) -> None:
    hints = get_type_hints(method.run, localns=vars(futures) | vars(abc) | {"MemoryStore": MemoryStore})
    assert hints["params"] is method.params
    result = hints["return"]
    assert method.result in (result, *get_args(result), *(part for one in get_args(result) for part in get_args(one)))


def test_the_client_names_methods_of_the_table() -> None:
    assert {*client._OF_A_CHANNEL, *client._READING} <= set(TABLE)
    folders = {name for name, method in TABLE.items() if "cwd" in method.params.model_fields}
    assert set(client._OF_A_CHANNEL) == folders - {"hook", "list"}


@pytest.mark.parametrize("method", sorted(set(DOCUMENTED) - {"cancel"}))
def test_the_documented_parameters_are_those_that_are_taken(method: str) -> None:
    taken = TABLE[method].params.model_fields
    assert {name: field.optional for name, field in DOCUMENTED[method].params.items()} == {
        field.alias or name: not field.is_required() for name, field in taken.items()
    }


@pytest.mark.parametrize("method", sorted(DOCUMENTED))
def test_the_documented_answer_is_the_declared_one(method: str) -> None:
    differences = list(differing(DOCUMENTED[method].answer, ANSWERS[method], method))
    assert not differences


def test_activity_is_marked_where_it_is() -> None:
    marked = set()
    for section in re.split(r"^### ", SECTIONS, flags=re.MULTILINE)[1:]:
        head, _, rest = section.partition("\n\n")
        answer = rest.partition("\n\n")[0] if rest.startswith("→") else ""
        if "*activity*" in head + answer:
            marked |= set(re.findall(r"`(\w+) \{", head))
    assert marked == {name for name, method in TABLE.items() if method.activity}


REQUIRED: dict[str, dict[str, Any]] = {
    "recall": {"query": "x"},
    "context": {"query": "x"},
    "remember": {"text": "x"},
    "observe": {"session": {"session_id": "s"}, "turns": []},
    "feedback": {"node_id": "n", "verdict": "useful"},
    "find_strategy": {"query": "x"},
    "select_tools": {"query": "x", "tools": ["a"]},
    "reflect": {"session": "s", "learned": [{"text": "x"}]},
    "goal_set": {"session": "s", "text": "x"},
    "document_put": {"space": ["a"], "key": "k", "value": 1},
    "review_decide": {"decision": "d", "keep": "both"},
    "hook": {"agent": "codex", "event": "Stop", "given": {}},
    "import": {"paths": ["/x"]},
    "learn": {"paths": ["/x"]},
    "watch": {"path": "/x"},
}
TURN = {"role": "user", "text": "x"}
BOUNDS: list[tuple[str, str, str, list[Any], list[Any]]] = [
    ("`query`: at most 65,536 characters", "recall", "query", ["x" * 65_536], ["x" * 65_537]),
    ("`limit`: 1 to 1000, 10 by default", "recall", "limit", [1, 1000], [0, 1001]),
    ("`budget_tokens` (1 to 100,000, 1000 by default)", "context", "budget_tokens", [1, 100_000], [0, 100_001]),
    ("the highest `priority` (1 to 10, 5 by default) first", "remember", "priority", [1, 10], [0, 11]),
    ("`idempotency_key`, of at most 128 characters", "remember", "idempotency_key", ["k" * 128], ["k" * 129]),
    ("at most 10,000 and a line", "observe", "turns", [[TURN] * 10_000], [[TURN] * 10_001]),
    ("`limit` 1 to 1000, 50 by default", "list", "limit", [1, 1000], [0, 1001]),
    ("the best first: at most `limit` (3)", "find_strategy", "limit", [1, 10], [0, 11]),
    ("Of at most 1000 `tools`", "select_tools", "tools", [["a"], ["a"] * 1000], [[], ["a"] * 1001]),
    ("`learned`: at most 32", "reflect", "learned", [[{"text": "x"}] * 32], [[{"text": "x"}] * 33]),
    ("At most 500 characters", "goal_set", "text", ["x" * 500], ["x" * 501]),
    ("a name of 1 to 16 parts", "document_put", "space", [["a"], ["a"] * 16], [[], ["a"] * 17]),
    ("a key has at most 1024 characters", "document_put", "key", ["k" * 1024], ["k" * 1025]),
    ("holds at most `limit` (100) documents", "document_list", "limit", [100], [0]),
    ("(1 to 3650, 30 by default)", "decay_preview", "days", [1, 3650], [0, 3651]),
]


@pytest.mark.parametrize(("said", "method", "name", "taken", "refused"), BOUNDS, ids=lambda one: str(one)[:40])
def test_what_is_within_the_bounds_of_the_page_is_taken_and_no_more(
    said: str, method: str, name: str, taken: list[Any], refused: list[Any]
) -> None:
    assert said in PAGE
    params, required = TABLE[method].params, REQUIRED.get(method, {})
    for value in taken:
        params.model_validate(required | {name: value})
    for value in refused:
        with pytest.raises(ValidationError):
            params.model_validate(required | {name: value})
    if default := re.search(r"(\d+) by default|\((\d+)\)", said):
        assert params.model_fields[name].default == int(default[1] or default[2])


CHOICES: list[tuple[str, str, str, set[str]]] = [
    (
        "remember",
        "kind",
        "`kind`: note (default), fact, preference, procedure, correction, negative, decision, "
        "pitfall, person, event, value, finding, episode.",
        set(),
    ),
    ("feedback", "verdict", "`useful`, `not-useful`, or `rejected`", set()),
    (
        "link",
        "relation",
        "`RelatesTo`, the default `relation`, … `Supersedes`: … `Contradicts`: … `HasTag`:",
        {"relation"},
    ),
    ("goal_set", "state", "`state`: `active` (default), `blocked`, `completed`, `abandoned`;", {"state"}),
    ("dream", "kind", "`kind`: `daily` (default), `weekly`, or `compaction`", {"kind"}),
    ("review_decide", "keep", "`keep`: `newer`, `older`, `both`, or `edit` … `accept`, … `reject`,", {"keep"}),
    ("watch", "backlog", "With `backlog` `none` … with `all`, the default,", {"backlog"}),
    ("import", "format", f"`format`: {', '.join(f'`{name}`' for name in FORMAT_NAMES)};", {"format"}),
    ("watch", "agent", f"sessions of an `agent` ({', '.join(f'`{name}`' for name in FOLLOWED)})", {"agent"}),
]


@pytest.mark.parametrize(("method", "name", "said", "beside"), CHOICES, ids=lambda one: str(one)[:40])
def test_the_words_that_a_parameter_takes_are_those_of_the_page(
    method: str, name: str, said: str, beside: set[str]
) -> None:
    assert re.search(".*?".join(map(re.escape, said.split(" … "))), PAGE)
    words = set(re.findall(r"`([\w-]+)`", said.replace("`kind`: note", "note"))) - beside
    words = words or set(re.findall(r"[a-z]+", said.partition(": ")[2])) - {"default"}
    field = TABLE[method].params.model_fields[name]
    choices = {word for one in (field.annotation, *get_args(field.annotation)) for word in get_args(one)}
    assert words == {word for word in choices if isinstance(word, str)}


def test_the_agents_of_a_hook_are_those_of_the_page() -> None:
    *names, last = FORMATS
    assert f"`agent` is {', '.join(f'`{name}`' for name in names)} or `{last}`" in PAGE


def test_the_codes_of_the_page_are_the_protocols() -> None:
    table = PAGE.partition("| code | means |")[2].partition("## MCP")[0]
    numbers = {
        name: code for name, code in vars(protocol).items() if name.isupper() and isinstance(code, int) and code < 0
    }
    assert {-int(code) for code in re.findall(r"\| −(\d+) \|", table)} == set(numbers.values())


def test_the_tools_of_the_page_are_those_that_are_served() -> None:
    listed = PAGE.partition("- Tools: ")[2].partition(". Each is")[0].replace(" (the method `anchor_recover`)", "")
    assert re.findall(r"`(\w+)`", listed) == list(TOOLS)


def test_the_example_of_a_filter_is_one() -> None:
    example = re.search(r"```json\n(.*?)```", DOC, re.DOTALL)
    assert example
    assert BoundedFilter.model_validate(json.loads(example[1])).normalised()


SETTINGS = IpcSettings()
FIGURES: list[tuple[str, object]] = [
    ("1,048,576 bytes", protocol.MAX_LINE_BYTES),
    ("A path over 103 bytes is refused", MAX_SOCKET_PATH_BYTES),
    ("a string of at most 128 characters, unique", protocol.MAX_ID_CHARACTERS),
    ("At most 32 requests of one connection", SETTINGS.max_in_flight),
    ("has not after 20 s answers", SETTINGS.deadline_s),
    ("has not after 20 s answers", question_methods.ANSWER_S),
    ("128 are connected", SETTINGS.max_connections),
    ("more than 4 MiB wait", SETTINGS.stalled_output_bytes / 2**20),
    ("wait for it for 10 s", SETTINGS.stalled_s),
    ("or more than 8 MiB at all", SETTINGS.max_output_bytes / 2**20),
    ("one line of 1 to 256 characters", (1, MAX_CHARACTERS)),
    ("`protocol` is 1.", protocol.PROTOCOL_VERSION),
    ("at most 20,000 characters: hits", LONGEST_ANSWER),
    ("at most 16 of a session", mcp_session.MOST_LISTENING),
    ("the first 2,000 are looked for by words", READ_CHARS),
    ("the first 128 tokens or so", MEANT_TOKENS),
    ("`in` (at most 100 values)", filter_params.MOST_VALUES),
    ("at most 5 deep and 64 tests", (filter_params.MOST_DEPTH, filter_params.MOST_TESTS)),
    ("at most 280 characters that stand first", LONGEST_CURATED),
    ("the last 8.", anchors.MOST_DECISIONS),
    ("at most 2,000 characters, of which the oldest decisions", anchors.MOST_CHARS),
    ("the newest 500 are kept, each for 30 days", (MOST_ANCHORS, KEPT_DAYS)),
    ("and 50 open goals a session", goals.MOST_OPEN),
    ("kept for 30 days, threads that nobody takes up for 180", (KEPT_DAYS, THREAD_DAYS)),
    ("at most 1,015,808 bytes", MOST_VALUE_BYTES),
    ("holds the first 1,000", MAX_SKIPPED),
    ("the soonest first, at most 500", review_methods.MOST_FADING),
    ("the newest first, at most 50; `newer`", review_methods.MOST_DECISIONS),
    ("then the newest, at most 50 from `offset` on", review_methods.MOST_MARKS),
]
IN_WORDS: list[tuple[str, bool]] = [
    ("waits, at most two seconds", methods.LINKING_S == 2),
    ("at most twenty a second", PROGRESS_INTERVAL_S == 1 / 20),
    ("two requests of one at a time", SETTINGS.max_at_work == 2),
    ("in at most a fifth of the budget", CURATED_SHARE == 1 / 5),
    ("for a day, a repeated key", ANSWERS_KEPT.days == 1),
    ("A session that nothing was heard of for an hour", SESSION_TTL_S == 3600),
    ("more than about half a MiB", MAX_TEXT_BYTES == 2**19),
]


@pytest.mark.parametrize(("said", "figure"), FIGURES, ids=lambda one: str(one)[:40])
def test_a_figure_of_the_page_is_the_one_that_counts(said: str, figure: object) -> None:
    assert said in PAGE
    figures = figure if isinstance(figure, tuple) else (figure,)
    assert [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", said)] == [
        float(one) for one in figures
    ]


@pytest.mark.parametrize(("said", "is_so"), IN_WORDS, ids=lambda one: str(one)[:40])
def test_a_figure_in_words_is_the_one_that_counts(said: str, is_so: bool) -> None:
    assert said in PAGE
    assert is_so


def test_every_type_is_spelled_out_somewhere() -> None:
    spelled: set[type] = set()
    for method, said in DOCUMENTED.items():
        collect(said.answer, ANSWERS[method], spelled)
    every = {part for answer in ANSWERS.values() for part in dataclasses_in(answer)}
    assert {part.__name__ for part in every} == {part.__name__ for part in spelled}


def differing(fields: dict[str, Field], declared: Any, place: str) -> Iterator[str]:
    there = sent(declared)
    for name in sorted(fields.keys() ^ there.keys()):
        yield f"{place}.{name} is {'documented' if name in fields else 'declared'} alone"
    for name in fields.keys() & there.keys():
        hint, optional = there[name]
        if fields[name].optional != optional:
            yield f"{place}.{name} may be left out in one of them"
        if (own := fields[name].fields) is not None:
            inner = within(hint)
            if is_dataclass(inner):
                yield from differing(own, inner, f"{place}.{name}")
            else:
                yield f"{place}.{name} has no fields of its own"


def collect(fields: dict[str, Field], declared: Any, spelled: set[type]) -> None:
    spelled.add(declared)
    for name, field in fields.items():
        if field.fields is not None:
            collect(field.fields, within(sent(declared)[name][0]), spelled)
