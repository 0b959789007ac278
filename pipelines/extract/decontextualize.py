"""Decontextualization: a sentence made to stand alone: names for "I" and "you", dates for "yesterday".

Numbers, names and negations are never touched, nor what stands in quotation marks or in code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from ...store.text.vocabulary import PRONOUN_CONTRACTIONS
from ...store.text.word_lists import lexicon, phrases
from ..language import dates
from ..language.inflection import is_participle, is_present, third_person

USER, ASSISTANT = "the user", "the assistant"

_OPAQUE = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|https?://\S+")
_TOKEN = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)?|[^A-Za-z]+")
_LATER = {"i": "they", "me": "them", "my": "their", "mine": "theirs", "myself": "themselves"}
_OTHERS = frozenset(["they", "them", "their", "theirs", "themselves", "they're", "they've", "they'll", "they'd"])
_GENERIC_YOU = re.compile(rf"\b{phrases('generic_you')}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Participants:
    """The speaker and the addressee. `people` is true of two persons, false of a person and an assistant."""

    speaker: str
    addressee: str | None = None
    people: bool = True


def decontextualize(text: str, participants: Participants, said_on: date | None) -> str:
    """Return the text on one line, with names for the pronouns of the conversation and relative dates resolved."""
    line = " ".join(text.split())
    if said_on:
        line = _dated(line, said_on)
    named = _Named(participants, is_generic(line, participants), _they_is_clear(line, participants))
    rewritten = "".join(piece if opaque else named.rewrite(piece) for piece, opaque in _pieces(line))
    return rewritten[:1].upper() + rewritten[1:]


def _dated(line: str, said_on: date) -> str:
    hidden = [match.span() for match in _OPAQUE.finditer(line)]
    for found in reversed(dates.find(line, said_on)):
        if not any(start <= found.start < end for start, end in hidden):
            line = line[: found.start] + found.wording + line[found.end :]
    return line


def is_generic(line: str, participants: Participants) -> bool:
    """Check for a generic "you"; in "I love how you paint" it is the addressee."""
    return participants.people and not re.match(r"(?:I|My)\b", line) and bool(_GENERIC_YOU.search(line))


def _they_is_clear(line: str, participants: Participants) -> bool:
    """Check that "they" after the user's name can only be the user: between two persons it could be both.

    "The user is planning their trip, and they have booked a room" is as long as what was said, and reads as it.
    """
    return not participants.people and _OTHERS.isdisjoint(re.findall(r"[a-z']+", line.replace("’", "'").lower()))


def _pieces(line: str) -> Iterator[tuple[str, bool]]:
    done = 0
    for match in _OPAQUE.finditer(line):
        yield line[done : match.start()], False
        yield match.group(), True
        done = match.end()
    yield line[done:], False


class _Named:
    """One pass over the words of a sentence, which remembers what the verb must agree with."""

    def __init__(self, participants: Participants, generic_you: bool, they_is_clear: bool) -> None:
        self._participants = participants
        self._they_is_clear = they_is_clear
        self._generic_you = generic_you or participants.addressee is None
        self._speaker_named = False

    def rewrite(self, text: str) -> str:
        tokens = list(self._expanded(text.replace("’", "'")))
        out: list[str] = []
        position = 0
        while position < len(tokens):
            token = tokens[position]
            named = self._pronoun(token, tokens, position)
            if named is None:
                out.append(token)
            else:
                out.append(named)
                if named == "they":
                    _agree_with_they(out, tokens, position)
                elif token.lower() in {"i", "you"}:
                    self._agree_before(out, token)
                    position = self._agree_after(tokens, position)
            position += 1
        return "".join(out)

    def _expanded(self, text: str) -> Iterator[str]:
        for token in _TOKEN.findall(text):
            long = PRONOUN_CONTRACTIONS.get(token.lower())
            if not long or (token.lower() in {"im", "ive", "u", "ur"} and token.isupper()):
                yield token
                continue
            if (self._generic_you and long.startswith("you")) or (
                long.startswith("we") and not self._participants.people
            ):
                yield token
                continue
            pronoun, _, rest = long.partition(" ")
            yield pronoun
            if rest:
                yield " "
                yield rest

    def _pronoun(self, spoken: str, tokens: list[str], position: int) -> str | None:
        word = spoken.lower()
        speaker = self._participants.speaker
        if word == "i" and (spoken.isupper() or _alone(tokens, position)):
            again = None if _with_company(tokens, position) else self._speaker_again(word)
            self._speaker_named = True
            return again or speaker
        if word in {"me", "my", "mine", "myself"}:
            if word == "me" and _follows(tokens, position, "-time"):
                return None
            return self._speaker_again(word) or {"me": speaker, "myself": "themselves"}.get(word, _possessive(speaker))
        if word in {"you", "your", "yours", "yourself"}:
            return None if self._generic_you else self._addressed(word)
        if (
            self._participants.people
            and not self._speaker_named
            and word in {"we", "our"}
            and _opens_clause(tokens, position)
        ):
            self._speaker_named = True
            return _possessive(speaker) if word == "our" else f"{speaker} and others"
        return None

    def _speaker_again(self, word: str) -> str | None:
        """Return the pronoun for a speaker named before in this sentence, where it is clear."""
        again = self._speaker_named and self._they_is_clear
        self._speaker_named = True
        return _LATER[word] if again else None

    def _addressed(self, word: str) -> str | None:
        addressee = self._participants.addressee
        if addressee is None or word == "yourself":
            return None if addressee is None else "themselves"
        return addressee if word == "you" else _possessive(addressee)

    def _agree_before(self, out: list[str], pronoun: str) -> None:
        """Inflect the auxiliary of an inverted question: "have I", "are you"."""
        infinitive = len(out) >= 5 and out[-5].lower() == "to"  # "lucky to have you"
        if len(out) >= 3 and out[-2].isspace() and out[-3].lower() in lexicon("auxiliaries") and not infinitive:
            verb = out[-3]
            changed = third_person(verb.lower())
            out[-3] = changed.capitalize() if verb[0].isupper() else changed

    def _agree_after(self, tokens: list[str], position: int) -> int:
        """Inflect the verb that follows; adverbs between are passed over. Returns the position to go on from."""
        if position >= 2 and tokens[position - 1].isspace() and tokens[position - 2].lower() in lexicon("auxiliaries"):
            return position
        at = position + 1
        while at + 1 < len(tokens) and tokens[at].isspace():
            word = tokens[at + 1].lower()
            if word == "'d":
                following = tokens[at + 3].lower() if at + 3 < len(tokens) else ""
                tokens[at + 1] = "had" if is_participle(following) else "would"
                return position
            if word in lexicon("adverbs") or (word.endswith("ly") and word not in {"rely", "apply", "fly", "reply"}):
                at += 2
                continue
            if tokens[position].lower() == "i" and _with_company(tokens, position):
                return position
            if tokens[position].lower() == "i" or not _object_of(tokens, position):
                tokens[at + 1] = third_person(word) if tokens[at + 1].islower() else tokens[at + 1]
                self._agree_coordinated(tokens, at + 1, word)
            return position
        return position

    def _agree_coordinated(self, tokens: list[str], at: int, verb: str) -> None:
        """Inflect the second of two verbs as the first, where nothing stands between them: "runs and reads"."""
        after = [token.lower() for token in tokens[at + 1 : at + 5]]
        if is_present(verb) and len(after) == 4 and after[1] == "and" and is_present(after[3]):
            tokens[at + 4] = third_person(after[3])


_BE_WITH_THEY = {"am": "are", "was": "were", "wasn't": "weren't"}


def _agree_with_they(out: list[str], tokens: list[str], position: int) -> None:
    """Inflect a form of "be" on either side of "they": "am I", "I was"; every other verb is as it was after "I"."""
    if len(out) >= 3 and out[-2].isspace():
        out[-3] = _BE_WITH_THEY.get(out[-3].lower(), out[-3])
    if position + 2 >= len(tokens):
        return
    verb = tokens[position + 2]
    if verb == "'d":
        following = tokens[position + 4].lower() if position + 4 < len(tokens) else ""
        tokens[position + 2] = "had" if is_participle(following) else "would"
    else:
        tokens[position + 2] = _BE_WITH_THEY.get(verb.lower(), verb)


def _opens_clause(tokens: list[str], position: int) -> bool:
    """Check that "we" begins the sentence or a clause: elsewhere it is often generic ("what we can do")."""
    before = [token.strip().lower() for token in tokens[:position] if token.strip()]
    return (
        not before
        or not before[-1].isalpha()
        or before[-1] in {"and", "but", "so", "when", "because", "since", "then", "where", "while"}
    )


def _alone(tokens: list[str], position: int) -> bool:
    before = tokens[position - 1][-1] if position else " "
    after = tokens[position + 1][0] if position + 1 < len(tokens) else " "
    return before.isspace() and after.isspace()


def _with_company(tokens: list[str], position: int) -> bool:
    """Check for company ("My kids and I"): the verb stays plural."""
    before = [token for token in tokens[:position] if not token.isspace()]
    clause = max((at for at, token in enumerate(before) if not token.isalpha() and "'" not in token), default=-1) + 1
    before = before[clause + 1 if before[clause : clause + 1] == ["and"] else clause :]
    return 2 <= len(before) <= 4 and before[-1].lower() == "and" and all(token.isalpha() for token in before)


def _follows(tokens: list[str], position: int, text: str) -> bool:
    return "".join(tokens[position + 1 : position + 3]).startswith(text)


def _object_of(tokens: list[str], position: int) -> bool:
    """Check for "you" as an object ("proud of you for", "has taken you hours"): the next word is not its verb."""
    before = tokens[position - 2].lower() if position >= 2 else ""
    return before in lexicon("before_objects")


def _possessive(name: str) -> str:
    return f"{name}'" if name.endswith("s") and " " not in name else f"{name}'s"
