from __future__ import annotations

from dataclasses import replace

from dreamd.pipelines.stages import consolidate
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.index.tombstones import fingerprint
from dreamd.store.ledger.journal import sha256
from dreamd.store.model import ActionKind, Level
from dreamd.store.okf.file import conformance

from tests.pipelines.fakes import NOW, FakeSource

SAID = ("Ann", "I moved to Oslo in 2019."), ("Bob", "I bought a red boat in Oslo."), ("Ann", "Great!")


def test_each_fact_gets_a_file_that_cites_its_turn() -> None:
    source = FakeSource()
    source.add("s1", *SAID)
    view = source.view()
    planned = consolidate.plan(view, NOW)
    assert [action.kind for action in planned.actions] == [ActionKind.CREATE] * 2
    memories = {
        memory.text: memory for memory in (okf.to_memory(a.path, okf.parse(a.content or b"")) for a in planned.actions)
    }
    fact = memories["I moved to Oslo in 2019."]
    assert fact.level is Level.FACT
    assert fact.sources == ("s1#1",)
    assert (fact.said_by, fact.about, fact.days) == ("Ann", ("Oslo",), ())
    assert fact.tags == ()  # a speaker is no tag
    assert fact.session_id == "s1"
    assert fact.run == "run-1"
    assert fact.created_at == source.said["s1"][0].at
    assert fact.path == f"projects/proj/{fact.kind}s/moved-to-oslo-in-2019-{fact.node_id[:6]}.md"
    assert planned.cursors == {("consolidate", "s1"): 3}
    assert planned.counts == {"sessions": 1, "turns": 3, "facts": 2}
    assert all(conformance(action.path, action.content or b"") == [] for action in planned.actions)


def test_a_second_run_without_new_turns_changes_nothing() -> None:
    source = FakeSource()
    source.add("s1", *SAID)
    view = source.view()
    planned = consolidate.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    again = consolidate.plan(source.view(source.take(view), "run-2"), NOW)
    assert (again.actions, again.cursors, again.counts) == ([], {}, {})


def test_a_session_is_read_from_its_cursor() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "Which city did you move to in 2019?"))
    view = source.view()
    view.apply((planned := consolidate.plan(view, NOW)).actions, planned.cursors)
    history = source.take(view)
    source.add("s1", ("Ann", "Which city did you move to in 2019?"), ("Bob", "To Oslo, from Sweden, with Ann."))
    grown = consolidate.plan(source.view(history, "run-2"), NOW)
    assert len(grown.actions) == 1
    assert b"> Which city did you move to in 2019?\n\nTo Oslo, from Sweden, with Ann." in (
        grown.actions[0].content or b""
    )
    assert grown.cursors == {("consolidate", "s1"): 2}


def test_a_run_that_learns_reads_its_sessions_alone_and_says_what_became_of_each_turn() -> None:
    source = FakeSource()
    source.add("s1", *SAID)
    source.add("s2", ("Bob", "I bought a red boat in Oslo."), ("Bob", "Okay."))
    view = source.view()
    view.learns = frozenset({"s2"})
    planned = consolidate.plan(view, NOW)
    assert planned.cursors == {("consolidate", "s2"): 2}
    (fact,) = planned.actions
    assert {(turn.node_id, turn.outcome, turn.fact) for turn in planned.turns} == {
        ("s2#1", "new", fact.node_id),
        ("s2#2", "nothing", ""),
    }


def test_a_repeated_fact_gains_evidence() -> None:
    source = FakeSource()
    source.add("s1", *SAID)
    view = source.view()
    view.apply((planned := consolidate.plan(view, NOW)).actions, planned.cursors)
    history = source.take(view)
    path = next(path for path in source.files if "red-boat" in path)
    source.files[path] = source.files[path].replace(b"---\n\n", b"mine: kept # a note\n---\n\n", 1)
    source.add("s2", ("Bob", "I really bought a red boat in Oslo!"), ("Ann", "I bought a blue boat in Oslo."))
    view = source.view(history, "run-2")
    planned = consolidate.plan(view, NOW)
    assert planned.counts == {"sessions": 1, "turns": 2, "duplicates": 1, "facts": 1, "reinforced": 1}
    (reinforced,) = [action for action in planned.actions if action.kind is ActionKind.REPLACE]
    assert reinforced.path == path
    assert reinforced.pre_sha256 == sha256(view.read(path) or b"")
    content = reinforced.content or b""
    assert okf.to_memory(path, okf.parse(content)).sources == ("s1#2", "s2#1")
    assert b"mine: kept # a note" in content
    assert okf.parse(content).meta["sources"][-1]["resource"] == "/sessions/2023/05/08/s2.md"


