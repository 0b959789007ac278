"""Trimming: what surrounds a statement and says nothing: "Wow,", "Thanks, Mel!", ", can you help me with that?"."""

from __future__ import annotations

import re

from .words import lexicon, weighty_words

_LEAD_IN = re.compile(
    r"^(?:(?:oh|ah|aw+|wow|whoa|woah|ha(?:ha)*|lol|hm+|um+|hey|hi|hello|yo|yeah|yep|yup|yes|ya|nope|nah|ok(?:ay)?|sure|right|"
    r"well|so|anyway|anyways|btw|by the way|oh yeah|thanks?(?: you)?(?: (?:so|very) much| a (?:lot|bunch|ton)| again)?|"
    r"totally|exactly|definitely|absolutely|of course|for sure|certainly|agreed|true|cool|great|awesome|nice|perfect|amazing|"
    r"congrats|congratulations|sounds (?:good|great)|got it|good (?:morning|evening|afternoon)|no (?:worries|problem)|"
    r"you know(?: what)?|speaking of which|guess what|to be honest|honestly|actually now|i mean|i see|let's see)"
    r"(?:\s+(?:there|man|bro|dude|buddy|guys|everyone))?\s*(?:[,!.…:;–—-]+\s*|\s+-\s+))+",
    re.IGNORECASE,
)
_NO = re.compile(r"^no\s*[,!.]\s*", re.IGNORECASE)
_REQUEST_TAIL = re.compile(
    r"[,;.]?\s*(?:and|but|so|or)?\s*,?\s*(?:(?:can|could|would|will) you\b|(?:please )?help me\b|how (?:can|do|should|would) I\b|"
    r"what (?:should|can|do) I\b|do you (?:think|have|know)\b|any (?:advice|ideas|tips|suggestions)\b|"
    r"here(?:'|’)?s (?:what I|my (?:current |existing )?(?:code|implementation|attempt|setup)|the code|an example|a )).*$",
    re.IGNORECASE | re.DOTALL,
)
_REQUEST_WORDS = frozenset(
    "code example examples implement implementation improve improvements suggest suggestions review provide explain figure "
    "ensure correctly correct properly fix issue issues problem wrong guide steps step advice tips so far current following "
    "approach best practices practice achieve please".split()
)  # fmt: skip
_MARKUP = re.compile(r"\*\*|__|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)|^\s*#+\s+|!?\[([^\]]*)\]\([^)]*\)|->->\s*[\d,\s]*$")


def plain(text: str) -> str:
    """The text without emphasis and with links as their words."""
    return _MARKUP.sub(lambda match: match[1] or "", text).strip()


def trim(text: str, addressee: str | None) -> str:
    """The sentence without its lead-ins and the name of the one it is said to."""
    trimmed = text
    while True:
        before = trimmed
        trimmed = _LEAD_IN.sub("", trimmed, count=1)
        if addressee:
            trimmed = _without_vocative(trimmed, addressee)
        if trimmed == before or not trimmed:
            break
    trimmed = _NO.sub("No, ", trimmed)
    return trimmed or text


def without_request(text: str) -> str:
    """The statement of "I'm trying to …, can you help me with that?"; the whole where the request says more."""
    match = _REQUEST_TAIL.search(text)
    if match is None or match.start() == 0 or len(weighty_words(text[: match.start()])) < 3:
        return text
    asked = [word for word in weighty_words(match.group()) if word not in _REQUEST_WORDS]
    return text if len(asked) >= 3 else text[: match.start()].rstrip(" ,;") + "."


def request_weight(text: str) -> int:
    """How many words of a request say what it is about."""
    return sum(word not in _REQUEST_WORDS for word in weighty_words(text))


def _without_vocative(text: str, addressee: str) -> str:
    """Without "Mel," at the start or ", Mel" at the end; short forms of the name count."""
    name = rf"(?:{re.escape(addressee)}|{_nickname(addressee)})"
    text = re.sub(rf"^{name}\s*[,!.:–-]+\s+(?=\S)", "", text, flags=re.IGNORECASE)
    text = re.sub(rf",\s+{name}(?=\s*[,!.?…:–-]|$),?", "", text, flags=re.IGNORECASE)
    return re.sub(rf"^{name}\s*[!.?]*$", "", text, flags=re.IGNORECASE)


def _nickname(name: str) -> str:
    first = re.escape(name.split()[0])
    return rf"{first[:3]}[a-z]{{0,3}}" if len(first) > 3 and first.isalpha() else first


def is_light(word: str) -> bool:
    """Whether a word is mere praise, thanks or reaction."""
    return word in lexicon("light_words")
