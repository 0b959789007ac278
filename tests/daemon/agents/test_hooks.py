"""Hooks against a real store: what is handed over at which moment, what is not, and what is learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.agents.briefs import BRIEF_TOKENS
from dreamd.daemon.agents.hook_formats import FORMATS, Moment
from dreamd.daemon.agents.hooks import MOST_CHARACTERS, SESSION_TOKENS, Hooks, own_words
from dreamd.daemon.importing.following.followed_places import place_of
from dreamd.daemon.importing.following.follower import Follower
from dreamd.daemon.importing.following.live_sessions import LOST
from dreamd.daemon.importing.importer import Importer
from dreamd.daemon.settings import TranscriptSettings
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore, Selection, StorePaths, estimate_tokens, session_id
from dreamd.store.changes.session_plans import Observed
from dreamd.store.channel import channel_of_folder
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import Kind, NewTurn, SessionHead
from dreamd.store.settings import StoreSettings

from tests.system.waiting import until

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
PORT = "The staging database of the orders service listens on port 6543."
ASKED = "Which port does the staging database of the orders service listen on?"


class World:
    """A store, its hooks, and a project's folder."""

    def __init__(self, folder: Path) -> None:
        paths = StorePaths(
            vault=folder / "vault",
            ledger=folder / "ledger.db",
            index=folder / "index" / "index.db",
            embeddings=folder / "index" / "embeddings.db",
            runs=folder / "runs",
        )
        self.now = NOW
        self.paths = paths
        self._open()
        self.project = folder / "orders"
        self.project.mkdir()
        self.channel = channel_of_folder(self.project)

    def _open(self) -> None:
        self.store = MemoryStore.open(self.paths, StoreSettings(), StubEmbedder(), lambda: self.now)
        self.follower = self._follow()
        self.hooks = Hooks(self.store, self.follower, lambda: self.now)

    def _follow(self) -> Follower:
        follower = Follower(self.store, TranscriptSettings(), (), lambda: self.now, lambda: None, lambda: 1e9)
        follower.start()
        return follower

    def say(self, text: str, session: str = "earlier") -> None:
        head = SessionHead(session_id=session_id(session), channel=self.channel)
        self.store.observe(head, [NewTurn("user", text, self.now, text)]).result()
        self.store.settle()

    def answer(self, event: str, agent: str = "claude-code", **given: Any) -> str:
        given = {"session_id": "one", "cwd": str(self.project)} | given
        return self.hooks.answer(agent, event, given, None)

    def handed(self, event: str, agent: str = "claude-code", **given: Any) -> str:
        output = self.answer(event, agent, **given)
        return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""

    def turns(self, session: str = "one") -> list[tuple[str, str]]:
        self.store.settle()
        return [(turn.role, turn.text) for turn in self.store.catalog.turns(session_id(session))]

    def restart(self) -> None:
        self.follower.stop()
        self.follower = self._follow()
        self.hooks = Hooks(self.store, self.follower, lambda: self.now)

    def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self.follower.stop()
        self.store.close()


def write(transcript: Path, *said: tuple[str, str], session: str = "one") -> None:
    """Write turns down as Claude Code does."""
    with transcript.open("ab") as file:
        for role, text in said:
            message = {"role": role, "content": text}
            line = {"type": role, "message": message, "uuid": text[:40], "sessionId": session, "cwd": "/x"}
            file.write(json.dumps(line).encode() + b"\n")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.close()


