"""Briefings against a real store: what a start is handed, in how many tokens, from which sessions, past which files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.daemon.agents.briefs import BRIEF_TOKENS, FACTS_READ, LONGEST_LINE_TOKENS, OPENING, Brief, Briefs, Start
from dreamd.daemon.agents.undreamt_sessions import UndreamtSessions
from dreamd.pipelines.pages import briefing
from dreamd.pipelines.stages import know_how
from dreamd.store import MemoryStore, StorePaths, estimate_tokens, okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import GLOBAL_CHANNEL, Kind, Level, Memory, NewTurn, SessionHead
from dreamd.store.settings import StoreSettings

from tests.system.waiting import until

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
EXCHANGE = (
    ("user", "hi, please look at the queue of the orders service"),
    ("assistant", "Two queues would do: Kafka and NATS JetStream. Which one do you want?"),
    (
        "user",
        "We take NATS JetStream, not Kafka, because Femi is the only one in ops and nobody can babysit ZooKeeper.",
    ),
    ("assistant", "Understood, NATS JetStream it is."),
    ("user", "And never commit to main directly here, always on a branch with a pull request."),
    ("assistant", "I'll open a branch for it."),
    ("user", "run the orders tests please"),
    ("assistant", "All 14 tests pass."),
    ("user", "thanks, bye"),
)


class World:
    """A store with what briefings are built from, on a day that moves."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.now = NOW
        self.undreamt = UndreamtSessions(store, lambda: self.now)
        self.briefs = Briefs(store, self.undreamt, lambda: self.now)

    def hear(self, session: str, turns: Sequence[tuple[str, str]] = EXCHANGE, channel: str = "orders") -> None:
        said = [NewTurn(role, text, self.now + timedelta(minutes=at)) for at, (role, text) in enumerate(turns)]
        self.store.observe(SessionHead(session, channel, title="The queue of orders"), said).result()
        self.store.settle()

    def remember(self, text: str, kind: Kind = Kind.PREFERENCE, channel: str = "orders") -> None:
        self.store.remember(text, kind=kind, channel=channel).result()
        self.store.settle()

    def brief(self, channel: str = "orders", budget_tokens: int = BRIEF_TOKENS, **start: object) -> Brief:
        return self.briefs.brief(Start(channel, **start), budget_tokens)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    paths = StorePaths(
        vault=tmp_path / "vault",
        ledger=tmp_path / "ledger.db",
        index=tmp_path / "index" / "index.db",
        embeddings=tmp_path / "index" / "embeddings.db",
        runs=tmp_path / "runs",
    )
    with contextlib.closing(MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)) as store:
        one = World(store)
        yield one
        one.undreamt.stop()


def test_the_second_session_of_a_first_day_is_briefed(world: World) -> None:
    world.hear("s1")
    assert world.brief().text == ""
    world.undreamt.judge("s1")
    found = {section.heading: " ".join(section.lines) for section in world.brief().sections}
    assert "never commit to main" in found.pop(briefing.RULES)
    ((heading, decided),) = found.items()
    assert heading == f"{briefing.LAST}, 21 Nov, “The queue of orders”"
    assert "We take NATS JetStream" in decided
    assert world.brief().nodes == ("s1#5", "s1#3")
    assert [section.nodes for section in world.brief().sections] == [("s1#5",), ("s1#3",)]
    text = world.brief().text
    assert text.startswith("<dreamd-memory id=")
    assert OPENING in text
    assert not any(words in text for words in ("run the orders", "bye", "All 14 tests", "Which one"))
    assert world.brief("another").text == ""


def test_sessions_are_judged_in_the_background_from_the_daemon_s_start_on(world: World) -> None:
    world.hear("s1")
    world.undreamt.start()
    until(lambda: "NATS" in world.brief().text)
    world.hear("s2", channel="shop")
    world.undreamt.judge_later("s2", ended=True)
    until(lambda: "NATS" in world.brief("shop").text)
    world.undreamt.judge_later("s2", ended=False)
    world.undreamt.stop()


