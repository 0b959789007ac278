"""What an exception is called on the wire."""

from __future__ import annotations

import errno

import apsw
import pytest
from dreamd.ipc.errors import wire_error
from dreamd.ipc.protocol import BUSY, INTERNAL_ERROR


@pytest.mark.parametrize(
    "error", [apsw.FullError("full"), OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "quota")]
)
def test_a_full_disk_is_said_in_plain_words_and_may_pass(error: Exception) -> None:
    told = wire_error(error, "check")
    assert (told.code, str(told)) == (BUSY, "the disk is full")
    assert "room" in told.hint


def test_an_unforeseen_error_is_named_by_its_type_alone() -> None:
    told = wire_error(ValueError("somebody's secret"), "check")
    assert told.code == INTERNAL_ERROR
    assert "ValueError" in str(told)
    assert "secret" not in str(told)