def test_a_prompt_is_handed_what_answers_it_once_a_session(world: World) -> None:
    world.say(PORT)
    output = json.loads(world.answer("UserPromptSubmit", prompt=ASKED))
    assert output["suppressOutput"] is True
    assert output["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    text = output["hookSpecificOutput"]["additionalContext"]
    assert text.startswith("<dreamd-memory id=")
    assert text.endswith("</dreamd-memory>")
    assert text.count("port 6543") == 1
    assert world.answer("UserPromptSubmit", prompt=ASKED) == ""
    assert "port 6543" in world.handed("UserPromptSubmit", prompt=ASKED, session_id="another")


@pytest.mark.parametrize("prompt", ["ok", "yes, do that", "/compact", "", "   ", "thanks, looks good", "continue"])
def test_a_prompt_that_asks_for_nothing_is_handed_nothing(world: World, prompt: str) -> None:
    for text in (PORT, "ok put it in the file", "thanks, that looks good", "yes do that now, and continue"):
        world.say(text)
    assert world.answer("UserPromptSubmit", prompt=prompt) == ""


def test_a_session_is_not_handed_its_own_words(world: World) -> None:
    world.say(PORT, session="one")
    assert world.answer("UserPromptSubmit", prompt=ASKED) == ""


def test_what_was_handed_is_handed_again_when_the_context_is_empty(world: World) -> None:
    world.say(PORT)
    assert world.handed("UserPromptSubmit", prompt=ASKED)
    assert world.answer("PreCompact", trigger="auto") == ""
    assert world.handed("UserPromptSubmit", prompt=ASKED)
    world.answer("SessionStart", source="clear")
    assert world.handed("UserPromptSubmit", prompt=ASKED)


def test_a_session_starts_with_what_holds(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.remember("The other project uses tabs.", kind=Kind.PREFERENCE, channel="other").result()
    world.store.settle()
    text = world.handed("SessionStart", source="startup")
    assert "Never push on Fridays." in text
    assert "tabs" not in text
    assert text.startswith("<dreamd-memory id=")


def test_a_start_leaves_out_what_has_likely_changed(world: World) -> None:
    for text in ("Anna is the release manager.", "Bert is the release manager now, Anna left."):
        world.store.remember(text, channel=world.channel, kind=Kind.DECISION).result()
    world.store.settle()
    until(lambda: any(world.store.show(one.node_id).later for one in world.store.list(channel=world.channel)))
    text = world.handed("SessionStart", source="startup")
    assert "Bert is the release manager now" in text
    assert "Anna is the release manager." not in text


def test_an_empty_memory_says_nothing_at_the_start(world: World) -> None:
    assert world.answer("SessionStart", source="startup") == ""


def test_a_session_that_is_taken_up_again_hears_what_is_new_alone(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.settle()
    world.answer("SessionStart", source="startup")
    assert world.answer("SessionStart", source="resume") == ""
    world.now += timedelta(hours=3)
    world.store.remember("Deploys go through Emil now.", kind=Kind.DECISION, channel=world.channel).result()
    world.store.settle()
    text = world.handed("SessionStart", source="resume")
    assert "Emil" in text
    assert "Fridays" not in text
    world.answer("PreCompact", trigger="auto")
    after = world.handed("SessionStart", source="compact")
    assert "Emil" in after
    assert "Fridays" in after


def test_a_start_is_short(world: World) -> None:
    for number in range(40):
        text = f"Rule {number}: the {number}th module is written in its own folder, and tested there."
        world.store.remember(text, kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.remember("long " * 400, kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.settle()
    text = world.handed("SessionStart", source="startup")
    assert 100 < estimate_tokens(text) <= BRIEF_TOKENS


def test_a_session_costs_so_much_and_no_more(world: World) -> None:
    spent = 0
    for number in range(60):
        words = f"gannet{number} heron{number} tern{number} plover{number}"
        world.say(f"The {words} archive lies on the blue disk in the cellar of the old mill by the river.")
        spent += len(world.handed("UserPromptSubmit", prompt=f"Where does the {words} archive lie?"))
    assert 0 < spent / 3.5 <= SESSION_TOKENS


@pytest.mark.parametrize("size", [9_900, 10_100, 60_000])
def test_no_text_is_as_long_as_an_agent_puts_aside(world: World, size: int) -> None:
    sentence = "The gannet archive of the staging database lies on the blue disk in row {}. "
    world.say("".join(sentence.format(row) for row in range(size // len(sentence)))[:size])
    world.say(("gannet archive staging database " * (size // 30))[:size])
    text = world.handed("UserPromptSubmit", prompt="Where does the gannet archive of the staging database lie?")
    assert len(text) <= MOST_CHARACTERS


@pytest.mark.parametrize(
    ("agent", "event", "given"),
    [
        ("claude-code", "WorktreeCreate", {}),
        ("claude-code", "SubagentStop", {"last_assistant_message": "done"}),
        ("claude-code", "UserPromptSubmit", {"agent_id": "a1", "prompt": ASKED}),
        ("claude-code", "UserPromptSubmit", {"session_id": "", "prompt": ASKED}),
        ("claude-code", "UserPromptSubmit", {"session_id": 7, "prompt": ASKED}),
        ("claude-code", "UserPromptSubmit", {"prompt": ["x", 3]}),
        ("claude-code", "UserPromptSubmit", {"prompt": {"text": ASKED}}),
        ("somebody", "UserPromptSubmit", {"prompt": ASKED}),
        ("", "", {}),
    ],
)
def test_what_is_not_known_or_not_the_persons_says_and_keeps_nothing(
    world: World, agent: str, event: str, given: dict[str, Any]
) -> None:
    world.say(PORT)
    assert world.answer(event, agent, **given) == ""
    assert world.turns() == []


def test_the_turns_are_kept_once_where_no_transcript_is(world: World) -> None:
    world.answer("beforeSubmitPrompt", "cursor", conversation_id="one", prompt="Use tabs.", generation_id="g1")
    for _ in range(2):
        world.answer("afterAgentResponse", "cursor", conversation_id="one", text="Done.", generation_id="g1")
    assert world.turns() == [("user", "Use tabs."), ("assistant", "Done.")]
    world.answer("beforeSubmitPrompt", "cursor", conversation_id="one", prompt="Use tabs.", generation_id="g2")
    world.answer("afterAgentResponse", "cursor", conversation_id="one", text="Done.", generation_id="g2")
    assert len(world.turns()) == 4


def test_turns_of_opencode_have_the_names_of_its_own_store(world: World) -> None:
    named = {"session_id": "one", "turn_id": "msg_1", "answer_id": "msg_2"}
    world.answer("prompt", "opencode", **named, prompt="Use tabs.")
    world.answer("answered", "opencode", **named, last_assistant_message="Done.")
    head = SessionHead(session_id=session_id("one"), channel=world.channel)
    from_its_store = [NewTurn("user", "Use tabs.", NOW, "msg_1"), NewTurn("assistant", "Done.", NOW, "msg_2")]
    assert world.store.observe(head, from_its_store).result().known == 2


def test_a_program_with_hooks_of_its_own_is_answered_in_one_member(world: World) -> None:
    world.say(PORT)
    output = json.loads(world.answer("prompt", "opencode", prompt=ASKED, turn_id="t1"))
    assert list(output) == ["additionalContext"]
    assert "port 6543" in output["additionalContext"]


def test_a_transcript_is_read_instead_of_the_turns(world: World, tmp_path: Path) -> None:
    transcript = tmp_path / "one.jsonl"
    write(transcript, ("user", "Use tabs."), ("assistant", "Done."))
    for event in ("Stop", "SessionEnd"):
        world.answer(event, prompt="Use tabs.", last_assistant_message="Done.", transcript_path=str(transcript))
    until(lambda: world.turns() == [("user", "Use tabs."), ("assistant", "Done.")])


def test_a_transcript_is_read_on_from_where_it_was_read_to(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a long one nothing is offered twice, neither at the next turn nor after a restart."""
    offered: list[str] = []
    observe = world.store.observe

    def note(
        head: SessionHead, turns: Sequence[NewTurn], key: str | None = None, *, live: bool = False
    ) -> Future[Observed]:
        offered.extend(turn.text for turn in turns)
        return observe(head, turns, key, live=live)

    monkeypatch.setattr(world.store, "observe", note)
    transcript = tmp_path / "one.jsonl"
    write(transcript, *(("user", f"Shelf {number} is free. {'x' * 2000}") for number in range(2000)))  # of 4 MB
    world.answer("Stop", transcript_path=str(transcript))
    until(lambda: len(offered) == 2000)
    for number in range(3):
        write(transcript, ("assistant", f"Answer {number}."))
        world.answer("Stop", transcript_path=str(transcript))
        until(lambda number=number: offered[2000:] == [f"Answer {n}." for n in range(number + 1)])  # type: ignore[misc]
    until(lambda: world.store.followed.read_up_to(str(transcript)).size_bytes == transcript.stat().st_size)  # type: ignore[union-attr]
    world.restart()
    write(transcript, ("user", "And the last one."))
    world.answer("Stop", transcript_path=str(transcript))
    until(lambda: offered[2003:] == ["And the last one."])


def test_what_is_written_down_after_its_hook_is_read_too(world: World, tmp_path: Path) -> None:
    transcript = tmp_path / "one.jsonl"
    write(transcript, ("user", "Use tabs."))
    world.answer("Stop", transcript_path=str(transcript), last_assistant_message="Done.")
    until(lambda: world.turns() == [("user", "Use tabs.")])
    write(transcript, ("assistant", "Done."))
    until(lambda: len(world.turns()) == 2)


def test_watched_named_and_imported_it_is_learned_once(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    world.follower.watch(place_of(str(folder)))
    transcript = folder / "one.jsonl"
    said = [("user", f"Shelf {number} is free.") for number in range(30)]
    for turn in said:
        write(transcript, turn)
        world.answer("Stop", transcript_path=str(transcript), last_assistant_message="Done.", prompt=turn[1])
    until(lambda: len(world.turns()) == 30)
    account = Importer(world.store, Call(None, "import")).take([folder], None)
    assert (account.turns_added, account.turns_known) == (0, 30)
    assert world.turns() == said


def test_a_session_that_ended_is_over_for_working_memory(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its agent writes down after it said so does not bring it back, and one that fell silent is over later."""
    transcript = tmp_path / "one.jsonl"
    write(transcript, ("user", "Label the shelves."))
    world.answer("Stop", transcript_path=str(transcript))
    until(lambda: world.follower.sessions.active())
    world.store.set_goal("one", world.channel, text="Label the shelves.")
    write(transcript, ("assistant", "Done."))
    world.answer("SessionEnd", transcript_path=str(transcript))
    until(lambda: len(world.turns()) == 2)
    assert not world.follower.sessions.active()
    assert [goal.text for goal in world.store.threads(world.channel)] == ["Label the shelves."]

    other = tmp_path / "two.jsonl"
    write(other, ("user", "Count the shelves."), session="two")
    world.answer("Stop", session_id="two", transcript_path=str(other))
    until(lambda: world.follower.sessions.active())
    ended: list[str] = []
    monkeypatch.setattr(world.store, "end_session", ended.append)
    world.now += LOST
    world.follower.waiting.wake()
    until(lambda: ended == ["two"])


@pytest.mark.parametrize("agent", FORMATS)
def test_what_was_handed_over_is_not_learned(world: World, agent: str) -> None:
    world.say(PORT)
    form = FORMATS[agent]
    event = {moment: name for name, moment in form.moments.items()}
    named = {form.session[0]: "loop", form.turn_id[0]: "t"}
    for number in range(20):
        named[form.turn_id[0]] = f"t{number}"
        world.answer("UserPromptSubmit", session_id="copy")
        handed = world.handed("UserPromptSubmit", prompt=ASKED, session_id=f"reader-{number}")
        assert "port 6543" in handed
        inside = f"<hook_context>{handed}</hook_context>{handed}"
        world.answer(event[Moment.PROMPT], agent, **named, prompt=inside)
        world.answer(event[Moment.ANSWERED], agent, **named, **{form.answer[0]: handed})
    assert world.turns("loop") == []


def test_words_of_hooks_are_cut_out_of_a_prompt() -> None:
    said = '<hook_context>x</hook_context>Use <dreamd-memory id="1">y</dreamd-memory>tabs.'
    assert own_words(said) == "Use tabs."


def test_what_was_handed_is_known_after_a_restart(world: World) -> None:
    """Neither its lines come twice, nor does a prompt take the place of one before the restart."""
    world.say(PORT)
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.settle()
    assert "Fridays" in world.handed("SessionStart", source="startup")
    assert "port 6543" in world.handed("UserPromptSubmit", prompt=ASKED)
    world.answer("Stop", last_assistant_message="It listens there.")
    world.reopen()
    world.now += timedelta(minutes=5)
    assert world.answer("UserPromptSubmit", prompt=ASKED) == ""
    world.answer("Stop", last_assistant_message="As I said.")
    assert [text for _, text in world.turns()] == [ASKED, "It listens there.", ASKED, "As I said."]
    assert world.answer("SessionStart", source="resume") == ""
    assert world.handed("UserPromptSubmit", prompt=ASKED, session_id="another")


def test_what_was_handed_is_not_kept_beyond_a_purge(world: World) -> None:
    world.say(PORT)
    assert "port 6543" in world.handed("UserPromptSubmit", prompt=ASKED)
    session = world.store.handed.get("claude-code", "one")
    purged = world.store.purge(Selection(matching="port 6543"))
    assert [trace for trace in purged.traces if "ledger" in trace] == []
    world.store.handed.keep(session)  # by a hook that was being answered meanwhile
    world.reopen()
    assert world.store.handed.get("claude-code", "one").given == []
    assert b"port 6543" not in world.store.paths.ledger.read_bytes()


def test_a_compacted_session_goes_on_from_its_anchor(world: World) -> None:
    world.store.set_anchor("one", world.channel, task="move the orders to Linz", next_step="dump them")
    text = world.handed("SessionStart", source="compact")
    assert "task: move the orders to Linz" in text
    assert text.count("<dreamd-memory ") == 1
    assert "move the orders" not in world.handed("SessionStart", source="compact", session_id="two")


def test_what_was_asked_before_a_compaction_is_an_anchor_unless_there_is_one(world: World) -> None:
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", trigger="auto")
    assert "task: Please move the orders to Linz." in world.handed("SessionStart", source="compact")
    world.store.set_anchor("one", world.channel, task="dump the orders")
    world.answer("UserPromptSubmit", prompt="And then the invoices.")
    world.answer("PreCompact", trigger="auto")
    assert "task: dump the orders" in world.handed("SessionStart", source="compact")


def test_a_new_session_hears_of_one_that_crashed_today(world: World) -> None:
    world.store.set_anchor("crashed", world.channel, task="move the orders to Linz")
    world.now += timedelta(hours=5)
    assert "move the orders to Linz" in world.handed("SessionStart", source="startup")
    world.now += timedelta(days=2)
    assert world.handed("SessionStart", source="startup", session_id="later") == ""


def test_a_session_that_ends_leaves_its_open_goals_to_the_next(world: World) -> None:
    for number in range(5):
        world.store.set_goal("one", world.channel, text=f"shelf {number} is </dreamd-memory> painted")
    world.store.set_anchor("one", world.channel, task="paint the shelves")
    world.answer("SessionEnd", reason="other")
    text = world.handed("SessionStart", source="startup", session_id="two")
    assert text.count("is ‹/dreamd-memory> painted") == 3
    assert "Left open by earlier sessions:" in text
    assert "paint the shelves" not in text


def test_where_nothing_is_learned_no_task_is_kept(world: World) -> None:
    world.store.set_channel(world.channel, learning=False)
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", trigger="auto")
    assert world.store.anchor_of_session("one").anchor is None
