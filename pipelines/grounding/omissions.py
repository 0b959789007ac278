"""Omissions: the parts of a sentence that a claim may leave out without changing the meaning.

A part goes only at a seam: a clause with its own subject, a because or a which, a phrase at the end, an aside. What the
rest hangs on stays: conditions always; negations, modal verbs and thoughts unless they go with the whole clause that
they rule. Where the rest denies something or speaks of all of a kind, only clauses of their own may go: "I don't eat
meat on Fridays" is not "I don't eat meat".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...store.text.normal_form import FILLERS
from ...store.text.vocabulary import NEGATING_WORDS
from ...store.text.word_lists import lexicon
from ..extract.salience import is_question
from .tokens import Token

_COORDINATORS = frozenset(["and", "but", "so", "plus"])
_SUBJECTS = frozenset(["he", "she", "it", "they", "this", "that", "there", "we", "i", "these", "those"])
_LEAD_INS = frozenset(
    "no yes yeah yep yup nope nah ok okay right sure well so oh wow hey hi thanks thank and but".split()
)
_QUESTIONS = frozenset("what where when who why how which is was do did does has can could would will any".split())
_DETERMINERS = frozenset("a an the this that these those my his her their its some another".split())
_OPENING, _CLOSING = frozenset(",;:-("), frozenset(",;:-)")
_UNREAL = frozenset(["would", "should", "could", "might", "wish", "wished", "thought", "almost", "nearly", "hoped"])
_AUXILIARIES = frozenset("is was has had do does did will would can could shall should may might must been be".split())


@dataclass(frozen=True, slots=True)
class Omission:
    """Tokens [start, end) are left out. `whole` is true of a clause of its own, which restricts nothing that stays."""

    start: int
    end: int
    whole: bool


def is_free(tokens: Sequence[Token], at: int) -> bool:
    """Check for a token that may come or go anywhere: marks, articles, fillers outside a negation."""
    token = tokens[at]
    if token.may_lack or token.shape == "mark":
        return True
    if token.form in {"a", "an", "the"}:
        return at + 1 >= len(tokens) or tokens[at + 1].form not in {"few", "little", "only"}
    if token.form not in FILLERS or token.shape != "word":
        return False
    return not any(earlier.form in NEGATING_WORDS for earlier in tokens[max(0, at - 3) : at])


def beginnings(tokens: Sequence[Token]) -> list[Omission]:
    """Return the omissions that are allowed before the first word kept."""
    found = []
    for end in range(1, len(tokens) - 1):
        last, part = tokens[end - 1], tokens[:end]
        if _is_lead_in(part, last):
            found.append(Omission(0, end, whole=True))
        elif not _opens_clause(tokens, end) or _hangs(part, tokens[end:]):
            continue
        elif last.form in _COORDINATORS and last.shape == "word":
            before = tokens[end - 2] if end >= 2 else last
            apart = last.form in {"but", "so"} and before.shape == "mark"
            if apart or not _has(part, "hedges"):
                found.append(Omission(0, end, whole=True))
        elif last.form in {";", "-", "."}:
            found.append(Omission(0, end, whole=True))
        elif last.form == "," and not _has(part, "hedges") and _is_adverbial(part):
            found.append(Omission(0, end, whole=False))
    return found


def ending(tokens: Sequence[Token], start: int) -> Omission | None:
    """Return the omission that is allowed after the last word kept, if any."""
    part = tokens[start:]
    if _has(part, "conditions") or start < 2:
        return None
    opener = part[0]
    rest = part[1:] if opener.shape == "mark" else part
    if not rest:
        return Omission(start, len(tokens), whole=True)
    if opener.form in {".", ";"} or opener.form == "!":
        return Omission(start, len(tokens), whole=True)
    if opener.form == "-":
        doubts = _has(rest[:3], "hedges") or _denies(rest[:3]) or (len(rest) < 5 and _has(rest, "hedges"))
        return None if doubts else Omission(start, len(tokens), whole=True)
    if rest[0].form in _COORDINATORS and rest[0].shape == "word":
        return _coordinated(tokens, start, rest)
    if rest[0].form in lexicon("clause_openers"):
        apart = opener.shape == "mark" or rest[0].form in {"because", "though", "although"}
        fits = apart or (rest[0].form not in {"as", "so"} and _after_object(tokens, start))
        return Omission(start, len(tokens), whole=False) if fits else None
    if _has(rest, "hedges") or _denies(rest):
        return None
    if opener.form in _OPENING:
        if opener.form == "," and _may_split_phrase(tokens, start):
            return None
        return Omission(start, len(tokens), whole=False)
    if rest[0].form in lexicon("case_prepositions") and _after_object(tokens, start):
        return Omission(start, len(tokens), whole=False)
    return None


def asides(tokens: Sequence[Token], start: int) -> list[Omission]:
    """Return the omissions that are allowed between two words kept: an aside between marks, before the verb goes on."""
    if tokens[start].form not in _OPENING:
        return []
    found = []
    for end in range(start + 2, min(len(tokens), start + 16)):
        if tokens[end - 1].form not in _CLOSING or tokens[end - 1].shape != "mark":
            continue
        part = tokens[start:end]
        after = tokens[end].form
        goes_on = after in _AUXILIARIES or after in lexicon("irregular_past")
        clean = not (_has(part, "conditions") or _has(part, "hedges") or _denies(part))
        if goes_on and clean:
            found.append(Omission(start, end, whole=False))
    return found


def changes_meaning(tokens: Sequence[Token], omissions: Iterable[Omission], text: str) -> bool:
    """Check whether the omissions together change the meaning of the rest."""
    made = list(omissions)
    gone = {at for omission in made for at in range(omission.start, omission.end)}
    kept = [token for at, token in enumerate(tokens) if at not in gone and not token.may_lack]
    if is_question(text) and not _leaves_question(tokens, made):
        return True
    if any(not omission.whole for omission in made) and (_denies(kept) or _is_universal(kept)):
        return True
    opens_but = any(
        tokens[at].form == "but"
        for omission in made
        for at in range(omission.start, min(omission.start + 2, omission.end))
    )
    if opens_but and any(token.form in _UNREAL for token in kept):
        return True
    return bool(made) and (not kept or _dangles(kept[-1]) or len(kept) < 3)


def _denies(part: Iterable[Token]) -> bool:
    return any(token.form in NEGATING_WORDS for token in part)


def _has(part: Iterable[Token], name: str) -> bool:
    return any(token.form in lexicon(name) for token in part if token.shape == "word")


def _hangs(part: Sequence[Token], rest: Sequence[Token]) -> bool:
    """Check that what follows depends on a part: "When it rains, …" does, "When I was in Rome, I met …" not."""
    past = lexicon("irregular_past")
    once = part[0].form == "when" and all(any(token.form in past for token in side) for side in (part, rest))
    return _has(part[1:] if once else part, "conditions")


def _is_universal(kept: Sequence[Token]) -> bool:
    return any(
        token.form in lexicon("universals") or (token.form.endswith("est") and len(token.form) > 5) for token in kept
    )


def _is_lead_in(part: Sequence[Token], last: Token) -> bool:
    """ "No," or "Yeah, Mel!": an answer, a greeting or a name in front of a sentence."""
    if last.shape != "mark" or last.form not in {",", "!", ".", "-", ":"}:
        return False
    spoken = [token for token in part if token.shape == "word"]
    light = lexicon("light_words") | _LEAD_INS
    return len(spoken) <= 4 and all(token.form in light or token.person for token in spoken)


def _opens_clause(tokens: Sequence[Token], at: int) -> bool:
    """Check for the beginning of a clause with its own subject."""
    token = tokens[at]
    if token.form in _SUBJECTS or (token.person and not token.form.endswith("'s")):
        return True
    rest = [following.form for following in tokens[at + 1 : at + 7]]
    verbs = _AUXILIARIES | lexicon("irregular_past")
    return (token.form in _DETERMINERS or bool(token.person)) and any(form in verbs for form in rest)


def _is_adverbial(part: Sequence[Token]) -> bool:
    """Check for an adverbial part before a comma (when, where, why): what follows holds without it."""
    first = part[0].form
    return (
        first == "when"
        or first in lexicon("clause_openers")
        or first in lexicon("case_prepositions")
        or part[0].shape == "date"
    )


def _coordinated(tokens: Sequence[Token], start: int, rest: Sequence[Token]) -> Omission | None:
    """Return the omission of an "and …" at the end: its own clause, or a second verb after a finished first part."""
    if len(rest) < 2 or any(token.form in {"between", "both"} for token in tokens[:start]):
        return None
    following = rest[1]
    if following.form in _SUBJECTS or (following.person and not following.form.endswith("'s")):
        return Omission(start, len(tokens), whole=True)
    is_verb = following.form in lexicon("irregular_past") or following.form in _AUXILIARIES
    if rest[0].form == "but" or is_verb:
        governed = _denies(rest) and rest[0].form != "but"
        return None if governed else Omission(start, len(tokens), whole=False)
    return None


def _after_object(tokens: Sequence[Token], at: int) -> bool:
    """Check that the phrase before is finished: a determiner, an owner or a date lies one to three words back."""
    before = tokens[max(0, at - 4) : at]
    if not before or before[-1].shape == "mark":
        return False
    if before[-1].shape == "date":
        return True
    noun = before[-1].form not in _AUXILIARIES and before[-1].form not in lexicon("stop_words")
    return noun and any(
        token.form in _DETERMINERS or token.form.endswith("'s") or token.form.isdigit() for token in before[:-1]
    )


def _may_split_phrase(tokens: Sequence[Token], comma: int) -> bool:
    """Check for a comma that may stand between two adjectives: "a big, red dog"."""
    before, after = tokens[max(0, comma - 3) : comma], tokens[comma + 1 : comma + 2]
    if not after or after[0].shape != "word":
        return False
    following = after[0]
    if before[-2:-1] and before[-2].form in {"a", "an", "the"} and following.form not in _DETERMINERS:
        return True  # "a safe, inviting place"
    plain = (
        following.form not in _DETERMINERS
        and following.form not in lexicon("stop_words")
        and not following.form.endswith("ing")
        and not following.person
    )
    return plain and any(token.form in _DETERMINERS or token.form.endswith("'s") for token in before)


def _leaves_question(tokens: Sequence[Token], made: Sequence[Omission]) -> bool:
    """Check that the question was left out, and the rest is none itself."""
    if tokens[0].form in _QUESTIONS:
        return False
    last = max(made, key=lambda omission: omission.end, default=None)
    if last is None or last.end < len(tokens):
        return False
    words = [token.form for token in tokens[last.start : last.end] if token.shape == "word"][:2]
    return any(word in _QUESTIONS for word in words)


def _dangles(last: Token) -> bool:
    """Check for a word that cannot be the last."""
    return last.shape == "word" and (
        last.form
        in _AUXILIARIES | _COORDINATORS | {"a", "an", "the", "its", "to", "of", "or", "not", "very", "than", "as"}
        or last.form in lexicon("case_prepositions")
        or last.form.endswith("'s")
    )
