"""The judge: a small encoder with several heads, learned from labelled turns, that reads a turn in its place.

Layers, from below, are those of the shipped embedding model; the upper ones and the heads are of `weights.npz`, made by
`make train`. `docs/models.md` names its data and its limits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer


# ---- sequences of token ids, the same in training and at work
#
# A part begins with a mark that says whose words it is: a word of the vocabulary, since the places that it leaves
# unused have vectors that cannot be told apart (cosine .83). A long turn is read by windows, each with the
# end of the words before and the beginning of those after.

CLS, SEP = 101, 102

WINDOW_TOKENS = 96
"""Tokens of a turn that are read at once."""

STRIDE_TOKENS = 80
"""Tokens from the start of a window to that of the next."""

WINDOWS_MOST = 6
"""Windows of one turn: the first ones and the last."""

BEFORE_TOKENS, AFTER_TOKENS = 32, 20
TOKEN_CHARS = 8
"""More characters than a token has: a text is cut to so many for each wanted token before it is encoded."""

Span = tuple[int, int]


class Mark(IntEnum):
    """The tokens before the words of a side: "user" and "assistant" in the vocabulary."""

    USER = 5310
    ASSISTANT = 3353


@dataclass(frozen=True, slots=True)
class Given:
    """A window of a turn: its ids, and the places of its own tokens in the turn's text.

    `spans[i]` are the characters of token `first + i`.
    """

    ids: tuple[int, ...]
    first: int = 0
    spans: tuple[Span, ...] = ()


def of_turn(role: str, text: str, before: str, after: str) -> list[Given]:
    """Return the windows of a turn; `before` and `after` are the words of the other side. At least one."""
    own, other = (Mark.USER, Mark.ASSISTANT) if role == "user" else (Mark.ASSISTANT, Mark.USER)
    head = [CLS, other, *_ids(before[-TOKEN_CHARS * BEFORE_TOKENS :])[-BEFORE_TOKENS:], SEP, own]
    tail = [SEP]
    if role != "user" and after:
        tail += [other, *_ids(after[: TOKEN_CHARS * AFTER_TOKENS])[:AFTER_TOKENS], SEP]
    encoded = tokenizer().encode(text, add_special_tokens=False)
    return [
        Given((*head, *encoded.ids[start:end], *tail), len(head), tuple(encoded.offsets[start:end]))
        for start, end in _windows(len(encoded.ids))
    ]


def _windows(count: int) -> Iterator[Span]:
    overlap = WINDOW_TOKENS - STRIDE_TOKENS
    starts = range(0, max(1, count - overlap), STRIDE_TOKENS)
    # A long turn says its point at the beginning or at the end.
    for start in starts if len(starts) <= WINDOWS_MOST else [*starts[: WINDOWS_MOST - 1], starts[-1]]:
        yield start, min(start + WINDOW_TOKENS, count)


def _ids(text: str) -> list[int]:
    ids: list[int] = tokenizer().encode(text, add_special_tokens=False).ids
    return ids


@cache
def tokenizer() -> Tokenizer:
    """Return the shipped model's tokenizer, neither cutting nor padding."""
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(Path(__file__).parents[1] / "text" / "data" / "minilm" / "tokenizer.json"))
    loaded.no_truncation()
    loaded.no_padding()
    return loaded


# ---- the heads

KINDS: Final = (
    "decision",
    "preference",
    "correction",
    "procedure",
    "pitfall",
    "person",
    "event",
    "value",
    "finding",
    "done",
)
FOUND: Final = "finding"
"""The first of the kinds that only an assistant's turns have."""
STANDING: Final = "preference"
"""The kind of a standing instruction."""

REPLIES: Final = (
    "new",
    "accept",
    "accept_part",
    "reject",
    "correct",
    "answer",
    "refine",
    "command",
    "report",
    "question",
    "chat",
)
HEADS: Final[Mapping[str, int]] = {
    "user": 1,
    "assistant": 1,
    "kind": len(KINDS),
    "reply": len(REPLIES),
    "refuted": 1,
}
"""The heads over a whole window, with their outputs; `kept` is one more, over each token."""

BATCH_TOKENS: Final = 2_048
"""Padded tokens that are read at once."""

