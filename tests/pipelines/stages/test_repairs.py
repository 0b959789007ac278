"""Repairs of single files."""

from __future__ import annotations

import pytest
from dreamd.pipelines.stages.lint import clean_tags


@pytest.mark.parametrize(
    ("tags", "clean"),
    [(["a", "A", " b  c ", "#d", ""], ["a", "b c", "d"]), (["a", "b"], ["a", "b"]), (["a", 1], None), ("a, b", None)],
)
def test_tags_lose_blanks_and_repetitions(tags: object, clean: list[str] | None) -> None:
    assert clean_tags(tags) == clean
