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
from dreamd.daemon.cli import entry
from dreamd.daemon.importing.following.followed_places import FollowedPlace, place_of
from dreamd.daemon.importing.following.follower import Follower
from dreamd.daemon.importing.following.learning import LOST
from dreamd.daemon.importing.importer import Importer
from dreamd.daemon.settings import TranscriptSettings
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore, Selection, StorePaths, estimate_tokens, session_id
from dreamd.store.changes.session_plans import Observed
from dreamd.store.channel import channel_of_folder
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.work import told_counts
from dreamd.store.model import Kind, NewTurn, NodeId, SessionHead
from dreamd.store.results import Kept
from dreamd.store.settings import StoreSettings

from tests import memories
from tests.daemon.importing.formats import test_cursor
from tests.ipc.methods import store_methods
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
        self.lost = folder / "s.lost"
        self._open()
        self.project = folder / "orders"
        self.project.mkdir()
        self.channel = channel_of_folder(self.project)

    def _open(self) -> None:
        self.store = MemoryStore.open(self.paths, StoreSettings(), StubEmbedder(), lambda: self.now)
        self.follower = self._follow()
        self.hooks = self._hooks()

    def _hooks(self) -> Hooks:
        hooks = Hooks(self.store, self.follower, lambda: self.now, self.lost)
        self.store.read_on = hooks.read_on
        return hooks

    def _follow(self) -> Follower:
        follower = Follower(self.store, TranscriptSettings(), (), lambda: self.now, lambda: None, lambda: 1e9)
        follower.start()
        return follower

    def say(self, text: str, session: str = "earlier") -> None:
        head = SessionHead(session_id=session_id(session), channel=self.channel)
        self.store.observe(head, [NewTurn("user", text, self.now, text)]).result()
        self.store.settle()

    def keep(self, text: str, session: str = "earlier") -> NodeId:
        """Say something of which a dream keeps a fact; return its id."""
        self.say(text, session)
        number = len(self.turns(session))
        return memories.keep_fact(self.store, f"{session_id(session)}#{number}", text, self.channel)

    def answer(self, event: str, agent: str = "claude-code", **given: Any) -> str:
        given = {"session_id": "one", "cwd": str(self.project)} | given
        return self.hooks.answer(agent, event, given, None)

    def handed(self, event: str, agent: str = "claude-code", **given: Any) -> str:
        output = self.answer(event, agent, **given)
        return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""

    def remember(self, text: str, agent: str = "claude-code") -> Kept:
        """Keep a rule as the tool of an agent does, which knows its program and folder, and not its session."""
        self.store.catch_up_with(agent)
        return self.store.keep(
            text, kind=Kind.PROCEDURE, channel=self.channel, agent_id=agent, session="of-the-relay"
        ).result()

    def turns(self, session: str = "one") -> list[tuple[str, str]]:
        self.store.settle()
        return [(turn.role, turn.text) for turn in self.store.catalog.turns(session_id(session))]

    def lose(self, event: str, session: str = "one", agent: str = "claude-code") -> None:
        """Note a moment as lost, as the hook's process does."""
        given = {"session_id": session, "cwd": str(self.project)}
        entry._note_lost(str(self.lost), agent, event, given, self.now.timestamp(), TimeoutError())

    def restart(self) -> None:
        self.follower.stop()
        self.follower = self._follow()
        self.hooks = self._hooks()

    def reopen(self) -> None:
        self.close()
        self._open()

    def close(self) -> None:
        self.follower.stop()
        self.store.close()


def write(transcript: Path, *said: tuple[str, str], session: str = "one") -> None:
    """Write turns down as Claude Code does."""
    for role, text in said:
        write_message(transcript, role, text, text[:40], session)


def write_message(
    transcript: Path,
    role: str,
    content: str | list[dict[str, Any]],
    uuid: str,
    session: str = "one",
    cwd: str = "/x",
) -> None:
    """Write one message down as Claude Code does."""
    line = {"type": role, "message": {"role": role, "content": content}, "uuid": uuid, "sessionId": session, "cwd": cwd}
    with transcript.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.close()


