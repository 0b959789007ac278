"""JSON that keeps its bytes: what is put in can be taken out again, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dreamd.daemon.agents import json_text
from dreamd.daemon.agents.json_text import NotJson
from hypothesis import given
from hypothesis import strategies as st

TEXTS = [
    "{}",
    '{"a": 1}',
    '{\n  "a": 1\n}\n',
    '{\n\t"a": {\n\t\t"b": [1, 2]\n\t}\n}',
    '// top\n{\n  // c\n  "a": 1, // note\n  "hooks": {"Stop": [{"x": 1}]},\n}\n',
    '{"hooks": {}}',
    '{"hooks": {"Stop": []}}',
    '{\n  "hooks": {\n    "Stop": []\n  }\n}',
    '{"servers":{"x":{"command":"y"}},"z":[1]}',
    '{\r\n  "a": "\\"}\\u00e9 // no comment"\r\n}\r\n',
    '{\n  /* , } */ "a": [1, 2,], }',
]
ITEM = {"hooks": [{"command": "ours"}]}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_put_in_is_there_and_comes_out_again(text: str, last: bool) -> None:
    written = json_text.with_item(text, ("hooks", "Stop"), ITEM, last=last)
    written = json_text.with_member(written, ("servers", "dreamd"), {"command": "/x", "args": ["mcp"]})
    value = json_text.read(written)
    assert value["servers"]["dreamd"] == {"command": "/x", "args": ["mcp"]}
    assert value["hooks"]["Stop"][-1 if last else 0] == ITEM
    before = json_text.read(text)
    assert {**value, "hooks": None, "servers": None} == {**before, "hooks": None, "servers": None}
    left = json_text.without(written, ("servers", "dreamd"))
    left = json_text.without(left, ("hooks", "Stop"), lambda item: item == ITEM)
    for path in (("servers",), ("hooks", "Stop"), ("hooks",)):
        if json_text.value_at(text, path) is None:
            left = json_text.without_empty(left, path)
    assert left == text


def test_a_member_that_is_there_is_replaced_in_its_place() -> None:
    text = '{\n    "b": 1,\n    "a": {"x": 1}, // kept\n    "c": 2\n}'
    written = json_text.with_member(text, ("a",), {"y": [2]})
    assert json_text.read(written) == {"b": 1, "a": {"y": [2]}, "c": 2}
    assert "// kept" in written
    assert written.startswith('{\n    "b": 1,\n    "a": {')


@pytest.mark.parametrize(
    "text", ["[", "{", '{"a" 1}', '{"a": 1} x', '{"a": }', "nonsense", '{"a": 1 "b": 2}', "{1: 2}"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        json_text.read(text)


def test_a_place_that_is_no_object_or_no_array_is_refused() -> None:
    with pytest.raises(NotJson, match="hooks is no object"):
        json_text.with_item('{"hooks": 3}', ("hooks", "Stop"), ITEM)
    with pytest.raises(NotJson, match=r"hooks\.Stop is no array"):
        json_text.with_item('{"hooks": {"Stop": {}}}', ("hooks", "Stop"), ITEM)


def test_deep_nesting_is_refused_and_not_followed() -> None:
    with pytest.raises(NotJson, match="deeply"):
        json_text.read("[" * 5000)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), _values, max_size=4), st.sampled_from([None, 1, 2, 4, "\t"]))
def test_every_document_is_read_as_the_library_reads_it_and_restored(document: Any, indent: int | str | None) -> None:
    text = json.dumps(document, indent=indent)
    assert json_text.read(text) == document
    key = "dreamd" + "x" * max(map(len, document), default=0)
    written = json_text.with_member(text, (key,), {"command": "y"})
    assert json_text.read(written) == {**document, key: {"command": "y"}}
    assert json_text.without(written, (key,)) == text
