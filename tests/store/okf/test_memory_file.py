"""Words that a person changed are told from ours, whatever was done to the file beside its words."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from dreamd.store import okf
from dreamd.store.model import Kind, Level, Memory
from dreamd.store.okf.memory_file import BY_HAND, body_hash, has_known_words, is_reworded
from hypothesis import given
from hypothesis import strategies as st

from tests.memories import fact

words = st.text(st.characters(exclude_categories=["C"]), min_size=1).filter(lambda text: bool(text.strip()))


def on_disk(memory: Memory) -> Memory:
    return okf.to_memory(memory.path, okf.parse(okf.from_memory(memory)))


@given(text=words, alike=st.integers(0, 4))
def test_what_was_written_is_known_under_each_of_its_ids(text: str, alike: int) -> None:
    told = fact(text)
    node_id = next(islice(okf.fact_ids(told.channel, text), alike, None))
    read = on_disk(replace(told, node_id=node_id, path=okf.path_for(Level.FACT, "t", node_id)))
    assert has_known_words(read)
    assert not is_reworded(read)


@given(text=words, changed=words)
def test_other_words_are_a_persons_until_they_are_known(text: str, changed: str) -> None:
    told = fact(text)
    read = on_disk(replace(told, text=changed))
    assert is_reworded(read) == (okf.fact_id(told.channel, changed) != told.node_id)
    assert not is_reworded(on_disk(replace(read, extra={BY_HAND: body_hash(read.text)})))


@pytest.mark.parametrize(
    "fields",
    [
        {"level": Level.SCENARIO, "kind": Kind.EPISODE, "path": "scenarios/t.md"},
        {"kind": Kind.DOCUMENT},
        {"node_id": "file-abcdefghijklm", "path": "facts/own.md"},
        {"node_id": "the-lease", "path": "facts/the-lease.md"},
    ],
)
def test_what_has_no_id_of_its_words_is_never_reworded(fields: dict[str, object]) -> None:
    assert not is_reworded(on_disk(replace(fact("It is so."), text="It is not so.", **fields)))  # type: ignore[arg-type]