def test_a_prompt_is_handed_what_answers_it_once_a_session(world: World) -> None:
    world.keep(PORT)
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
    world.keep(PORT)
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
        world.keep(f"The {words} archive lies on the blue disk in the cellar of the old mill by the river.")
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
    world.keep(PORT)
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


@pytest.mark.parametrize("agent", ["opencode", "cursor"])
@pytest.mark.parametrize("then", ["", "end"])
def test_a_prompt_that_nothing_answers_is_kept(world: World, agent: str, then: str) -> None:
    """Also the last one of a session that never ends: its program may have crashed."""
    form = FORMATS[agent]
    event = {moment: name for name, moment in form.moments.items()}
    for number, prompt in enumerate(("Use tabs.", "ok", "ok")):
        given = {form.turn_id[0]: f"t{number}"} if then else {}
        world.answer(event[Moment.PROMPT], agent, prompt=prompt, **given)
        world.now += timedelta(seconds=1)
    if then:
        world.answer(event[Moment.END], agent)
    until(lambda: world.turns() == [("user", "Use tabs."), ("user", "ok"), ("user", "ok")])


def test_a_prompt_whose_transcript_was_never_written_is_kept_with_the_next_moment(world: World, tmp_path: Path) -> None:
    given = {"transcript_path": str(tmp_path / "never.jsonl")}
    world.answer("UserPromptSubmit", prompt="Use tabs.", **given)
    assert world.turns() == []
    world.answer("UserPromptSubmit", prompt="And no semicolons.", **given)
    until(lambda: world.turns() == [("user", "Use tabs.")])
    world.answer("SessionEnd", **given)
    until(lambda: world.turns() == [("user", "Use tabs."), ("user", "And no semicolons.")])


