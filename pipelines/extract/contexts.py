"""Contexts: each turn as its speaker's own words, with speaker and addressee, the turn before it, and tools that ran.

Quotations, pasted dialogues and frontmatter are cut out: they may be found, but make no fact of the speaker's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...store.judges.judge import JudgedTurn, Judgement, judge
from ...store.model import Turn
from ...store.redaction import REDACTED, redact
from ...store.roles import MACHINES, Role
from ...store.text.fence import TAG, holds_marks, reads_the_web
from ...store.text.sentences import GAP, sentences_of
from ...store.text.words import CODE_SPAN

_RECALLED = re.compile(
    rf"<(?P<tag>{TAG}|dreamd|memory|memories|recalled|recall|system-reminder)\b[^>]*>.*?</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)

# Text that a program put into a turn, between tags of two words: "<command-name>/plan</command-name>".
_OF_PROGRAM = re.compile(r"^[^\S\n]*<(?P<tag>[a-z]+[-_][a-z_-]+)\b[^>\n]*>.*?</(?P=tag)>", re.DOTALL | re.MULTILINE)

_IMAGE = re.compile(r"\[image:\s*[^\]]+\]", re.IGNORECASE)
_QUOTATION = re.compile(r"[^\S\n]{0,3}>")

# The mark of a turn in a pasted dialogue: "Human: …", "**Assistant:** …".
_ROLE = re.compile(
    r"[\s*_#<\[(-]{0,8}(?:human|user|assistant|system|developer|tool|ai|model)[\s*_>\])]{0,4}:", re.IGNORECASE
)

_RULE = re.compile(r"(?:---|\+\+\+)\s*")
_KEY = re.compile(r"[\w-]{1,40}\s*[:=](?:\s|$)|\s|- |#")

# Lines of a pasted frontmatter, at most.
MOST_HEAD_LINES = 60

# Placeholder of a cut; it becomes GAP once it is known whether words are left on both sides.
_LEFT_OUT = "\0"

_AROUND = f"{_LEFT_OUT} \t\n"
_GAPS = re.compile(rf"(?<!\s)\s*+{_LEFT_OUT}[\s{_LEFT_OUT}]*+")

# Smallest number of words in quotation marks or code that may be another's rule; a name or a command has fewer.
FEWEST_QUOTED = 4

_BLOCK_OR_SPAN = re.compile(rf"```.*?```|{CODE_SPAN.pattern}", re.DOTALL)
_IN_MARKS = re.compile(r"“[^”]*”|„[^“”]*[“”]|«[^»]*»|(?<!\w)\"[^\"]*\"(?!\w)")

# The line that records a call: "[Bash: ls]", "[Edit /src/app.py]".
_TOOL_CALL = re.compile(r"\s*\[[A-Z]\w*(?::? [^\n]*)?\]?\s*(?:\n.*)?", re.DOTALL)


def own_words(text: str) -> str:
    """Cut recalled memories, text of programs, captions, quotations and pasted dialogues out of a turn.

    A text that begins with a frontmatter is a pasted file and is cut whole. GAP replaces each cut.
    """
    for not_said in (_RECALLED, _OF_PROGRAM, _IMAGE):
        text = not_said.sub(_LEFT_OUT, text)
    lines = text.strip(_AROUND).split("\n")
    is_file = _RULE.fullmatch(lines[0]) is not None and _end_of_head(lines, 0) > 0
    own = "" if is_file else "\n".join(_own_lines(lines)).strip(_AROUND)
    return _GAPS.sub(lambda gap: f"\n{GAP}\n" if "\n" in gap[0] else f" {GAP} ", own)


def without_marked(text: str) -> str:
    """Remove the text between quotation marks."""
    return _IN_MARKS.sub(" ", text)


def quotes_another(text: str) -> bool:
    """Check for others' words in a turn: marks of roles or templates, or much in quotation marks or code."""
    around = _BLOCK_OR_SPAN.sub(" ", without_marked(text))
    return holds_marks(text) or len(text.split()) - len(around.split()) >= FEWEST_QUOTED


