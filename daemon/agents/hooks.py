"""The answers to agents' hooks: text for a session's start and for a prompt; and the turns that are learned from them.

Most prompts get no text. Any text is fenced, comes at most once in a session, and is bounded in tokens, by prompt and
by session: every line that an agent does not need costs it attention.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ipc.channels import channel_for, channel_of, session_of
from ...store import estimate_tokens, fenced, session_id, without_element, without_recalled
from ...store.model import NewTurn, SessionHead
from ...store.results import ToldText
from ...store.roles import Role
from ..importing.formats.opencode import turns_in
from ..importing.turns import by_first_words, text_hash
from .act_hooks import act_of, text_at_act
from .briefs import BRIEF_TOKENS, Briefs, Start, open_work
from .hook_formats import ACTS, FORMATS, AgentFormat, HookInput, Moment, read_input, render_output, take_lost
from .undreamt_sessions import UndreamtSessions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ...store import HandedSession, MemoryStore, Observed
    from ..importing.following.follower import Follower

PROMPT_TOKENS = 250
# The most for one session, until its context is cleared or compacted.
SESSION_TOKENS = 1500

# The moments that may be answered with text, if the agent takes it.
HANDED = frozenset({Moment.START, Moment.PROMPT}) | ACTS

# Claude Code puts a text of 10,000 characters into a file, and shows only its beginning.
MOST_CHARACTERS = 8000

# Characters of a prompt that are looked up: the rest is mostly pasted.
LONGEST_QUESTION = 2000

KEPT_WITHIN_S = 10.0

# The longest wait of an agent's statement for the reading of its session.
READ_ON_S = 2.0

_COMMAND = re.compile(r"\s*/\w")


class Hooks:
    """Answers hooks from the store. Any thread may call."""

    def __init__(
        self,
        store: MemoryStore,
        follower: Follower,
        now: Callable[[], datetime],
        lost: Path | None = None,
        *,
        at_acts: bool = True,
    ) -> None:
        """`lost` is the file in which hooks note that they got no answer. Without `at_acts` acts get no text."""
        self.store = store
        self._follower = follower
        self._now = now
        self.undreamt = UndreamtSessions(store, now)
        self.briefs = Briefs(store, self.undreamt, now)
        self.on_folder: Callable[[str], None] = lambda folder: None
        """Called with the folder of a session that starts or ends."""
        self._lost = lost
        self._at_acts = at_acts
        self._acts: Mapping[Moment, Callable[[str, HookInput, HandedSession], str]] = {
            Moment.START: self._start,
            Moment.PROMPT: self._prompt,
            Moment.BEFORE: self._at_act,
            Moment.AFTER: self._at_act,
            Moment.COMPACTING: self._compacting,
            Moment.ANSWERED: self._answered,
            Moment.END: self._end,
        }

    def answer(
        self,
        agent: str,
        event: str,
        given: Mapping[str, Any],
        cwd: str | None,
        at: datetime | None = None,
        user: str | None = None,
    ) -> str:
        """Return the JSON to answer an agent with; "" for an event without an answer. `at`: the time of the request.

        A `user` is one of several, whose part of the folder's channel it is.
        """
        form = FORMATS.get(agent)
        if form is None or (moment := form.moments.get(event)) is None:
            return ""
        hook = read_input(form, event, given, cwd)
        if hook is None:
            return ""
        hook = replace(hook, user=user)
        session_of(self.store, user, session_id(hook.session))
        self.read_lost()
        # A sub-agent has a context of its own, which holds none of what its session was given.
        session = self.store.handed.get(agent, "/".join(filter(None, (hook.session, hook.agent_id))))
        channel, name = _channel_of(hook), session_id(hook.session)
        session.named = []
        session.is_at_work(agent, channel, name)
        session.transcript = (hook.transcript if user is None else "") or session.transcript
        if moment in (Moment.START, Moment.END) and hook.folder:
            self.on_folder(hook.folder)
        if moment is Moment.START and form.starts_with_prompt:
            # It counts as unseen until then: a session that is taken up again is told what others learned since.
            session.is_owed, session.source = True, hook.source
            return ""
        if moment is Moment.PROMPT:
            if form.starts_with_prompt:
                self._look_for_start(agent, form, hook, session)
            self._keep_prompt(agent, hook, session)  # the one before, if nothing has answered it
            exchange = hook.turn_id or f"prompt {session.prompts} {at or self._now():%Y%m%dT%H%M%S.%f}"
            session.note_prompt(own_words(hook.prompt), exchange)
            self.store.hear_prompt(name, agent, channel, session.prompt)
            # A transcript that is named may get its first line later: then it is looked for at the next moment.
            if hook.user is not None or not hook.transcript:
                self._keep_prompt(agent, hook, session)
        # Cursor takes no text at a prompt: searching for one would cost time, and count as handed over.
        is_in_vain = moment in HANDED and moment not in form.takes
        text = "" if is_in_vain else self._acts[moment](agent, hook, session)
        if text := text if len(text) <= MOST_CHARACTERS else "":
            told = ToldText(at or self._now(), name, channel, agent, moment.value, estimate_tokens(text))
            if self.store.told.note(told, text, nodes=session.named, asked=session.prompt).lost:
                self._take_back(session, moment, text.splitlines(), told.tokens)
        self.store.handed.keep(session)
        return render_output(form, event, text) if text else ""

    def read_on(self, agent: str) -> bool:
        """Have the sessions of a program read up to now; False if that was not done in time.

        A program may name a transcript before it writes the first line, so it is looked for once more here.
        """
        for session in self.store.handed.at_work(agent):
            if session.transcript:
                self._follower.take(Path(session.transcript), session.agent)
        return self._follower.read_on(agent, READ_ON_S)

    def read_lost(self) -> None:
        """Record the moments whose hooks got no answer. The lines that they missed may be handed over again."""
        for one in take_lost(self._lost) if self._lost else ():
            form = FORMATS.get(one.agent)
            moment = form.moments.get(one.event) if form else None
            if form is None or moment is None or moment not in form.takes:
                continue
            channel = channel_of(None, one.folder)
            lost = ToldText(one.at, session_id(one.session), channel, one.agent, moment.value, lost=one.why)
            told = self.store.told.note_lost(lost)
            session = self.store.handed.get(one.agent, one.session)
            self._take_back(session, moment, [line.text for line in told.lines], told.tokens)

    def _take_back(self, session: HandedSession, moment: Moment, lines: Sequence[str], tokens: int) -> None:
        session.take_back([" ".join(line.split()) for line in lines], tokens)
        # The text of a start may have come with a prompt, and was lost with it.
        brought = moment is Moment.PROMPT and session.start_prompt == session.prompts
        session.is_owed |= moment is Moment.START or brought
        if moment is Moment.PROMPT and lines:
            session.unanswered = session.prompt

    # ---- text for the agent

    def _start(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Return what holds now; to a resumed session only what others have learned since."""
        since = session.seen_at if hook.source == "resume" else None
        if since is None:
            session.forget_given()
        session.is_owed = False
        channel, name = _channel_of(hook), session_id(hook.session)
        start = Start(channel, name, agent, hook.folder, since, session.given)
        brief = self.briefs.brief(start, min(BRIEF_TOKENS, SESSION_TOKENS - session.tokens))
        session.hand(brief.lines, estimate_tokens(brief.text) if brief.text else 0, brief.nodes)
        work = open_work(self.store, channel, name, hook.source, self._now())
        session.hand([], estimate_tokens(work) if work else 0)
        return "\n".join(filter(None, (work, brief.text)))

    def _look_for_start(self, agent: str, form: AgentFormat, hook: HookInput, session: HandedSession) -> None:
        """Note that a start is owed, where none was seen, or a summary has taken the place of older turns."""
        session.is_owed |= not session.prompts
        if form.summaries is None or not hook.transcript:
            return
        known, looked_up_to = session.summary or ("", 0)
        found = ""
        with contextlib.suppress(OSError):  # not written yet
            found, looked_up_to = form.summaries(Path(hook.transcript), looked_up_to)
        if session.summary is not None and found not in ("", known):
            self._compacting(agent, hook, session)
            session.is_owed, session.source = True, "compact"
        session.summary = (found or known, looked_up_to)

    def _prompt(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Return the exchange that surely helps a prompt, behind the text of a start that did not arrive; "" without.

        A start's text is rather late than never: it is the one that matters most in a session. So is the text of the
        prompt before, while the person is on the same topic.
        """
        owed = ""
        if session.is_owed:
            owed = self._start(agent, replace(hook, source=session.source), session)
            session.source, session.start_prompt = "", session.prompts
        late, session.unanswered = session.unanswered, ""
        answers = [self._answer_to(session.prompt, hook, session)]
        if late and self.store.is_same_topic(late, session.prompt):
            answers.append(self._answer_to(late, hook, session))
        return "\n".join(filter(None, (owed, *answers)))

    def _answer_to(self, prompt: str, hook: HookInput, session: HandedSession) -> str:
        budget = min(PROMPT_TOKENS, SESSION_TOKENS - session.tokens)
        if not prompt or _COMMAND.match(prompt) or budget <= 0:
            return ""
        envelope = self.store.context(
            prompt[:LONGEST_QUESTION],
            budget_tokens=budget,
            channel=_channel_of(hook),
            session=session_id(hook.session),
            given=session.given,
            only_sure=True,
        )
        changed = self.store.code.changed([slot.node_id for slot in envelope.slots], hook.folder)
        slots = [slot for slot in envelope.slots if slot.node_id not in changed]
        while slots and len(text := fenced("\n".join(slot.text for slot in slots))) > MOST_CHARACTERS:
            slots.pop()
        if not slots:
            return ""
        words = [" ".join(slot.words.split()) for slot in slots]
        session.hand(words, estimate_tokens(text), [slot.node_id for slot in slots])
        return text

    def _at_act(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Return what a call recalls: at most two lines, and none twice in a session."""
        act = act_of(hook) if self._at_acts else None
        if act is None:
            return ""
        name, left = session_id(hook.session), SESSION_TOKENS - session.tokens
        return text_at_act(self.store, name, (_channel_of(hook), hook.folder), act, session, left)

    def _compacting(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Keep the session's work, and allow every text again: the agent is about to forget both."""
        session.forget_given()
        channel, name = _channel_of(hook), session_id(hook.session)
        self.store.see_work(name, channel, own_words(session.prompt), hook.folder)
        return ""

    # ---- learning

    def _answered(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Keep the turns of one exchange, unless they are read from the agent's transcript."""
        if self._is_in_transcript(agent, hook):
            session.kept = session.exchange
        else:
            self._observe(agent, hook, session)
        self.undreamt.judge_later(session_id(hook.session), ended=False)
        return ""

    def _end(self, agent: str, hook: HookInput, session: HandedSession) -> str:
        """Read the rest of the transcript, or keep a prompt that nothing answered; open goals stay as threads."""
        if not self._is_in_transcript(agent, hook):
            self._keep_prompt(agent, hook, session)
        self._follower.end(session_id(hook.session))
        session.is_over()
        self.undreamt.judge_later(session_id(hook.session), ended=True)
        return ""

    def _is_in_transcript(self, agent: str, hook: HookInput) -> bool:
        # A transcript is the owner's: who read it would not know whose words these are.
        if hook.user is not None:
            return False
        if hook.transcript and self._follower.take(Path(hook.transcript), agent):
            return True
        # Without the ids of the program's own store the same turns would be kept twice.
        return not FORMATS[agent].has_message_ids and self._follower.follows(agent)

    def _keep_prompt(self, agent: str, hook: HookInput, session: HandedSession) -> None:
        """Begin to keep the last prompt, unless it is kept, or read from the agent's transcript.

        It is not left to the answer: a prompt may get none, and the daemon may end before it comes.
        """
        if (prompt := self._prompt_turn(agent, session)) and not self._is_in_transcript(agent, hook):
            self._keep(agent, hook, session, [prompt])

    def _prompt_turn(self, agent: str, session: HandedSession) -> NewTurn | None:
        """Return the last prompt as a turn; None if there is none, or it is kept."""
        prompt, exchange = session.prompt, session.exchange
        if not prompt or exchange == session.kept:
            return None
        return NewTurn(Role.USER.value, prompt, self._now(), _id_of(agent, exchange))

    def _observe(self, agent: str, hook: HookInput, session: HandedSession) -> None:
        """Keep prompt and answer. Their ids come from the exchange, so that a hook called twice adds nothing.

        Hooks of one session are answered side by side: its last prompt may be a later one than that of this answer.
        """
        turns = turns_in(hook.messages, hook.folder) or self._said(agent, hook, session)
        if turns:
            self._keep(agent, hook, session, turns).result(KEPT_WITHIN_S)

    def _said(self, agent: str, hook: HookInput, session: HandedSession) -> list[NewTurn]:
        waiting, now = self._prompt_turn(agent, session), self._now()
        exchange = hook.turn_id or session.exchange or f"answer {now:%Y%m%dT%H%M%S.%f}"
        turns = [waiting] if waiting else []
        if (prompt := own_words(hook.prompt)) and not (waiting and exchange == session.exchange):
            turns.append(NewTurn(Role.USER.value, prompt, now, _id_of(agent, exchange)))
        if answer := own_words(hook.answer):
            # Where the exchange is not named, a later answer may come under the same one: it is known by its words.
            by_words = "" if hook.turn_id else f" {text_hash(answer)}"
            answer_id = hook.answer_id or f"{exchange} assistant{by_words}"
            turns.append(NewTurn(Role.ASSISTANT.value, answer, now, answer_id))
        return turns

    def _keep(self, agent: str, hook: HookInput, session: HandedSession, turns: Sequence[NewTurn]) -> Future[Observed]:
        """Keep turns; once they survive a power cut, the session's prompt of now counts as kept if it is one."""
        head = SessionHead(
            session_id=session_id(hook.session),
            channel=_channel_of(hook),
            agent_id=agent,
            user_id=hook.user,
            cwd=hook.folder or None,
        )
        exchange = session.exchange
        is_prompt_in = any(turn.external_id == _id_of(agent, exchange) for turn in turns)

        def note(done: Future[Observed]) -> None:
            if is_prompt_in and done.exception() is None:
                session.kept = exchange

        kept = self.store.observe(by_first_words(head, tuple(turns)), turns)
        kept.add_done_callback(note)
        return kept


def _id_of(agent: str, exchange: str) -> str:
    """Return the id of the prompt of an exchange: the program's own, where it has ids that are known elsewhere too."""
    return exchange if FORMATS[agent].has_message_ids else f"{exchange} user"


def _channel_of(hook: HookInput) -> str:
    """Return the channel of a hook's folder, of a user their part of it."""
    return channel_for(hook.user, channel_of(None, hook.folder))


def own_words(text: str) -> str:
    """Return a person's or model's text without the parts that hooks and our memory added."""
    return without_element(without_recalled(text), "hook_context").strip()
