"""The reader of names: the people and things that a turn names, and the typed relations that it states.

A small encoder as the judge's, with two heads: one gives each token a tag, the other each pair of names a relation. Its
weights are of `name_reader.npz`, made by `python -m tests.train.fit_names`; `docs/models.md` names its data and limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..okf.entity_page import key_of
from ..text.languages import first_names
from ..text.words import ALPHANUMERIC
from .judge import CLS, SEP, TOKEN_CHARS, JudgedTurn, Mark, batches_of, encoder, tokenizer

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Array = NDArray[np.float32]
Span = tuple[int, int]

NAMED: Final = (
    "person",
    "organisation",
    "team",
    "project",
    "service",
    "tool",
    "place",
    "file",
    "event",
    "other",
    "phrase",
)
"""The kinds of a span: those of an entity, and "phrase", the unnamed end of a relation ("the night shift")."""

SPEAKER, PROJECT = "speaker", "project at hand"
"""Two ends of relations that need no name: the person who speaks or is spoken to, and what they work on."""

ENDS: Final = (*NAMED, SPEAKER, PROJECT)

RELATIONS: Final = (
    "",
    "WORKS_FOR",
    "REPORTS_TO",
    "KNOWS",
    "OWNS",
    "HANDED_OVER_TO",
    "CREATED_BY",
    "PART_OF",
    "LOCATED_IN",
    "DEPENDS_ON",
    "USES",
    "REFERENCES",
    "BLOCKED_BY",
    "REPLACED_BY",
)

OUTSIDE: Final = 0
"""The tag of a token that names nothing; name n begins with tag 2n + 1 and goes on with 2n + 2."""

WINDOW_TOKENS, STRIDE_TOKENS, BEFORE_TOKENS = 128, 104, 48
WINDOWS_MOST: Final = 8

LEAST_NAMED: Final = 0.3
"""The chance that a word names something from which it is taken for a name."""

WEIGHTS = Path(__file__).with_name("name_reader.npz")

FEATURES: Final = 11
_HUMP = re.compile(r"[^\W\d_][^\W\d_]*[A-Z]")
_OPENS = re.compile(r"(?:^|[.!?:\n*\"(–—>])\W*\Z")


@dataclass(frozen=True, slots=True)
class NamesWindow:
    """A window of a turn with the end of the words before it: ids, and where each token stands.

    `places[i]` is None for a mark, else 0 for the words before or 1 for the turn's own, and the characters there.
    """

    ids: tuple[int, ...]
    places: tuple[tuple[int, int, int] | None, ...]
    features: Array
    speaker: int
    """The place of the mark that stands for the person."""


def windows_of(role: str, text: str, before: str) -> list[NamesWindow]:
    """Return the windows of a turn; `before` are the last words of the other side. At least one."""
    own, other = (Mark.USER, Mark.ASSISTANT) if role == "user" else (Mark.ASSISTANT, Mark.USER)
    cut = max(0, len(before) - TOKEN_CHARS * BEFORE_TOKENS)
    context = tokenizer().encode(before[cut:], add_special_tokens=False)
    first = max(0, len(context.ids) - BEFORE_TOKENS)
    seen = [(0, cut + start, cut + end) for start, end in context.offsets[first:]]
    encoded = tokenizer().encode(text, add_special_tokens=False)
    shapes = (_shapes(before, [(start, end) for _, start, end in seen]), _shapes(text, encoded.offsets))
    starts = list(range(0, max(1, len(encoded.ids) - (WINDOW_TOKENS - STRIDE_TOKENS)), STRIDE_TOKENS))
    found = []
    for start in starts[:WINDOWS_MOST]:
        end = start + WINDOW_TOKENS
        ids = [CLS, other, *context.ids[first:], SEP, own, *encoded.ids[start:end], SEP]
        places = [None, None, *seen, None, None, *((1, s, e) for s, e in encoded.offsets[start:end]), None]
        features = np.zeros((len(ids), FEATURES), np.float32)
        features[2 : 2 + len(seen)] = shapes[0]
        features[4 + len(seen) : -1] = shapes[1][start:end]
        speaker = 1 if role != "user" else 3 + len(seen)
        found.append(NamesWindow(tuple(ids), tuple(places), features, speaker))
    return found


def _shapes(text: str, spans: Sequence[Span]) -> Array:
    """Return the shape of the word of each token, float[tokens, FEATURES]; the vocabulary has no capitals."""
    found = np.zeros((len(spans), FEATURES), np.float32)
    if not spans:
        return found
    words = {}
    for match in ALPHANUMERIC.finditer(text):
        for at in range(*match.span()):
            words[at] = match
    for row, (start, _) in zip(found, spans, strict=True):
        word = words.get(start)
        if word is None:
            row[0] = 1
            continue
        written, (begins, ends) = word[0], word.span()
        row[1] = begins == start
        row[2] = written[0].isupper()
        row[3] = written.isupper() and len(written) > 1
        row[4] = _HUMP.match(written) is not None
        row[5] = any(letter.isdigit() for letter in written)
        row[6] = _OPENS.search(text, max(0, begins - 4), begins) is not None
        row[7] = text[begins - 1 : begins] in {"-", ".", "/", "_", "@", "#"} or text[ends : ends + 1] in {"-", "/", "_"}
        row[8] = text.count("`", max(0, begins - 60), begins) % 2 == 1
        known = first_names().get(key_of(written))
        row[9], row[10] = known == "common", known is not None
    return found


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """A name in a turn, or in the words before it (`part` 0): its characters, what it names, and how sure that is."""

    part: int
    start: int
    end: int
    named: str
    sureness: float


@dataclass(frozen=True, slots=True)
class StatedRelation:
    """A relation between two spans; an end is SPEAKER or PROJECT where no word names it.

    `sureness` is the chance with the two ends marked, `first_sureness` the one without.
    """

    subject: NamedSpan | str
    relation: str
    object: NamedSpan | str
    sureness: float
    first_sureness: float = 1.0


@dataclass(frozen=True, slots=True)
class NamesRead:
    """The names of a turn and the relations that it states."""

    names: tuple[NamedSpan, ...]
    relations: tuple[StatedRelation, ...]


_KIND_WORDS: Final = (
    "person", "organization", "team", "project", "service", "tool", "place", "file", "event", "thing", "phrase",
    "speaker", "project",
)  # fmt: skip
MAY_BE_RELATED: Final = 0.1
"""The chance from which a pair is read once more with its two ends marked."""

SUBJECT_MARK, OBJECT_MARK = 1030, 1001
"""The tokens "@" and "#" of the vocabulary."""


@cache
def kind_ids() -> tuple[int, ...]:
    """Return the token of each of ENDS."""
    vocabulary = tokenizer().get_vocab()
    return tuple(vocabulary[word] for word in _KIND_WORDS)


def marked(
    ids: Sequence[int], subject: tuple[int, int, int], object_: tuple[int, int, int], kinds: Sequence[int]
) -> tuple[list[int], int, int]:
    """Put marks around two ends: "@ person marek @ owns # service ledgerly-api #"; an end is (kind, first, end).

    Return the ids and the places of the two opening marks. An end that no word names is put behind the first token.
    """
    nameless = ENDS.index(SPEAKER)
    opens: dict[int, list[tuple[int, int]]] = {}
    closes: dict[int, int] = {}
    for mark, (kind, first, end) in ((SUBJECT_MARK, subject), (OBJECT_MARK, object_)):
        at = 1 if kind >= nameless else first
        opens.setdefault(at, []).append((mark, kind))
        if kind < nameless:
            closes[end] = mark
    found: list[int] = []
    places = {}
    for at in range(len(ids) + 1):
        if at in closes:
            found.append(closes[at])
        for mark, kind in opens.get(at, ()):
            places[mark] = len(found)
            found += [mark, kinds[kind]]
            if kind >= nameless:
                found.append(mark)
        if at < len(ids):
            found.append(ids[at])
    return found, places[SUBJECT_MARK], places[OBJECT_MARK]


@dataclass(slots=True)
class _Draft:
    """A window of a turn whose names are known: the ends of relations with their tokens, and pairs to be judged."""

    turn: int
    window: NamesWindow
    ends: list[tuple[NamedSpan | str, tuple[int, ...]]]
    pairs: list[tuple[int, int]] = field(default_factory=list)
    stated: list[StatedRelation] = field(default_factory=list)
    chances: Array = field(default_factory=lambda: np.zeros((0, 0, 0), np.float32))

    def marked(self, subject: int, object_: int) -> tuple[list[int], int, int]:
        """Return the ids with marks around two ends."""
        one, other = (
            (ENDS.index(_named(end)), tokens[0], tokens[-1] + 1)
            for end, tokens in (self.ends[subject], self.ends[object_])
        )
        return marked(self.window.ids, one, other, kind_ids())


class NamesReader:
    """The encoder, loaded. Every method may be called from any thread."""

    def __init__(self, session: InferenceSession, heads: Mapping[str, Array]) -> None:
        self._session = session
        self._heads = heads

    def turns(self, said: Sequence[JudgedTurn]) -> list[NamesRead]:
        """Read turns, some milliseconds each; the reading of one does not depend on the others."""
        windows = [(at, window) for at, one in enumerate(said) for window in windows_of(one.role, one.text, one.before)]
        read: list[list[tuple[NamesWindow, NamesRead]]] = [[] for _ in said]
        drafts: list[_Draft] = []
        for batch in batches_of([len(window.ids) for _, window in windows]):
            for number, hidden in zip(batch, self._hidden([windows[n][1].ids for n in batch]), strict=True):
                at, window = windows[number]
                drafts.append(self._draft(at, said[at], window, hidden))
        asked = [(draft, pair) for draft in drafts for pair in draft.pairs]
        sequences = [draft.marked(*pair) for draft, pair in asked]
        for batch in batches_of([len(ids) for ids, _, _ in sequences]):
            for number, hidden in zip(batch, self._hidden([sequences[n][0] for n in batch]), strict=True):
                _, subject, object_ = sequences[number]
                rows = np.concatenate([hidden[subject], hidden[object_]])
                chances = _softmax(rows @ self._heads["verify.weight"].T + self._heads["verify.bias"])
                if kind := int(chances.argmax()):
                    draft, (one, other) = asked[number]
                    ends = draft.ends[one][0], draft.ends[other][0]
                    draft.stated.append(
                        StatedRelation(
                            ends[0],
                            RELATIONS[kind],
                            ends[1],
                            float(chances[kind]),
                            float(draft.chances[one, other, kind]),
                        )
                    )
        for draft in drafts:
            names = tuple(end for end, _ in draft.ends if isinstance(end, NamedSpan))
            read[draft.turn].append((draft.window, NamesRead(names, tuple(draft.stated))))
        return [_joined(sorted(found, key=lambda one: _first(one[0]))) for found in read]

    def _draft(self, at: int, said: JudgedTurn, window: NamesWindow, hidden: Array) -> _Draft:
        """Return the names of a window, and the pairs of them that may be related."""
        spans = list(_spans(window, _softmax(self._tags(window, hidden)), (said.before, said.text)))
        ends: list[tuple[NamedSpan | str, tuple[int, ...]]] = [*spans, (SPEAKER, (window.speaker,)), (PROJECT, (0,))]
        draft = _Draft(at, window, ends)
        if said.role != "user" or not any(span.part == 1 for span, _ in spans):
            return draft  # of 100 relations of assistants' turns, readers had labelled 3
        logits = self.pairs(hidden, [(ENDS.index(_named(one)), at) for one, at in ends], window)
        draft.chances = _softmax(logits)
        may_be = 1 - draft.chances[:, :, 0] >= MAY_BE_RELATED
        own = [isinstance(end, NamedSpan) and end.part == 1 for end, _ in ends]
        draft.pairs = [(int(o), int(t)) for o, t in np.argwhere(may_be) if o != t and (own[o] or own[t])]
        return draft

    def _hidden(self, batch: Sequence[Sequence[int]]) -> Iterator[Array]:
        ids = np.zeros((len(batch), max(map(len, batch))), np.int64)
        for row, one in zip(ids, batch, strict=True):
            row[: len(one)] = one
        feed = {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64), "token_type_ids": np.zeros_like(ids)}
        hidden: Array = np.asarray(self._session.run(None, feed)[0])
        for rows, one in zip(hidden, batch, strict=True):
            yield rows[: len(one)]

    def _tags(self, window: NamesWindow, hidden: Array) -> Array:
        own = np.concatenate([hidden, beside(window.features)], 1)
        inner = _gelu(own @ self._heads["tag.0.weight"].T + self._heads["tag.0.bias"])
        return np.asarray(inner @ self._heads["tag.1.weight"].T + self._heads["tag.1.bias"])

    def pairs(self, hidden: Array, ends: Sequence[tuple[int, tuple[int, ...]]], window: NamesWindow) -> Array:
        """Return the logits of every ordered pair of ends, float[ends, ends, RELATIONS]."""
        heads = self._heads
        rows = np.stack([np.concatenate([hidden[list(at)].mean(0), np.eye(len(ENDS))[kind]]) for kind, at in ends])
        subject, object_ = rows @ heads["subject.weight"].T, rows @ heads["object.weight"].T
        between, far = pair_features(hidden, [at for _, at in ends], window)
        inner = (
            subject[:, None]
            + object_[None]
            + between @ heads["between.weight"].T
            + far @ heads["far.weight"].T
            + heads["far.bias"]
        )
        return np.asarray(_gelu(inner) @ heads["relation.weight"].T + heads["relation.bias"])


FAR: Final = 9


def pair_features(hidden: Any, ends: Sequence[tuple[int, ...]], window: NamesWindow) -> tuple[Any, Array]:
    """Return the mean of the tokens between each two ends, and how far they stand apart (float[ends, ends, FAR])."""
    sums = np.concatenate([np.zeros((1, hidden.shape[1]), np.float32), np.cumsum(hidden, 0)])
    far = np.zeros((len(ends), len(ends), FAR), np.float32)
    between = np.zeros((len(ends), len(ends), hidden.shape[1]), np.float32)
    for one, subject in enumerate(ends):
        for other, object_ in enumerate(ends):
            start, end = between_of(subject, object_)
            if end > start:
                between[one, other] = (sums[end] - sums[start]) / (end - start)
            far[one, other] = distance_of(subject, object_, window)
    return between, far


def between_of(subject: tuple[int, ...], object_: tuple[int, ...]) -> Span:
    """Return the places of the tokens between two ends, none for an end that no word names (one token)."""
    first, last = (subject, object_) if subject[0] < object_[0] else (object_, subject)
    return first[-1] + 1, max(first[-1] + 1, last[0])


def distance_of(subject: tuple[int, ...], object_: tuple[int, ...], window: NamesWindow) -> Array:
    """Return the order of two ends, their distance in buckets, and which of them stand in the words before."""
    start, end = between_of(subject, object_)
    gap = end - start
    parts = [window.places[one[0]] for one in (subject, object_)]
    return np.array(
        [
            subject[0] < object_[0],
            gap <= 1,
            1 < gap <= 4,
            4 < gap <= 10,
            10 < gap <= 25,
            gap > 25,
            parts[0] is not None and parts[0][0] == 0,
            parts[1] is not None and parts[1][0] == 0,
            None in parts,
        ],
        np.float32,
    )


def beside(features: Array) -> Array:
    """Return the features of each token, of the one before and of the one behind, float[tokens, 3 * FEATURES]."""
    none = np.zeros((1, features.shape[1]), np.float32)
    return np.concatenate([features, np.vstack([none, features[:-1]]), np.vstack([features[1:], none])], 1)


def _spans(window: NamesWindow, chances: Array, texts: tuple[str, str]) -> Iterator[tuple[NamedSpan, tuple[int, ...]]]:
    """Yield the names that the tags give, each a run of whole words of one kind, with its tokens."""
    for group in _groups(window, chances, texts):
        tags = chances[list(group)]
        total = tags[:, 1::2].sum(0) + tags[:, 2::2].sum(0)
        kind = int(total.argmax())
        places = [place for at in group if (place := window.places[at]) is not None]
        span = NamedSpan(places[0][0], places[0][1], places[-1][2], NAMED[kind], float(total[kind] / len(group)))
        yield span, group


def _groups(window: NamesWindow, chances: Array, texts: tuple[str, str]) -> Iterator[tuple[int, ...]]:
    """Yield the tokens of each name: words are whole, a word begins a name or goes on with the one before it."""
    group: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    for word in _words(window, texts):
        tags = chances[list(word)].mean(0)
        named = 1 - tags[OUTSIDE] >= LEAST_NAMED
        begins = chances[word[0], 1::2].sum() >= chances[word[0], 2::2].sum()
        if group and (not named or begins or (before and not _adjoin(window, before[-1], word[0], texts))):
            yield group
            group = ()
        if named:
            group += word
        before = word
    if group:
        yield group


def _words(window: NamesWindow, texts: tuple[str, str]) -> Iterator[tuple[int, ...]]:
    """Yield the tokens of each word, letters that stand together without a space."""
    word: tuple[int, ...] = ()
    for at, place in enumerate(window.places):
        if place is None:
            if word:
                yield word
            word = ()
            continue
        last = window.places[word[-1]] if word else None
        text = texts[place[0]]
        joins = last is not None and last[2] == place[1] and text[place[1]].isalnum() and text[last[2] - 1].isalnum()
        if word and not joins:
            yield word
            word = ()
        word += (at,)
    if word:
        yield word


def _adjoin(window: NamesWindow, one: int, other: int, texts: tuple[str, str]) -> bool:
    before, after = window.places[one], window.places[other]
    return (
        before is not None
        and after is not None
        and before[0] == after[0]
        and "\n" not in texts[before[0]][before[2] : after[1]]
    )


def _named(end: NamedSpan | str) -> str:
    return end if isinstance(end, str) else end.named


def _first(window: NamesWindow) -> int:
    return next((place[1] for place in window.places if place and place[0] == 1), 0)


def _joined(windows: Sequence[tuple[NamesWindow, NamesRead]]) -> NamesRead:
    """Put the windows of a turn together: of two that overlap the first one's names and relations count."""
    names: list[NamedSpan] = []
    relations: list[StatedRelation] = []
    read = -1
    for number, (_, one) in enumerate(windows):
        fresh = [span for span in one.names if (span.part == 1 and span.start >= read) or (number == 0)]
        names += fresh
        ends = {span for span in one.names if span in fresh}
        relations += [
            each
            for each in one.relations
            if number == 0 or any(isinstance(end, NamedSpan) and end in ends for end in (each.subject, each.object))
        ]
        read = max((span.end for span in names if span.part == 1), default=read)
    return NamesRead(tuple(names), tuple(dict.fromkeys(relations)))


def _softmax(logits: Array) -> Array:
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(chances / chances.sum(-1, keepdims=True))


def _gelu(values: Array) -> Array:
    """Return the tanh form of GELU."""
    return np.asarray(0.5 * values * (1 + np.tanh(0.7978845608 * (values + 0.044715 * values**3))))


@cache
def names_reader() -> NamesReader:
    """Load the reader, once a process: half a second and 60 MiB. Raises OSError or an error of ONNX Runtime."""
    return NamesReader(*encoder(WEIGHTS))
