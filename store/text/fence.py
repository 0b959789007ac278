"""The fence around memories for an agent: one tag that no text inside can close, and no mark inside that commands.

Memories are data. The tag's id is the hash of its content, which no text inside can contain; marks of roles, of chat
templates and of the tags that agents obey are broken inside it, each by one character, and read as before. Control
characters, which command a terminal, are no part of any text.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

TAG = "dreamd-memory"

_ROLES = "system|user|assistant|human|ai|model|tool|developer"
_OBEYED = frozenset(_ROLES.split("|")) | frozenset(
    "bos command commands context document documents eos function functions important inst instruction"
    " instructions invoke permissions prompt reminder result s sys think thinking tools".split()
)
"""Names of tags that agents obey, or that part the turns of a model's chat."""

_OBEYED_IN = _OBEYED - {"result", "s", "document", "documents"} | frozenset(
    "agent antml assistants environment guidelines hook notification override policy query reasoning rules turn"
    " users".split()
)
"""Words that make such a name of a longer one: `<user_query>`, `<task-notification>`, `[TOOL_RESULTS]`."""

_TAG = re.compile(rf"[<＜﹤](?=\s{{0,9}}[/／]?\s{{0,9}}({TAG}|[A-Za-z][\w:.-]{{0,60}}))", re.IGNORECASE)
_TEMPLATE = re.compile(r"<(?=[|\uff5c<])|(?<=[|\uff5c>])>")
_BRACKETED = re.compile(r"[\[［](?=\s?[/／]?\s?([A-Za-z][\w-]{0,60})\s?[\]］])")
_LISTED = frozenset({*_ROLES.split("|"), "inst", "sys", "tool_calls", "available_tools"})
_PARTS = re.compile(r"[-_:.]+")
_HEADING = re.compile(rf"(?<!#)#{{2,}}+(?=\s{{0,9}}(?:{_ROLES}|instructions?|response|input)\b)", re.IGNORECASE)
_SAYS = (
    r"(?:\s(?:override|prompt|message|instructions?|notice|directive|command|reminder|alert|update)){0,2}"
    r"(?:,[^:：\n]{1,40})?\s?[:：﹕︓]"
)
"""The end of a role's mark: "system:", "System：", "SYSTEM OVERRIDE:"."""

_ROLE = re.compile(
    rf"(?P<before>^[ \t]{{0,9}}|[^\w\s]\s{{0,9}}|\bto\s)(?P<role>(?:{_ROLES}))(?={_SAYS})|"
    r"\b(?P<label>(?:Human|Assistant|System|User|Developer|Tool|HUMAN|ASSISTANT|SYSTEM|USER|DEVELOPER|TOOL))"
    rf"(?={_SAYS})",
    re.IGNORECASE | re.MULTILINE,
)
_OPENING = re.compile(rf'<{TAG} id=\\{{0,3}}"[0-9a-f]{{6}}\\{{0,3}}">')
"""The tag as it is handed out; a program that quotes it in JSON puts a backslash before each quote."""

LONGEST_NAME = 40
_NO_NAME = re.compile(r"[^\w .'’-]")
_LABEL = re.compile(r"[A-Z]")
_GOES_ON = re.compile(r"::?\w")
_INNER = "=/.@$&+%~\\-"
"""Marks that join the parts of one word: "ISSUER=user", "com.example.User"."""


def fenced(text: str) -> str:
    """Return the lines of an envelope inside their tag; "" for none."""
    if not text:
        return ""
    return f'<{TAG} id="{sha256(text.encode("utf-8", "replace")).hexdigest()[:6]}">{text}</{TAG}>'


def unmarked(text: str) -> str:
    """Return a text on one line, in which no tag that agents obey and no mark of a role or a template is whole.

    Control, bidirectional and invisible characters are gone. Linear in the text.
    """
    return _broken(" ".join(plain(text).split()))


def unmarked_lines(text: str) -> str:
    """Return the same of a text that keeps its lines; none of them begins with the mark of a role."""
    return _broken(plain(text))


def holds_marks(text: str) -> bool:
    """Return True for a text with a tag that agents obey, or a mark of a role or a template: a paste, or an attack."""
    return _broken(text) != text


def without_recalled(text: str) -> str:
    """Cut out recalled memories, so that they are not learned again; a fence without an end cuts the rest.

    An opening that is never closed and has no id is a mention of the tag, and is kept.
    """
    # An agent's transcript may end within a recalled envelope: the rest of the turn is then recalled, too.
    text = without_element(text, TAG)
    opening = _OPENING.search(text)
    return text if opening is None else text[: opening.start()]


def without_element(text: str, tag: str) -> str:
    """Cut every `<tag …>…</tag>`. Linear time."""
    # Two `find`s instead of a pattern: one with `.*?` looks at the rest of the text for every opening.
    opening, closing = f"<{tag}", f"</{tag}>"
    kept: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join((*kept, text[at:]))


def speaker_name(role: str) -> str:
    """Return a speaker's name without the characters that could end a line's head; "" for none."""
    return " ".join(_NO_NAME.sub(" ", plain(role)).split())[:LONGEST_NAME]


