"""What an exception is called on the wire."""

from __future__ import annotations

import errno
from typing import Any

import apsw
import pytest
from dreamd.ipc.errors import invalid_params, wire_error
from dreamd.ipc.params import RecallParams
from dreamd.ipc.protocol import BUSY, INTERNAL_ERROR
from pydantic import ValidationError


@pytest.mark.parametrize(
    "error", [apsw.FullError("full"), OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "quota")]
)
def test_a_full_disk_is_said_in_plain_words_and_may_pass(error: Exception) -> None:
    told = wire_error(error, "check")
    assert (told.code, str(told)) == (BUSY, "the disk is full")
    assert "room" in told.hint


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ({"query": "a", "chanel": "x"}, "there is no parameter 'chanel'", "parameters: query, limit, channel, "),
        (
            {"query": "a", "filter": {"must": [{"fild": "kind"}]}},
            "there is no parameter 'filter.must.0.fild'",
            "parameters of must: field, eq, in, range, exists, must, should, must_not",
        ),
        (
            {"query": "a", "filter": {"field": "time", "range": {"since": "2026-01-01"}}},
            "there is no parameter 'filter.range.since'",
            "parameters of range: gte, gt, lte, lt",
        ),
    ],
)
def test_unknown_parameters_are_answered_with_those_of_their_place(given: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RecallParams.model_validate(given)
    told = invalid_params(caught.value, RecallParams)
    assert str(told) == said
    assert told.hint.startswith(hint)


def test_an_unforeseen_error_is_named_by_its_type_alone() -> None:
    told = wire_error(ValueError("somebody's secret"), "check")
    assert told.code == INTERNAL_ERROR
    assert "ValueError" in str(told)
    assert "secret" not in str(told)