def test_what_was_forgotten_or_read_by_a_dream_is_not_told_from_the_turns(world: World) -> None:
    world.hear("s1")
    world.undreamt.judge("s1")
    assert world.store.undreamt(world.undreamt.facts_of("orders"))
    world.store.forget("s1#3")
    assert "NATS" not in world.brief().text
    assert "never commit" in world.brief().text


def test_a_budget_holds_and_rules_come_first(world: World) -> None:
    for number in range(60):
        world.remember(f"Module {number} is always written in a folder of its own, and tested there.")
        world.remember(f"We chose the {number}th library since it is small.", Kind.DECISION)
    world.remember("long " * 200)
    brief = world.brief()
    assert BRIEF_TOKENS * 0.8 < estimate_tokens(brief.text) <= BRIEF_TOKENS
    assert [section.heading for section in brief.sections] == [briefing.RULES, briefing.DECIDED]
    assert estimate_tokens(world.brief(budget_tokens=120).text) <= 120


def test_many_notes_push_nothing_out(world: World) -> None:
    def stated() -> list[str]:
        return [
            line for section in world.brief().sections if section.heading != briefing.NOTED for line in section.lines
        ]

    world.store.remember("The currency is EUR.", channel="orders", curated=5).result()
    world.remember("Commit messages are in the imperative.")
    world.remember("Graça owns the payment service.", Kind.PERSON)
    world.remember("First staging, then production.", Kind.PROCEDURE)
    world.remember("We take Postgres, since the reports need window functions.", Kind.DECISION)
    before = stated()
    assert len(before) == 5
    for number in range(FACTS_READ + 1):
        world.store.remember(f"The soup number {number} needs {number} onions.", channel="orders").result()
    world.store.settle()
    assert stated() == before
    assert len(world.brief().lines) == len(before) + briefing.MOST_OF[briefing.NOTED]


def test_a_folder_of_notes_pushes_no_note_out_that_was_remembered(world: World) -> None:
    world.remember("Never run the migrations on a Friday.", Kind.NOTE)
    world.remember("The customs audit is on 28 Nov 2026.", Kind.NOTE)
    world.remember("The logs are in the cellar.", Kind.NOTE)
    before = world.brief()
    later = NOW + timedelta(minutes=1)
    for number in range(FACTS_READ + 1):
        text, title = f"# Recipe {number}\n\nThe soup number {number} needs carrots.", f"Recipe {number}"
        world.store.take_note(text, kind=Kind.NOTE, channel="orders", tags=(), title=title, created_at=later).result()
    world.store.settle()
    assert len(before.lines) == 3
    assert world.brief().sections == before.sections


def test_a_line_of_every_envelope_is_told_at_any_length_that_is_taken(world: World) -> None:
    text = "Never run the migrations on a Friday, for nobody mends on a Saturday what they break. "
    text = f"{text * 3}Ask Graça first."
    assert estimate_tokens(text) > LONGEST_LINE_TOKENS
    world.store.remember(text, channel="orders", curated=5).result()
    world.store.settle()
    assert text in world.brief().text


def test_rules_of_the_person_everywhere_hold_in_each_project(world: World) -> None:
    world.remember("Answers are short, please.", channel=GLOBAL_CHANNEL)
    world.remember("The other project uses tabs.", channel="other")
    (line,) = world.brief().lines
    assert line.endswith(": “Answers are short, please.”")


def test_a_day_ahead_comes_with_the_days_left_until_it_is_over(world: World) -> None:
    world.hear("s1", [("user", "Customs audit on 28 Nov, the auditor wants the event history per parcel as pdf.")])
    world.undreamt.judge("s1")
    assert "- 28 Nov, in 7 days: “Customs audit" in world.brief().text
    world.now = datetime(2026, 11, 27, 8, tzinfo=UTC)
    assert "- 28 Nov, tomorrow: “" in world.brief().text
    world.now = datetime(2026, 11, 29, 8, tzinfo=UTC)
    assert world.brief().text == ""