WEIGHTS = Path(__file__).with_name("weights.npz")

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class JudgedTurn:
    """A turn to be judged: its own words, and those of the other side before and after it."""

    role: str
    text: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The opinion on a turn; each number is a probability.

    `worth`: a careful colleague would write it down. `kind`: the kind of note. `reply`: how a person's turn answers the
    one before. `refuted`: an assistant's claim is corrected by its person's next turn. `standing`: a person's turn says
    how things are to be from now on. `spans` are its tokens' places with the probability that these are the words worth
    keeping.
    """

    worth: float
    kind: str
    reply: str
    refuted: float
    standing: float = 0.0
    spans: tuple[tuple[int, int, float], ...] = ()

    def worth_of(self, places: Sequence[Span]) -> float:
        """Return the mean probability of the tokens in these places; 0 where none was read."""
        found = [chance for start, end, chance in self.spans if any(start < e and end > s for s, e in places)]
        return sum(found) / len(found) if found else 0.0


class Judge:
    """The encoder, loaded. Every method may be called from any thread."""

    def __init__(self, session: InferenceSession, heads: Mapping[str, Array]) -> None:
        self._session = session
        self._heads = heads

    def turns(self, said: Sequence[JudgedTurn]) -> list[Judgement]:
        """Judge turns, some milliseconds each; the judgement of one does not depend on the others."""
        # Windows of all turns are batched by length, and put together by turn again.
        windows = [
            (at, given) for at, one in enumerate(said) for given in of_turn(one.role, one.text, one.before, one.after)
        ]
        outputs: list[list[tuple[Given, Mapping[str, Array]]]] = [[] for _ in said]
        for batch in batches_of([len(given.ids) for _, given in windows]):
            read = self._read([windows[number][1] for number in batch])
            for number, output in zip(batch, read, strict=True):
                outputs[windows[number][0]].append((windows[number][1], output))
        return [_judgement(one.role, found) for one, found in zip(said, outputs, strict=True)]

    def _read(self, batch: Sequence[Given]) -> Iterator[Mapping[str, Array]]:
        """Yield the logits of every head for each sequence, and of each of its own tokens."""
        ids = np.zeros((len(batch), max(len(given.ids) for given in batch)), np.int64)
        for row, given in zip(ids, batch, strict=True):
            row[: len(given.ids)] = given.ids
        feed = {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64), "token_type_ids": np.zeros_like(ids)}
        hidden: Array = np.asarray(self._session.run(None, feed)[0])
        for rows, given in zip(hidden, batch, strict=True):
            own = rows[given.first : given.first + len(given.spans)]
            # The first token sums up the whole window, the mean of its own tokens the turn alone.
            pooled = np.concatenate([rows[0], own.mean(axis=0) if len(own) else np.zeros_like(rows[0])])
            found = {name: pooled @ self._heads[f"{name}.weight"].T + self._heads[f"{name}.bias"] for name in HEADS}
            yield found | {"kept": own @ self._heads["kept.weight"][0] + self._heads["kept.bias"]}


def batches_of(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield numbers of sequences of like lengths, few enough to be read at once."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[number] * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _judgement(role: str, windows: Sequence[tuple[Given, Mapping[str, Array]]]) -> Judgement:
    """Put the windows of a turn together: its worth, and with it the kind, are those of the best one."""
    # The batches return windows in any order; the reply is read from the first, the worth from the best.
    ordered = sorted(windows, key=lambda window: window[0].spans[:1])
    head = "user" if role == "user" else "assistant"
    best = max(ordered, key=lambda window: float(window[1][head][0]))[1]
    spans = (
        (start, end, worth * float(chance))
        for given, output in ordered
        for worth in (float(_probability(output[head][0])),)
        for (start, end), chance in zip(given.spans, _probability(output["kept"]), strict=True)
    )
    # A person finds nothing out in their own words, an assistant alone does.
    kinds = best["kind"][: KINDS.index(FOUND)] if head == "user" else best["kind"]
    return Judgement(
        float(_probability(best[head][0])),
        KINDS[int(kinds.argmax())],
        REPLIES[int(ordered[0][1]["reply"].argmax())] if role == "user" else "",
        max(float(_probability(output["refuted"][0])) for _, output in ordered) if role != "user" else 0.0,
        _share(kinds, KINDS.index(STANDING)) if role == "user" else 0.0,
        tuple(spans),
    )


def _share(logits: Array, place: int) -> float:
    """Return the probability of one of several that exclude each other (softmax)."""
    chances = np.exp(logits - logits.max())
    return float(chances[place] / chances.sum())


def _probability(logits: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float32)


_LOADING: Final = Lock()


def judge() -> Judge:
    """Load the judge, once a process: half a second and 60 MiB. Raises OSError or an error of ONNX Runtime."""
    with _LOADING:  # two threads at once would load it twice, and numpy's reader of headers is not made for two
        return _loaded()


@cache
def _loaded() -> Judge:
    return Judge(*encoder(WEIGHTS))


def encoder(weights: Path) -> tuple[InferenceSession, dict[str, Array]]:
    """Load the shipped encoder with the upper layers of a file of weights; the heads of that file come beside it."""
    import onnxruntime

    from ..embedding.fastembed_loading import keep_the_heap_small, packaged_weights
    from ..embedding.quantized_model import integer_model, read_constants, trained

    keep_the_heap_small()
    own = trained(weights)
    packaged = packaged_weights().read_bytes()
    model = integer_model(read_constants(memoryview(packaged)) | own)
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(b"".join(model.pieces), options, providers=["CPUExecutionProvider"])
    return session, {name.removeprefix("head."): own[name] for name in own if name.startswith("head.")}


def unload() -> None:
    """Drop the loaded judge and give its memory back, where turns are judged only now and then."""
    from ..embedding.fastembed_loading import return_freed_memory

    _loaded.cache_clear()
    return_freed_memory()
