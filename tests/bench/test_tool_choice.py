"""The sets of tools are whole: every right tool is there, and each has a request and an earlier one."""

from __future__ import annotations

import random

import pytest

from tests.bench.tool_choice import DRAWS, OFFERED, SETS, draws_of, read_set


@pytest.mark.parametrize("name", SETS)
def test_every_tool_of_a_set_is_asked_for(name: str) -> None:
    found = read_set(name)
    right = {tool for _, tools in found.requests for tool in tools}
    assert right == set(found.tools) == set(found.earlier)
    assert not {text for text, _ in found.requests} & set(found.earlier.values())


def test_a_draw_has_the_right_tools_among_others() -> None:
    names = [f"t{n}" for n in range(30)]
    *few, every = draws_of(["t1", "t2"], names, random.Random(1))
    assert len(few) == DRAWS
    assert all(len(set(one)) == OFFERED and {"t1", "t2"} <= set(one) for one in few)
    assert every == names
