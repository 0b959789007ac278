"""From files to nodes: what an append gives is what the whole file gives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dreamd.store import okf
from dreamd.store.filters import FOREVER
from dreamd.store.index.projection import (
    NEIGHBOUR_CHARS,
    project_appended,
    project_memory,
    project_session,
    with_neighbours,
)
from dreamd.store.limits import NEIGHBOURS
from dreamd.store.model import Kind, NewTurn, SessionHead
from dreamd.store.okf import session
from dreamd.store.okf.memory_file import BY_HAND, EDITED_AT, body_hash
from hypothesis import given
from hypothesis import strategies as st

from tests.memories import fact

AT = datetime(2026, 11, 1, tzinfo=UTC)
HEAD = SessionHead("s1", "shop", "A talk", AT)
PATH = "sessions/2026/11/01/s1.md"

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=12)


@given(texts=texts, cut=st.integers(0, 12))
def test_reading_the_tail_gives_what_reading_the_whole_gives(texts: list[str], cut: int) -> None:
    turns = [NewTurn("Ann" if n % 2 else "user", text, AT, str(n)) for n, text in enumerate(texts)]
    first = session.open_file(HEAD) + session.encode_turns(turns[:cut], 1)
    whole = first + session.encode_turns(turns[cut:], cut + 1)

    early = project_session(PATH, first, HEAD).nodes[1:]
    before = early[-2 * NEIGHBOURS :]
    late = project_appended(PATH, whole[len(first) :], HEAD, before, len(first))

    nodes = {node.node_id: node for node in (*early, *late.nodes)}
    expected = project_session(PATH, whole, HEAD)
    assert nodes == {node.node_id: node for node in expected.nodes[1:]}
    assert late.parsed_to == expected.parsed_to == len(whole)


def test_the_footnotes_of_a_page_are_not_among_its_words() -> None:
    page = b"---\ntype: Profile\n---\n\n- we use oak [^m1]\n\n[^m1]: [1 May 2026](/facts/oak--a.md)\n[^9]: a person's\n"
    (node,) = project_memory("profiles/shop/oak.md", page, AT).nodes
    assert node.text == "- we use oak [^m1]\n\n[^9]: a person's"


def test_neighbours_are_named_and_cut() -> None:
    turns = [NewTurn("Ann", f"{n} " * NEIGHBOUR_CHARS, AT) for n in range(7)]
    nodes = project_session(PATH, session.open_file(HEAD) + session.encode_turns(turns, 1), HEAD).nodes[1:]
    context = with_neighbours(nodes)[3].context.split("\n")
    assert [line[:6] for line in context] == [f"Ann: {n}" for n in (1, 2, 4, 5)]
    assert max(map(len, context)) == len("Ann: ") + NEIGHBOUR_CHARS


def test_a_role_without_a_name_is_no_heading() -> None:
    turns = [NewTurn("user", "a", AT), NewTurn("Ann", "b", AT)]
    nodes = project_session(PATH, session.open_file(HEAD) + session.encode_turns(turns, 1), HEAD).nodes[1:]
    assert [node.heading() for node in nodes] == ["", "Ann"]


def test_a_sessions_own_node_is_shown_and_not_matched() -> None:
    node = project_session(PATH, session.open_file(HEAD), HEAD).nodes[0]
    assert (node.node_id, node.kind, node.title, node.searchable) == ("s1", Kind.SESSION, "A talk", False)


def test_a_memory_is_projected_with_its_links_and_its_standing() -> None:
    data = (
        b"---\ntype: Fact\ntitle: T\nnode_id: f1\nlevel: L1\nkind: fact\nchannel: shop\nstatus: deprecated\n"
        b'sources:\n  - { id: t1, resource: /x.md, title: "s1#2" }\nsupersedes: [f0]\n---\n\nIt is so.\n'
    )
    projection = project_memory("facts/t--f1.md", data, AT)
    node = projection.nodes[0]
    assert [(link.target, link.kind) for link in projection.links] == [("s1#2", "cites"), ("f0", "supersedes")]
    assert (node.live, node.text, node.payload()["valid_to"]) == (False, "It is so.", FOREVER)


def test_a_reworded_fact_is_of_the_time_of_its_new_words_and_cites_its_turn_no_more_as_them() -> None:
    said = datetime(2026, 10, 1, tzinfo=UTC)
    told = fact("We ship on Fridays.", "shop", created_at=said, valid_from=said, sources=("s1#2",))
    written = okf.from_memory(told)
    by_hand = written.replace(b"\nWe ship on Fridays.", b"\nWe ship on Mondays.")
    assert by_hand != written
    before, after = (project_memory(told.path, data, AT) for data in (written, by_hand))
    assert [(link.target, link.kind) for link in before.links] == [("s1#2", "cites")]
    assert [(link.target, link.kind) for link in after.links] == [("s1#2", "rewords"), ("s1#2", "cites")]
    assert [one.nodes[0].time_s for one in (before, after)] == [int(said.timestamp()), int(AT.timestamp())]


def test_a_dated_rewording_keeps_its_date_whenever_its_file_is_written_again() -> None:
    edited = AT - timedelta(days=3)
    told = fact("We ship on Fridays.", "shop", sources=("s1#2",))
    by_hand = okf.from_memory(told).replace(b"\nWe ship on Fridays.", b"\nWe ship on Mondays.")
    dated = okf.edit(by_hand, {EDITED_AT: edited.isoformat(), BY_HAND: body_hash("We ship on Mondays.")})
    projection = project_memory(told.path, dated, AT)
    assert projection.links[0].kind == "rewords"
    assert projection.nodes[0].time_s == int(edited.timestamp())


def test_an_unparsable_file_is_indexed_as_text() -> None:
    projection = project_memory("facts/x.md", b"---\n: : :\n\t- bad\n---\nThe words stay.\n", AT)
    assert projection.problem
    assert "The words stay." in projection.nodes[0].text
