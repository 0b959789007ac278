"""The table of tools: what it costs a session, and that each row fits the method behind it."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from dreamd.ipc.mcp.tools import INSTRUCTIONS, KINDS, LESSONS, TOOLS, VERDICTS, Tool, arguments_of
from dreamd.ipc.methods import STORE_METHODS
from dreamd.ipc.params import RecallParams, ReflectParams, kind_of
from dreamd.store import estimate_tokens
from dreamd.store.model import Verdict

PARAMS = {method.name: method.params for method in STORE_METHODS}

each_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)


def seen(tool: Tool) -> str:
    """What a model sees of a tool."""
    entry = tool.listed()
    return json.dumps({key: entry[key] for key in ("name", "description", "inputSchema")}, separators=(",", ":"))


def test_what_is_always_in_a_prompt_is_small() -> None:
    always = [tool for tool in TOOLS.values() if tool.always_loaded]
    assert {tool.name for tool in always} == {"recall", "remember"}
    assert len(INSTRUCTIONS) <= 600
    assert estimate_tokens(INSTRUCTIONS) + sum(estimate_tokens(seen(tool)) for tool in always) <= 430


def test_the_whole_list_is_small() -> None:
    tools = sum(estimate_tokens(seen(tool)) for tool in TOOLS.values())
    assert tools < 1790
    assert estimate_tokens(INSTRUCTIONS) + tools <= 1893


@each_tool
def test_a_tool_answers_in_text_alone_and_says_what_it_does_to_the_memory(tool: Tool) -> None:
    entry = tool.listed()
    assert "outputSchema" not in entry
    assert set(entry["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert entry["annotations"]["openWorldHint"] is False
    assert not (tool.reads_only and tool.destroys)
    assert ("_meta" in entry) == tool.always_loaded


@each_tool
def test_a_tool_passes_what_its_method_takes(tool: Tool) -> None:
    fields = PARAMS[tool.method].model_fields
    takes = {field.alias or name: field for name, field in fields.items()}
    given = arguments_of(tool, dict.fromkeys(tool.parameters, "x"), dict.fromkeys(tool.adds, "y"))
    assert set(given) <= set(takes)
    required = {name for name, field in takes.items() if field.is_required()}
    assert required <= {*tool.required, *tool.adds}
    assert set(tool.required) <= set(tool.parameters)


def test_the_values_that_a_model_may_choose_are_the_wires() -> None:
    kept = get_args(PARAMS["remember"].model_fields["kind"].annotation)
    assert {kind_of(kind) for kind in TOOLS["remember"].parameters["kind"]["enum"]} <= set(kept)
    for named in ("decision", "preference", "correction", "rule", "pitfall"):
        assert f" {named}" in INSTRUCTIONS
        assert named in KINDS
    for kind in LESSONS:
        ReflectParams.model_validate({"session": "s", "learned": [{"text": "x", "kind": kind}]})
    assert set(get_args(Verdict)) == set(VERDICTS)


def test_a_model_cannot_pass_what_the_session_knows() -> None:
    with pytest.raises(
        ValueError, match="recall takes no cwd; its arguments are: query, limit, min_score, channel, since, kind"
    ):
        arguments_of(TOOLS["recall"], {"query": "x", "cwd": "/"}, {"cwd": "/home"})
    with pytest.raises(ValueError, match="recall needs query"):
        arguments_of(TOOLS["recall"], {"channel": "shop"}, {})


def test_the_session_fills_in_what_the_model_leaves_open() -> None:
    known = {"cwd": "/home/ana/shop", "session": "s1", "agent_id": None}
    assert arguments_of(TOOLS["context"], {"query": "x", "channel": None}, known) == {
        "query": "x",
        "cwd": "/home/ana/shop",
        "session": "s1",
    }
    named = arguments_of(TOOLS["recall"], {"query": "x", "channel": "shop"}, known)
    assert named == {"query": "x", "channel": "shop", "limit": 8, "session": "s1"}


def test_a_question_may_be_narrowed_by_a_day_and_a_kind() -> None:
    given = arguments_of(TOOLS["recall"], {"query": "x", "since": "2026-11-01", "kind": "Rule", "limit": "3"}, {})
    assert set(given) == {"query", "filter", "limit"}
    read = RecallParams.model_validate(given)
    assert read.limit == 3
    assert given["filter"]["must"][1] == {"field": "kind", "eq": "preference"}


def test_a_statement_of_this_session_is_kept_for_it() -> None:
    given = arguments_of(TOOLS["remember"], {"text": "x", "channel": "~"}, {"session": "s1", "cwd": "/work/shop"})
    assert given == {"text": "x", "scope": "session", "session": "s1", "cwd": "/work/shop"}