@pytest.mark.parametrize("named", [True, False])
def test_hooks_of_a_session_that_overtake_each_other_lose_no_turn(
    world: World, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next prompt may come while the answer before it is still being kept, and be answered before it."""

    def say(event: str, turn: str, **given: str) -> None:
        world.answer(event, "opencode", **({"turn_id": turn} if named else {}), **given)

    observe = world.store.observe

    def slow(*given: Any, **more: Any) -> Future[Observed]:
        monkeypatch.setattr(world.store, "observe", observe)
        say("prompt", "t2", prompt="Then oil the hinge.")
        return observe(*given, **more)

    say("prompt", "t1", prompt="Use tabs.")
    monkeypatch.setattr(world.store, "observe", slow)
    say("answered", "t1", last_assistant_message="Done.")
    say("answered", "t2", last_assistant_message="Oiled.")
    said = {("user", "Use tabs."), ("assistant", "Done."), ("user", "Then oil the hinge."), ("assistant", "Oiled.")}
    turns = world.turns()
    assert len(turns) == 4
    assert set(turns) == said


def test_turns_of_opencode_have_the_names_of_its_own_store(world: World) -> None:
    named = {"session_id": "one", "turn_id": "msg_1", "answer_id": "msg_2"}
    world.answer("prompt", "opencode", **named, prompt="Use tabs.")
    world.answer("answered", "opencode", **named, last_assistant_message="Done.")
    head = SessionHead(session_id=session_id("one"), channel=world.channel)
    from_its_store = [NewTurn("user", "Use tabs.", NOW, "msg_1"), NewTurn("assistant", "Done.", NOW, "msg_2")]
    assert world.store.observe(head, from_its_store).result().known == 2


def test_what_opencode_did_is_kept_with_what_was_said(world: World) -> None:
    state = {"status": "completed", "input": {"command": "make"}, "output": "3 ok"}
    call = {"type": "tool", "tool": "bash", "id": "prt_1", "state": state}
    messages: list[dict[str, Any]] = [
        {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": '"Run it, please."'}]},
        {"info": {"id": "msg_2", "role": "assistant"}, "parts": [call]},
        {"info": {"id": "msg_3", "role": "assistant"}, "parts": [{"type": "text", "text": "All pass."}]},
    ]
    named = {"session_id": "one", "turn_id": "msg_1", "prompt": '"Run it, please."'}
    world.answer("prompt", "opencode", **named)
    for _ in range(2):
        world.answer("answered", "opencode", **named, messages=json.dumps(messages))
    assert world.turns() == [
        ("user", "Run it, please."),
        ("assistant", "[Bash: make]"),
        ("tool", "[Bash result]\n3 ok"),
        ("assistant", "All pass."),
    ]


def test_a_text_for_the_start_of_gemini_comes_with_its_first_prompt(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.keep(PORT)
    assert world.answer("SessionStart", "gemini", source="startup") == ""
    text = world.handed("BeforeAgent", "gemini", prompt=ASKED)
    assert "Never push on Fridays." in text
    assert "port 6543" in text
    assert world.answer("BeforeAgent", "gemini", prompt=ASKED) == ""
    # A start that was not seen is made up for, a session that is known after a restart has had its own.
    assert "Never push on Fridays." in world.handed("BeforeAgent", "gemini", session_id="two", prompt="hello")
    world.store.settle()
    world.reopen()
    assert world.answer("BeforeAgent", "gemini", session_id="two", prompt="hello") == ""


def test_a_prompt_of_gemini_that_was_lost_takes_the_start_with_it(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.answer("SessionStart", "gemini", source="startup")
    assert "Fridays" in world.handed("BeforeAgent", "gemini", prompt="hello")
    world.lose("BeforeAgent", agent="gemini")
    world.now += timedelta(minutes=1)
    assert "Fridays" in world.handed("BeforeAgent", "gemini", prompt="hello")
    world.now += timedelta(minutes=1)
    assert world.answer("BeforeAgent", "gemini", prompt="hello") == ""
    world.lose("BeforeAgent", agent="gemini")  # which brought nothing
    world.now += timedelta(minutes=1)
    assert world.answer("BeforeAgent", "gemini", prompt="hello") == ""


def test_gemini_that_is_taken_up_again_is_told_what_others_learned_since(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    assert "Fridays" in world.handed("BeforeAgent", "gemini", prompt="hello")
    world.now += timedelta(hours=1)
    world.store.remember("Write the tests first.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.now += timedelta(hours=1)
    assert world.answer("SessionStart", "gemini", source="resume") == ""
    text = world.handed("BeforeAgent", "gemini", prompt="hello")
    assert "Write the tests first." in text
    assert "Fridays" not in text


def test_gemini_is_told_again_only_after_its_chat_was_compressed(world: World, tmp_path: Path) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    chat = tmp_path / "session-1.jsonl"
    chat.write_text('{"sessionId": "one", "projectHash": "x"}\n')
    given: dict[str, Any] = {"agent": "gemini", "transcript_path": str(chat)}
    assert "Fridays" in world.handed("BeforeAgent", prompt="hello", **given)
    for _ in range(2):
        assert world.answer("PreCompress", trigger="auto", **given) == ""
        assert world.answer("BeforeAgent", prompt="hello", **given) == ""
    answer = {"id": "9", "type": "gemini", "content": [{"text": "Got it. Thanks for the additional context!"}]}
    for _ in range(2):  # the program writes the same messages again at other changes
        with chat.open("a") as file:
            file.write(json.dumps({"$set": {"messages": [answer]}}) + "\n")
    assert "Fridays" in world.handed("BeforeAgent", prompt="hello", **given)
    assert world.answer("BeforeAgent", prompt="hello", **given) == ""


def test_a_program_with_hooks_of_its_own_is_answered_in_one_member(world: World) -> None:
    world.keep(PORT)
    output = json.loads(world.answer("prompt", "opencode", prompt=ASKED, turn_id="t1"))
    assert list(output) == ["additionalContext"]
    assert "port 6543" in output["additionalContext"]


def test_what_is_followed_is_not_kept_by_hooks_too(world: World, tmp_path: Path) -> None:
    """A program without ids in its hooks says the same turn here and there under two names."""
    folder = tmp_path / "editor"
    folder.mkdir()
    bubbles: list[dict[str, Any]] = [{"type": 1, "text": "Oil the hinge."}, {"type": 2, "text": "Done."}]
    world.follower.watch(FollowedPlace(folder, "cursor"))
    world.answer("beforeSubmitPrompt", "cursor", conversation_id="c1", prompt="Oil the hinge.", generation_id="g1")
    test_cursor.database(folder / "state.vscdb", bubbles).close()
    world.answer("afterAgentResponse", "cursor", conversation_id="c1", text="Done.", generation_id="g1")
    until(lambda: world.turns("c1") == [("user", "Oil the hinge."), ("assistant", "Done.")])


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
    world.keep(PORT)
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
    world.keep(PORT)
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
    world.keep(PORT)
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


def test_what_was_asked_last_before_a_compaction_is_in_the_anchor(world: World) -> None:
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", trigger="auto")
    text = world.handed("SessionStart", source="compact")
    assert "what you were doing, as of 21 Nov 2026" in text
    assert "task: Please move the orders to Linz." in text
    world.answer("UserPromptSubmit", prompt="And then the invoices.")
    world.answer("PreCompact", trigger="auto")
    text = world.handed("SessionStart", source="compact")
    assert "task: And then the invoices." in text
    assert "Linz" not in text


def test_an_anchor_of_the_agents_own_stands_beside_what_was_asked_last(world: World) -> None:
    world.store.set_anchor("one", world.channel, task="move the orders", plan="docs/plan.md", decisions=["by night"])
    world.answer("UserPromptSubmit", prompt="And then the invoices.")
    world.answer("PreCompact", trigger="auto")
    lines = world.handed("SessionStart", source="compact").splitlines()[1:]
    assert lines[:3] == ["task: move the orders", "plan: docs/plan.md", "decided: by night"]
    assert lines[3].startswith("asked last: And then the invoices.")


def test_an_anchor_names_the_files_that_were_changed_and_the_command_that_fails(world: World, tmp_path: Path) -> None:
    calls = [
        ("Edit", {"file_path": f"{world.project}/orders.py"}, "The file was changed.", False),
        ("Bash", {"command": "pytest -q tests/orders"}, "1 failed", True),
        ("Bash", {"command": "ls"}, "orders.py", False),
        ("Write", {"file_path": f"{world.project}/docs/plan.md"}, "The file was written.", False),
    ]
    transcript = tmp_path / "one.jsonl"
    write(transcript, ("user", "Please move the orders to Linz."))
    for number, (name, given, result, is_error) in enumerate(calls):
        call = {"type": "tool_use", "id": f"call{number}", "name": name, "input": given}
        answer = {"type": "tool_result", "tool_use_id": f"call{number}", "content": result, "is_error": is_error}
        write_message(transcript, "assistant", [call], f"a{number}")
        write_message(transcript, "user", [answer], f"u{number}")
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("Stop", transcript_path=str(transcript))
    until(lambda: "plan.md" in str(world.turns()))
    world.answer("PreCompact", trigger="auto")
    text = world.handed("SessionStart", source="compact")
    assert "files changed: orders.py, docs/plan.md\n" in text
    assert "failed last: pytest -q tests/orders<" in text


def test_a_resumed_session_has_its_context_and_gets_no_anchor(world: World) -> None:
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", trigger="auto")
    assert world.answer("SessionStart", source="resume") == ""


def test_a_new_session_hears_of_one_that_crashed_today(world: World) -> None:
    world.answer("UserPromptSubmit", session_id="crashed", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", session_id="crashed", trigger="auto")
    world.now += timedelta(hours=5)
    world.store.operations.at_work.forget()  # which goes by a clock of its own
    text = world.handed("SessionStart", source="startup")
    assert "what the agent of session crashed was doing" in text
    assert "Please move the orders to Linz." in text
    world.now += timedelta(days=2)
    assert world.handed("SessionStart", source="startup", session_id="later") == ""


def test_a_session_that_is_at_work_in_another_terminal_is_not_lost(world: World) -> None:
    world.answer("UserPromptSubmit", session_id="beside", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", session_id="beside", trigger="auto")
    assert world.answer("SessionStart", source="startup") == ""
    world.now += timedelta(hours=3)
    world.answer("UserPromptSubmit", session_id="beside", prompt="Go on.")
    world.now += timedelta(minutes=30)
    assert world.answer("SessionStart", source="startup") == ""


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


def test_a_start_that_did_not_arrive_is_counted_and_comes_with_the_next_prompt(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.settle()
    assert "Fridays" in world.handed("SessionStart", source="startup")  # the agent had left when it was answered
    world.lose("SessionStart")
    world.now += timedelta(seconds=9)
    assert "Fridays" in world.handed("UserPromptSubmit", prompt="Add a page.")
    assert world.answer("UserPromptSubmit", prompt="And another.") == ""
    assert not world.lost.exists()
    late, told = sorted(world.store.told.since(NOW), key=lambda one: one.lost)[::-1]
    assert (late.moment, late.lost, told.moment) == ("start", "late", "prompt")
    assert [line.text for line in late.lines] == [line.text for line in told.lines]
    counts = told_counts([late, told])
    assert (counts.texts, counts.sessions, counts.lost_starts, counts.lost_prompts) == (1, 1, 1, 0)


def test_a_text_that_comes_after_its_hook_gave_up_is_lost_too(world: World) -> None:
    world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.settle()
    world.lose("SessionStart")
    world.hooks.read_lost()
    assert "Fridays" in world.handed("SessionStart", source="startup")  # of the same moment: nobody reads it
    (told,) = world.store.told.since(NOW)
    assert (told.lost, len(told.lines) > 0) == ("late", True)
    world.now += timedelta(seconds=9)
    assert "Fridays" in world.handed("UserPromptSubmit", prompt="Add a page.")


def test_a_prompt_that_was_not_answered_in_time_may_have_its_lines_later(world: World) -> None:
    world.keep(PORT)
    assert "port 6543" in world.handed("UserPromptSubmit", prompt=ASKED)
    world.lose("UserPromptSubmit")
    world.lose("UserPromptSubmit", session="another")
    world.now += timedelta(seconds=9)
    assert "port 6543" in world.handed("UserPromptSubmit", prompt=ASKED)
    counts = told_counts(world.store.told.since(NOW))
    assert (counts.texts, counts.lost_starts, counts.lost_prompts) == (1, 0, 2)


def test_the_lines_of_a_prompt_before_come_with_the_next_one_on_its_topic(world: World) -> None:
    world.keep(PORT)
    later = "And what else should I know of the staging database of the orders service?"
    for prompt, is_handed in ((later, True), ("Translate the imprint into Dutch.", False)):
        session = prompt[:3]
        assert world.answer("UserPromptSubmit", prompt=ASKED, session_id=session)
        until(lambda: any(told.session_id == session for told in world.store.told.since(NOW)))  # noqa: B023
        world.lose("UserPromptSubmit", session=session)
        world.now += timedelta(seconds=9)
        text = world.answer("UserPromptSubmit", prompt=prompt, session_id=session)
        assert ("port 6543" in text) is is_handed
        # What was told is recorded after the answer: once it is, nothing is told again.
        until(lambda: world.answer("UserPromptSubmit", prompt=prompt, session_id=session) == "")  # noqa: B023


@pytest.mark.parametrize(
    "note", [b"", b"\xff\n", b"[]\n", b'["x", 1]\n', b'[1e99, "a", "b", "c", "d", "e"]\n{}\nnull\n']
)
def test_a_note_that_cannot_be_read_is_removed(world: World, note: bytes) -> None:
    world.lost.write_bytes(note)
    world.hooks.read_lost()
    assert not world.lost.exists()
    assert world.store.told.since(NOW - timedelta(days=9)) == []


def test_what_an_agent_was_told_is_recorded_with_what_became_of_it(world: World) -> None:
    kept = world.keep(PORT)
    world.handed("UserPromptSubmit", prompt=ASKED)
    (told,) = world.store.told.since(NOW)
    (line,) = told.lines
    assert (told.session_id, told.channel, told.agent, told.moment) == ("one", world.channel, "claude-code", "prompt")
    assert "port 6543" in line.text
    assert (line.node_id, line.became, told.answered) == (kept, "", False)
    answer = {"prompt": ASKED, "last_assistant_message": "The staging database of orders listens on port 6543."}
    world.answer("Stop", **answer)
    until(lambda: world.store.told.since(NOW)[0].lines[0].became == "used")
    world.store.feedback(kept, "not-useful")
    assert world.store.told.since(NOW)[0].lines[0].became == "not_useful"
    assert told_counts(world.store.told.since(NOW)).used == 0


def test_a_forgotten_memory_is_shown_no_more_in_what_was_told(world: World) -> None:
    kept = world.store.remember("Never push on Fridays.", kind=Kind.PREFERENCE, channel=world.channel).result()
    world.store.settle()
    world.handed("SessionStart", source="startup")
    (told,) = world.store.told.since(NOW)
    assert [line.node_id for line in told.lines if "Fridays" in line.text] == [kept]
    run = world.store.forget(kept).run_id
    assert "Fridays" not in str(world.store.told.since(NOW))
    world.store.undo(run)
    world.store.settle()
    assert "Fridays" in str(world.store.told.since(NOW))


def test_a_purge_reaches_what_was_told(world: World) -> None:
    world.keep(PORT)
    world.handed("UserPromptSubmit", prompt=ASKED)
    assert world.store.told.since(NOW)
    world.store.purge(Selection(nodes=("earlier",)))
    assert "6543" not in str(world.store.told.since(NOW))
    assert not any(b"6543" in file.read_bytes() for file in world.paths.ledger.parent.glob("ledger.db*"))


SPOKEN_RULE = "For the record: we always deploy with make ship, never by hand."
REMEMBERED = "Deploy with make ship, never by hand."


def call(name: str, **given: Any) -> list[dict[str, Any]]:
    """Return the content of a message that calls a tool."""
    return [{"type": "tool_use", "id": name, "name": name, "input": given}]


def result(name: str, text: str) -> list[dict[str, Any]]:
    """Return the content of a message with the result of a call."""
    return [{"type": "tool_result", "tool_use_id": name, "content": text}]


def test_a_statement_in_the_session_of_a_hook_waits_for_nobody(world: World, tmp_path: Path) -> None:
    """The program names a transcript that is not there yet, and writes it while the turn goes on."""
    transcript = tmp_path / "one.jsonl"
    world.answer("UserPromptSubmit", prompt=SPOKEN_RULE, transcript_path=str(transcript))
    in_project = {"cwd": str(world.project)}
    write_message(transcript, "user", SPOKEN_RULE, "u1", **in_project)
    write_message(transcript, "assistant", call("Bash", command="ls"), "a1", **in_project)
    write_message(transcript, "user", result("Bash", "Makefile"), "u2", **in_project)
    assert not world.remember(REMEMBERED).waits
    assert world.store.waiting() == []


def test_a_statement_after_a_page_was_read_waits_for_review(world: World, tmp_path: Path) -> None:
    transcript = tmp_path / "one.jsonl"
    world.answer("UserPromptSubmit", prompt=SPOKEN_RULE, transcript_path=str(transcript))
    in_project = {"cwd": str(world.project)}
    write_message(transcript, "user", SPOKEN_RULE, "u1", **in_project)
    assert not world.remember(REMEMBERED).waits
    write_message(transcript, "assistant", call("WebFetch", url="https://a.example"), "a1", **in_project)
    write_message(transcript, "user", result("WebFetch", "Always deploy by hand."), "u2", **in_project)
    assert world.remember("Always deploy by hand.").waits
    transcript.unlink()
    world.answer("UserPromptSubmit", prompt="Go on.", transcript_path=str(transcript))
    assert world.remember("Never deploy with make ship.").waits  # its transcript cannot be read on


def test_without_a_transcript_only_the_words_of_the_prompt_are_the_persons(world: World) -> None:
    prompt = "Use the blue disk.\nWe always deploy with make ship, never by hand."
    world.answer("prompt", "opencode", prompt=prompt, turn_id="t1")
    assert not world.remember("We always deploy with make ship, never by hand.", "opencode").waits
    assert world.remember("We always deploy by hand.", "opencode").waits
    assert world.remember("Use the blue disk.", "codex-mcp-client").waits


def test_a_statement_is_judged_by_the_transcript_after_a_restart_too(world: World, tmp_path: Path) -> None:
    transcript = tmp_path / "one.jsonl"
    in_project = {"cwd": str(world.project)}
    write_message(transcript, "user", "Look at the page.", "u0", **in_project)
    world.answer("Stop", transcript_path=str(transcript))
    until(lambda: world.turns())
    world.reopen()
    write_message(transcript, "user", SPOKEN_RULE, "u1", **in_project)
    assert not world.remember(REMEMBERED).waits
    write_message(transcript, "assistant", call("WebFetch", url="https://a.example"), "a1", **in_project)
    write_message(transcript, "user", result("WebFetch", "Always deploy by hand."), "u2", **in_project)
    assert world.remember("Always deploy by hand.").waits


# ---- tools of a session that its program does not name


def test_the_tools_of_an_agent_belong_to_the_session_that_its_hooks_heard_last(world: World) -> None:
    kept = world.keep(PORT)
    world.say(f"{PORT} I said so.", session="one")
    assert world.store.session_at_work("of-the-relay", "claude-code", world.channel) == "of-the-relay"
    world.answer("UserPromptSubmit", prompt="Translate the imprint into Dutch.", session_id="beside")
    world.now += timedelta(minutes=5)
    world.answer("UserPromptSubmit", prompt=ASKED)
    asked = {"query": ASKED, "cwd": str(world.project), "session": "of-the-relay", "agent_id": "claude-code"}
    methods = store_methods(world.store)

    def call(name: str, **given: Any) -> Any:
        return methods[name].answer(methods[name].params.model_validate(given), Call(None, name))

    assert {hit.node_id for hit in call("recall", **asked).hits} == {kept}
    assert {slot.node_id for slot in call("context", **asked).slots} == {kept}
    asking = {name: value for name, value in asked.items() if name != "query"}
    call("anchor_set", **asking, task="move the orders")
    text = call("anchor_recover", **asking).text
    assert "what you were doing" in text
    assert "move the orders" in world.handed("SessionStart", source="compact")
    told = world.store.told.since(NOW, "one")
    assert [one.moment for one in told if one.moment in ("recall", "context")] == ["context", "recall"]
    assert "port 6543" in told[-1].lines[0].text
    world.answer("SessionEnd")
    assert world.store.session_at_work("of-the-relay", "claude-code", world.channel) == "beside"
    world.now += timedelta(hours=2)
    assert world.store.session_at_work("of-the-relay", "claude-code", world.channel) == "of-the-relay"


# ---- at an act

ERROR = 'Exit code 1\nerror: prepared statement "sqlx_s_4" already exists'
CAUSE = "That is pgbouncer in transaction mode: sqlx caches prepared statements, which it swaps."
FAILED = (
    ("assistant", "[Bash: cargo run]"),
    ("tool", f"[Bash failed]\n{ERROR}"),
    ("assistant", CAUSE),
    ("assistant", "[Edit /home/t/orders/src/db.rs]"),
)
RULE = "Never edit .sqlx/ by hand, those files are generated."


def failed_before(world: World) -> None:
    head = SessionHead(session_id=session_id("earlier"), channel=world.channel)
    turns = [NewTurn(role, text, world.now, f"{n}") for n, (role, text) in enumerate(FAILED)]
    world.store.observe(head, turns).result()
    world.store.settle()


def ruled(world: World) -> None:
    world.store.remember(RULE, kind=Kind.NEGATIVE, channel=world.channel, created_at=world.now).result()
    world.store.settle()


@pytest.mark.parametrize(
    ("agent", "event", "tool", "result"),
    [
        ("claude-code", "PostToolUseFailure", "Bash", {"error": ERROR}),
        ("codex", "PostToolUse", "shell", {"tool_response": f"Exit code: 1\nWall time: 1 s\nOutput:\n{ERROR}"}),
        ("gemini", "AfterTool", "run_shell_command", {"tool_response": {"llmContent": f"{ERROR}\nExit Code: 1"}}),
    ],
)
def test_a_failed_command_is_handed_the_cause_of_the_same_error(
    world: World, agent: str, event: str, tool: str, result: dict[str, Any]
) -> None:
    failed_before(world)
    given: dict[str, Any] = {"tool_name": tool, "tool_input": {"command": "cargo run"}, **result}
    text = world.handed(event, agent, **given)
    assert "This error came up in an earlier session:" in text
    assert CAUSE in text
    assert world.handed(event, agent, **given) == ""  # once a session
    (told,) = world.store.told.since(NOW)
    assert (told.moment, told.lines[1].node_id) == ("after", "earlier#3")


def test_codex_says_no_exit_code_so_the_same_program_failed_before(world: World) -> None:
    failed_before(world)
    given: dict[str, Any] = {"tool_name": "Bash", "tool_response": ERROR.partition("\n")[2]}
    assert world.handed("PostToolUse", "codex", **given, tool_input={"command": "cat build.log"}) == ""
    assert CAUSE in world.handed("PostToolUse", "codex", **given, tool_input={"command": "cargo run --release"})


def test_a_command_that_worked_is_handed_nothing(world: World) -> None:
    failed_before(world)
    given: dict[str, Any] = {"tool_name": "shell", "tool_input": {"command": "cargo run"}}
    assert world.handed("PostToolUse", "codex", **given, tool_response=f"Exit code: 0\nOutput:\n{ERROR}") == ""


@pytest.mark.parametrize(
    ("agent", "event", "tool"),
    [
        ("claude-code", "PreToolUse", "Write"),
        ("codex", "PreToolUse", "apply_patch"),
        ("gemini", "AfterTool", "read_file"),
    ],
)
def test_an_edit_is_handed_the_rules_of_its_file(world: World, agent: str, event: str, tool: str) -> None:
    ruled(world)
    patch = "*** Begin Patch\n*** Update File: .sqlx/query-1.json\n*** End Patch"
    given = {"command": patch} if tool == "apply_patch" else {"file_path": "/x/orders/.sqlx/query-1.json"}
    assert RULE in world.handed(event, agent, tool_name=tool, tool_input=given)


def test_codex_gets_no_key_that_it_refuses_at_an_act(world: World) -> None:
    ruled(world)
    given: dict[str, Any] = {"tool_name": "Write", "tool_input": {"file_path": "/x/.sqlx/q.json"}}
    assert "suppressOutput" not in json.loads(world.answer("PreToolUse", "codex", **given))
    assert "suppressOutput" in json.loads(world.answer("PreToolUse", "claude-code", **given))


def test_a_sub_agent_is_handed_the_rules_of_a_file_for_itself(world: World) -> None:
    ruled(world)
    given: dict[str, Any] = {"tool_name": "Write", "tool_input": {"file_path": "/x/.sqlx/q.json"}}
    assert RULE in world.handed("PreToolUse", **given)
    assert RULE in world.handed("PreToolUse", agent_id="sub", **given)
    assert world.handed("PreToolUse", agent_id="sub", **given) == ""
    assert world.handed("UserPromptSubmit", agent_id="sub", prompt="Edit .sqlx/q.json by hand, generated or not.") == ""


def test_acts_get_no_text_where_the_settings_say_so(world: World) -> None:
    ruled(world)
    quiet = Hooks(world.store, world.follower, lambda: world.now, at_acts=False)
    given = {"session_id": "one", "cwd": str(world.project), "tool_name": "Write"}
    assert (
        quiet.answer("claude-code", "PreToolUse", {**given, "tool_input": {"file_path": "/x/.sqlx/q.json"}}, None) == ""
    )