def _broken(text: str) -> str:
    """Break every mark; a pattern is tried only where the text has the character that all its matches have."""
    # Other scripts have their own brackets and colons, so a text that is not ASCII is searched in any case.
    if "<" in text or ">" in text or not text.isascii():
        text = _TEMPLATE.sub(lambda mark: "‹" if mark[0] == "<" else "›", _TAG.sub(_opened, text))
    if "[" in text or "［" in text:
        text = _BRACKETED.sub(_bracketed, text)
    if "##" in text:
        text = _HEADING.sub("#", text)
    return _ROLE.sub(_quoted, text) if ":" in text or not text.isascii() else text


def _opened(mark: re.Match[str]) -> str:
    """Break a tag that agents obey: by its name, or by a word in it."""
    parts = _PARTS.split(mark[1].lower())
    obeyed = mark[1].lower().startswith(TAG) or (
        parts[0] in _OBEYED if len(parts) == 1 else not _OBEYED_IN.isdisjoint(parts)
    )
    return "‹" if obeyed else mark[0]


def _bracketed(mark: re.Match[str]) -> str:
    """Break a mark in brackets: a listed one, or one in capitals with such a word in it; others may be links."""
    name = mark[1].lower()
    obeyed = name in _LISTED or (mark[1].isupper() and not _OBEYED_IN.isdisjoint(_PARTS.split(name)))
    return "(" if obeyed else mark[0]


def _quoted(mark: re.Match[str]) -> str:
    """Quote the name of a role in front of a colon; in the midst of a sentence only one that begins with a capital."""
    role = mark["label"] or mark["role"]
    if _is_in_a_word(mark.string, mark.end() - len(role), mark.end()):
        return mark[0]
    if mark["label"]:
        return f'"{role}"' if _LABEL.match(role) else role
    return f'{mark["before"]}"{role}"'


def _is_in_a_word(text: str, start: int, end: int) -> bool:
    """Check for a part of a longer word, of code or a path: "ISSUER=user:188", "User::find"; that marks no turn."""
    if _GOES_ON.match(text, end) is None:
        return False
    return text.startswith("::", end) or (start > 1 and text[start - 1] in _INNER and not text[start - 2].isspace())


_WEB_CALL: Final = re.compile(r"\s*\[\w*(?:web|fetch|brows|https?:)[^\n]*|\s*\[[^\n\]]*https?://", re.IGNORECASE)
"""The call of a tool that reads the web: "[WebFetch: …]", "[mcp__browser__open …]", "[Bash: curl https://…]"."""

_FOREIGN_CALL: Final = re.compile(
    r"^[ \t]*\[(?:\w*(?:web|fetch|brows|https?:)|mcp__|read_mcp_|ReadMcp|(?:Agent|BashOutput|Skill|Task|TaskOutput)\b"
    r"|[^\n\]]*(?:https?://|\b(?:curl|wget|lynx|w3m|gh|glab|ssh)\s))",
    re.IGNORECASE | re.MULTILINE,
)
"""Such a call or its result, at the beginning of any line. The reading of a sub-agent is unknown, so it counts."""


def reads_the_web(text: str) -> bool:
    """Return True for the note of a call that reads the web."""
    return _WEB_CALL.match(text) is not None


def reads_foreign_words(text: str) -> bool:
    """Return True for a turn with a call, or its result, that brings strangers' words."""
    return "[" in text and _FOREIGN_CALL.search(text) is not None


_SEQUENCE = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
"""A colour or a move of the cursor (CSI); a title or a link of a terminal's window (OSC), up to its end."""

_CONTROL = re.compile(_SEQUENCE + r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties): marks of direction, with which a line shows other
than it reads, and characters that never show. The joiners and two variation selectors are apart, see below."""

_BLANK = "\u2028\u2029\u2800\ufff9-\ufffb\U00013430-\U0001343f\U0001d159"
"""Line ends of some programs alone, and characters that show nothing without being ignorable."""

_EMOJI, _SKIN = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff",
    "\U0001f3fb-\U0001f3ff",
)
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\ua840-\ua87f\ufb50-\ufdff\ufe70-\ufefc"
"""Scripts whose letters join: Arabic with Persian, Syriac, the Indic ones, Burmese, Khmer, Phags-pa."""

_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_UNSEEN = re.compile(
    f"[{_IGNORABLE}{_BLANK}]"
    # One joiner stays within an emoji (woman, joiner, computer) and in a word of a script that joins.
    f"|[\u200c\u200d](?!(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))[{_EMOJI}]"
    f"|(?<=[{_JOINING}][\u200c\u200d])[{_JOINING}]|(?<=[{_VIRAMA}][\u200c\u200d]))"
    # One selector stays behind the emoji that it shows in colour or not, and within a keycap.
    f"|[\ufe0e\ufe0f](?!(?<=[{_EMOJI}][\ufe0e\ufe0f])|(?<=[0-9#*]\ufe0f)\u20e3)"
)


def without_controls(text: str) -> str:
    """Drop terminal sequences and control characters but newline and tab; a return is a newline.

    A lone surrogate, which JSON can spell and UTF-8 cannot, becomes U+FFFD.
    """
    # A return alone would let a line overwrite the one before it on a terminal.
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.isascii():  # an ASCII text has no surrogates
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(text: str) -> str:
    """Drop characters, too, that do not show or change how others show: for pages and envelopes made of many texts."""
    text = without_controls(text)
    return text if text.isascii() else _UNSEEN.sub("", text)
