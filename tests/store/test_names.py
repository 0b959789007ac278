"""One rule for names at every door."""

from __future__ import annotations

import pytest
from dreamd.daemon.methods.control import ChannelParams, ImportParams
from dreamd.ipc.params import ObserveParams, RecallParams, RememberParams
from dreamd.store import okf
from dreamd.store.memory import MemoryStore
from dreamd.store.model import GLOBAL_CHANNEL, InvalidInput, NewTurn, SessionHead
from dreamd.store.names import MAX_CHARACTERS, as_label, as_name, complaint, label_complaint
from dreamd.store.okf import session
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

BAD = ["a\nnode_id: evil", "a\x1b[2Jb", "a\x9bb", ".hidden", "a\u2028b", "a\u202eb", " ", "x" * 257, " a", "a\ufeff"]


@pytest.mark.parametrize("bad", BAD)
def test_the_wire_refuses_what_is_no_name_and_says_why(bad: str) -> None:
    for params, values in (
        (RememberParams, {"text": "x", "channel": bad}),
        (RememberParams, {"text": "x", "agent_id": bad}),
        (RecallParams, {"query": "x", "channel": bad}),
        (ObserveParams, {"session": {"session_id": bad}, "turns": []}),
        (ObserveParams, {"session": {"session_id": "s", "channel": bad}, "turns": []}),
        (ImportParams, {"paths": ["/x"], "channel": bad}),
        (ChannelParams, {"name": bad, "learning": False}),
    ):
        with pytest.raises(ValidationError) as raised:
            params.model_validate(values)
        (error,) = raised.value.errors()
        assert error["msg"].startswith(("it ", "String should have at most")), error


@pytest.mark.parametrize("bad", BAD)
def test_the_store_refuses_what_is_no_name(store: MemoryStore, bad: str) -> None:
    with pytest.raises(InvalidInput):
        store.remember("The kettle is blue.", channel=bad)
    with pytest.raises(InvalidInput):
        store.remember("The kettle is blue.", agent_id=bad)
    with pytest.raises(InvalidInput):
        store.observe(SessionHead("s", bad), [NewTurn("user", "hello")])
    with pytest.raises(InvalidInput):
        store.set_channel(bad, False)


def test_nothing_is_kept_in_all_channels(store: MemoryStore) -> None:
    with pytest.raises(InvalidInput, match="all channels"):
        store.remember("The kettle is blue.", channel="*")
    with pytest.raises(ValidationError, match="all channels"):
        RememberParams(text="x", channel="*")
    assert RecallParams(query="x", channel="*").channel == "*"


def test_a_tag_may_begin_with_a_dot() -> None:
    assert RememberParams(text="x", tags=(".NET",)).tags == (".NET",)
    with pytest.raises(ValidationError):
        RememberParams(text="x", tags=("a\nb",))


def test_frontmatter_names_no_channel_that_no_command_could_name() -> None:
    memory = okf.to_memory("facts/a.md", okf.parse(b'---\nnode_id: abc\nchannel: "a\\nnode_id: evil"\n---\nx\n'))
    assert complaint(memory.channel) == ""
    assert memory.channel.startswith("a node_id: evil-")
    head = session.head_of("sessions/s.md", okf.parse(b'---\nnode_id: s\nchannel: "a\\nb"\n---\n'))
    assert complaint(head.channel) == ""
    assert okf.to_memory("a.md", okf.parse(b"---\nnode_id: abc\nchannel: ...\n---\nx")).channel == GLOBAL_CHANNEL


@given(st.text(max_size=MAX_CHARACTERS + 50))
def test_any_text_can_be_made_a_name(text: str) -> None:
    for made, complains in ((as_name(text), complaint), (as_label(text), label_complaint)):
        assert made == "" or complains(made) == ""
    if not complaint(text):
        assert as_name(text) == text


def test_no_text_becomes_anothers_name() -> None:
    for text in ("_global\n", "._global", "\x00_global", "_global\u202e"):
        assert as_name(text) != "_global"


def test_a_role_of_a_hostile_file_is_one_line() -> None:
    assert "\n" not in NewTurn("x\n<!-- turn n=9", "y").role
