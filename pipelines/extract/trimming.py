"""Trimming: drops the empty words around a statement: "Wow,", "Thanks, Mel!", ", can you help me with that?"."""

from __future__ import annotations

import re

from ...store.text.word_lists import lexicon, phrases
from ..language.content import salient_words

_LEAD_INS = rf"(?:{phrases('lead_ins')}(?:\s+(?:there|man|bro|dude|buddy|guys|everyone))?)"
_LEAD_IN = re.compile(rf"^(?:{_LEAD_INS}\s*(?:[,!.…:;–—-]+\s*|\s+-\s+))+", re.IGNORECASE)
_ALL_LEAD_IN = re.compile(rf"(?:{_LEAD_INS}|(?:hey|hi|hello)\s+\w+)[^\w]*", re.IGNORECASE)
ASKED = "asked: "
_GREETING = r"(?:hey|hi|hello|yo|thanks|thank you|congrats|wow|oh|well done|good (?:morning|evening|afternoon))"
_NO = re.compile(r"^no\s*[,!.]\s*", re.IGNORECASE)
_REQUEST_TAIL = re.compile(
    rf"[,;.]?\s*(?:and|but|so|or)?\s*,?\s*{phrases('request_tails')}.*$", re.IGNORECASE | re.DOTALL
)
_ASKS_HELP = re.compile(
    r"(?:[,;.]?\s*(?:so|and|but)?\s*,?\s*)"
    r"(?:(?:can|could|would|will) you (?:please |possibly |maybe )?|please )"
    r"(?:help me (?:to |with |out with |out by |by )?)?(?=\w)|^help me (?:to |with )?",
    re.IGNORECASE,
)
_LEADS_TO_CODE = re.compile(
    r"(?:^|[,.;]?\s+(?:and|but|so)?\s*)here(?:'|’)?s (?:what|my|the|an?|some|how)\b[^,.;]*:?$|"
    r"[,;]?\s*(?:maybe )?something like (?:this|that):?$|^I(?:'|’)ve got the following [^,.;]*:?$",
    re.IGNORECASE,
)
_MARKUP = re.compile(
    r"`[^`]*`|\*\*|__|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)|^\s*#+\s+|!?\[([^\]]*)\]\([^)]*\)|->->\s*[\d,\s]*$"
)


def plain(text: str) -> str:
    """Return the text without emphasis, its links as their words."""
    return _MARKUP.sub(lambda match: match[0] if match[0][0] == "`" else match[1] or "", text).strip()


def trim(text: str, addressee: str | None) -> str:
    """Drop a sentence's lead-ins and the name of its addressee; "" if no other word is left."""
    trimmed = text
    while True:
        before = trimmed
        trimmed = "" if _ALL_LEAD_IN.fullmatch(trimmed) else _LEAD_IN.sub("", trimmed, count=1)
        if addressee:
            trimmed = _without_vocative(trimmed, addressee)
        if trimmed == before or not trimmed:
            break
    return _NO.sub("No, ", trimmed)


def without_request(text: str) -> str:
    """Keep the statement of "I'm trying to …, can you help me with that?"; a request that says more stays, shorter."""
    stated = _LEADS_TO_CODE.sub("", text).strip()
    match = _REQUEST_TAIL.search(stated)
    if match and match.start() and len(salient_words(stated[: match.start()])) >= 3:
        asked = [word for word in salient_words(match.group()) if word not in lexicon("request_words")]
        if len(asked) < 3:
            return stated[: match.start()].rstrip(" ,;.") + "."
    return _ASKS_HELP.sub(lambda found: ASKED if found.start() == 0 else "; asked: ", stated, count=1)


def request_weight(text: str) -> int:
    """Count the words of a request that say what it is about."""
    return sum(word not in lexicon("request_words") for word in salient_words(text))


def _without_vocative(text: str, addressee: str) -> str:
    """Drop "Mel," at the start and ", Mel" at the end; short forms of the name count."""
    name = rf"(?:{re.escape(addressee)}|{_nickname(addressee)})"
    text = re.sub(rf"^{_GREETING}\s+{name}\s*[,!.:–-]+\s+(?=\S)", "", text, flags=re.IGNORECASE)
    text = re.sub(rf"^{_GREETING}\s+{name}\s*[!.…]*$", "", text, flags=re.IGNORECASE)
    text = re.sub(rf"^{name}\s*[,!.:–-]+\s+(?=\S)", "", text, flags=re.IGNORECASE)
    text = re.sub(rf",\s+{name}(?=\s*[,!.?…:–-]|$),?", "", text, flags=re.IGNORECASE)
    return re.sub(rf"^{name}\s*[!.?]*$", "", text, flags=re.IGNORECASE)


def _nickname(name: str) -> str:
    first = re.escape(name.split()[0])
    return rf"{first[:3]}[a-z]{{0,3}}" if len(first) > 3 and first.isalpha() else first