def _own_lines(lines: list[str]) -> Iterator[str]:
    """Yield the speaker's own lines, a placeholder for each other; the mark of a role counts to the next blank line."""
    head_ends = in_dialogue = 0
    for number, line in enumerate(lines):
        if _RULE.fullmatch(line) and number >= head_ends:
            head_ends = _end_of_head(lines, number)
        # "Human: …" and the lines below it are pasted, up to the next blank line.
        in_dialogue = bool(line.strip()) and (in_dialogue or bool(_ROLE.match(line)))
        is_own = not (number < head_ends or in_dialogue or _QUOTATION.match(line))
        yield line if is_own or not line.strip() else _LEFT_OUT


def _end_of_head(lines: list[str], start: int) -> int:
    """Return the line after a frontmatter that begins at `start`; `start` where none does."""
    for number in range(start + 1, min(start + MOST_HEAD_LINES, len(lines))):
        if lines[number].strip() == lines[start].strip():
            return number + 1 if number > start + 1 else start
        if not _KEY.match(lines[number]):
            break
    return start


class Speaker(StrEnum):
    """The kind of a speaker: a person to a person, a person to an assistant, or the assistant."""

    PEER = "peer"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class TurnContext:
    """A turn in its context.

    `before` is the turn right before it, if another speaker's. `after_tool`: a tool ran since a person spoke;
    `with_tools`: one ran in this session, so its assistant acts and does not only advise. `after_web`: a tool that
    reads the web ran since a person spoke, so these may be a stranger's words.
    """

    turn: Turn
    speaker: Speaker
    text: str
    sentences: tuple[str, ...]
    before: TurnContext | None
    after_tool: bool
    with_tools: bool
    after_web: bool = False


def contexts_of(turns: Sequence[Turn]) -> list[TurnContext]:
    """Return the turns that are no call or output of a tool, in order, each in its context."""
    contexts: list[TurnContext] = []
    after_tool = with_tools = after_web = False
    for turn in turns:
        if turn.role in (Role.SYSTEM, Role.TOOL) or is_tool_call(turn):
            after_tool = with_tools = True
            after_web = after_web or reads_the_web(turn.text)
            continue
        speaker = speaker_of(turn.role)
        # A person's turn ends the effect of a tool: the next report is about a new request.
        after_tool = after_tool and speaker is Speaker.ASSISTANT
        after_web = after_web and speaker is Speaker.ASSISTANT
        before = contexts[-1] if contexts and contexts[-1].turn.role != turn.role else None
        text = own_words(turn.text)
        said = tuple(sentence for sentence in sentences_of(text) if REDACTED not in redact(sentence).text)
        contexts.append(TurnContext(turn, speaker, text, said, before, after_tool, with_tools, after_web))
    return contexts


def judged(contexts: Sequence[TurnContext], new_from: int = 1) -> dict[int, Judgement]:
    """Judge the turns from ordinal `new_from` on; return the judgements by index.

    Talk among people is left out: the judge was trained on talk with an assistant alone.
    """
    chosen = [
        at
        for at, context in enumerate(contexts)
        if context.turn.ordinal >= new_from and context.speaker is not Speaker.PEER
    ]
    judgements = judge().turns([_judge_input(contexts, at) for at in chosen])
    return dict(zip(chosen, judgements, strict=True))


def _judge_input(contexts: Sequence[TurnContext], at: int) -> JudgedTurn:
    context = contexts[at]
    # The judge was trained on the nearest turns of the other side, with tool calls between them left out.
    others = (other.turn for other in reversed(contexts[:at]) if other.turn.role != context.turn.role)
    following = (other.turn for other in contexts[at + 1 :] if other.turn.role != context.turn.role)
    role = Role.ASSISTANT if context.speaker is Speaker.ASSISTANT else Role.USER
    before, after = (next((turn.text for turn in turns), "") for turns in (others, following))
    return JudgedTurn(role, context.text, before, after)


def is_tool_call(turn: Turn) -> bool:
    """Check for a turn that only records the call of a tool."""
    return turn.role == Role.ASSISTANT and bool(_TOOL_CALL.fullmatch(turn.text)) and turn.text.rstrip().endswith("]")


def speaker_of(role: str) -> Speaker:
    """Return the kind of speaker of a role; a name is a person among people."""
    if role in MACHINES:
        return Speaker.ASSISTANT
    return Speaker.USER if role == Role.USER else Speaker.PEER