def test_what_the_program_s_own_files_say_is_not_said_again(world: World, tmp_path: Path) -> None:
    world.hear("s1")
    world.undreamt.judge("s1")
    (tmp_path / "CLAUDE.md").write_text(
        "# Rules\n\nNever commit to main directly, always on a branch with a pull request.\n"
    )
    ours = world.brief(agent="claude-code", folder=str(tmp_path)).text
    assert "never commit" not in ours
    assert "NATS" in ours
    assert "never commit" in world.brief(agent="codex", folder=str(tmp_path)).text


def test_a_session_that_goes_on_is_told_what_others_said_meanwhile(world: World) -> None:
    world.hear("s1")
    world.undreamt.judge("s1")
    assert world.brief(session_id="mine", since=NOW + timedelta(hours=1)).text == ""
    given = world.brief(session_id="mine").lines
    assert world.brief(session_id="mine", given=given).text == ""
    assert "NATS" in world.brief(session_id="mine", since=NOW - timedelta(hours=1)).text
    assert world.brief(session_id="s1", since=NOW - timedelta(hours=1)).text == ""


def test_a_briefing_names_the_commands_that_worked_here(world: World) -> None:
    page = Memory(
        node_id="abcdefghijklm",
        level=Level.SCENARIO,
        kind=Kind.PROCEDURE,
        title=know_how.TITLE,
        text="- `make test`: worked in 4 sessions [^t1]\n- `make lint`: worked in 2 sessions [^t2]",
        channel="orders",
    )
    file = world.store.paths.vault / okf.path_for(page.level, page.title, page.node_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(okf.from_memory(page))
    world.store.reconcile()
    world.store.settle()
    brief = world.brief()
    assert brief.text.endswith("Commands that worked here:\n- `make test`, `make lint`</dreamd-memory>")
    assert world.brief(given=brief.lines).text == ""


def write_fact(
    world: World, text: str, kind: Kind = Kind.PREFERENCE, channel: str = "orders", at: datetime = NOW, **more: object
) -> Memory:
    fact = Memory(
        node_id=okf.fact_id(channel, text),
        level=Level.FACT,
        kind=kind,
        title=text,
        text=text,
        channel=channel,
        created_at=at,
        sources=(f"{channel}#1",),
        extra={"worth": 0.9, "reply": "new", **more},
    )
    file = world.store.paths.vault / okf.path_for(fact.level, fact.title, fact.node_id)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(okf.from_memory(fact))
    world.store.reconcile()
    world.store.settle()
    return fact


def test_a_value_that_the_code_contradicts_is_not_handed_over(world: World, tmp_path: Path) -> None:
    place = {"value": "8087", "path": "conf/service.toml", "line": 'listen = "…"'}
    fact = write_fact(world, "Always reach the service on port 8087.", held_at=[place])
    code = tmp_path / "code" / "conf" / "service.toml"
    code.parent.mkdir(parents=True)
    folder = str(tmp_path / "code")
    code.write_text('[server]\nlisten = "8087"\n')
    assert "8087" in world.brief(folder=folder).text
    code.write_text('[server]\nlisten = "8190"\n')
    assert world.brief(folder=folder).text == ""
    assert "8087" in world.brief(folder=str(tmp_path)).text  # another folder says nothing of it
    (hit,) = world.store.code.looked_up(world.store.recall("port of the service", channel="orders").hits, folder)
    assert (hit.node_id, hit.stale_after) == (fact.node_id, NOW)
    code.write_text("[server]\n")  # the line is gone, perhaps moved: a dream looks for it
    assert "8087" in world.brief(folder=folder).text
    assert world.store.code.changed([fact.node_id], folder) == set()


def test_a_role_that_was_handed_on_in_another_project_is_not_told_here(world: World) -> None:
    write_fact(world, "lotte is the product owner, so scope questions to lotte", Kind.PERSON)
    assert "lotte" in world.brief().text
    later = NOW + timedelta(days=3)
    write_fact(
        world,
        "lotte moved to billing, bisi is the product owner now, so scope questions to bisi",
        Kind.PERSON,
        "b",
        later,
    )
    assert world.brief().text == ""