def test_a_fact_repeated_within_a_run_is_one_fact() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo."), ("Bob", "Sure."), ("Ann", "I moved to Oslo!"))
    planned = consolidate.plan(source.view(), NOW)
    assert len(planned.actions) == 1
    memory = okf.to_memory("x.md", okf.parse(planned.actions[0].content or b""))
    assert memory.sources == ("s1#1", "s1#3")


def test_a_session_that_cannot_be_read_keeps_its_cursor() -> None:
    source = FakeSource()
    source.add("bad", *SAID)
    source.add("good", ("Ann", "I moved to Oslo."))
    source.failing = {"bad"}
    planned = consolidate.plan(source.view(), NOW)
    assert planned.cursors == {("consolidate", "good"): 1}
    assert planned.counts["sessions failed"] == 1
    assert planned.notes == ["bad could not be read: ValueError"]


def test_nothing_is_learned_where_learning_is_off() -> None:
    source = FakeSource()
    source.add("s1", *SAID, channel="quiet")
    source.add("s2", ("Ann", "I moved to Oslo."))
    planned = consolidate.plan(source.view(History(channels_off=frozenset({"quiet"}))), NOW)
    assert [action.node_id for action in planned.actions] == [okf.fact_id("proj", "I moved to Oslo.")]
    assert ("consolidate", "s1") not in planned.cursors
    assert consolidate.plan(source.view(History(paused=True)), NOW).actions == []


def test_what_was_undone_is_not_proposed_again() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo."))
    (action,) = consolidate.plan(source.view(), NOW).actions
    memory = okf.to_memory(action.path, okf.parse(action.content or b""))
    assert action.fingerprint == fingerprint(memory)
    planned = consolidate.plan(source.view(History(tombstones=frozenset({fingerprint(memory)}))), NOW)
    assert planned.actions == []
    assert planned.counts["forbidden"] == 1
    assert planned.cursors == {("consolidate", "s1"): 1}


def test_channels_do_not_share_facts() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo."), channel="a")
    source.add("s2", ("Ann", "I moved to Oslo."), channel="b")
    planned = consolidate.plan(source.view(), NOW)
    assert len({action.node_id for action in planned.actions}) == 2


def test_an_archived_fact_is_not_made_anew() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo."))
    (action,) = consolidate.plan(source.view(), NOW).actions
    source.files[action.path] = okf.edit(action.content or b"", {"status": "deprecated"})
    assert consolidate.plan(source.view(), NOW).actions == []


def test_the_order_of_sessions_does_not_matter() -> None:
    one, two = FakeSource(), FakeSource()
    for source, names in ((one, ("s1", "s2")), (two, ("s2", "s1"))):
        for name in names:
            source.add(name, *SAID)
    assert consolidate.plan(one.view(), NOW).actions == consolidate.plan(two.view(), NOW).actions
    assert replace(consolidate.plan(one.view(), NOW)) == consolidate.plan(one.view(), NOW)


def test_a_reply_is_titled_by_its_own_words_and_by_what_it_replies_to_where_these_say_little() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "Which city did you move to in 2019?"), ("Bob", "To Oslo, from Sweden, with Ann."))
    proposed = "I'd take Postgres for the orders, so that one backup covers them all."
    source.add("s2", ("user", "Where do the orders go?"), ("assistant", proposed), ("user", "ok, do that"))
    planned = consolidate.plan(source.view(), NOW)
    facts = [okf.to_memory(one.path, okf.parse(one.content or b"")) for one in planned.actions]
    assert [fact.title for fact in facts if fact.text.startswith("> ")] == [
        "To Oslo, from Sweden, with Ann",
        "ok, do that … I'd take Postgres for the orders, so that one backup…",
    ]
