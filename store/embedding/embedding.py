"""Text becomes vectors: the shipped model, the multilingual one, any other of fastembed's, and a stub for tests."""

from __future__ import annotations

import math
import re
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..engine.interface import Vector
from ..model import StoreError
from ..settings import EmbeddingSettings
from ..text.chunking import estimate_tokens
from ..text.words import WORD_CHARACTERS, index_stem
from .fastembed_loading import (
    MINILM_DIMENSION,
    MINILM_ID,
    PREPARED_ID,
    UNTRAINED_ID,
    Minilm,
    dimension_of,
    load_minilm,
    load_named,
)
from .multilingual import MULTILINGUAL_ID, Multilingual, MultilingualMissing, load_multilingual

BATCH_TOKENS = 512
"""A batch's padded tokens. More made it no faster (1,740 tokens a second, 1,600 with 1,024, 1,540 with 2,048, all on a
busy core) and took more memory: a peak of 229 MiB, 294, 431."""

MAX_TOKENS = 512
"""Where fastembed cuts a text for the shipped model, as its tokenizer_config says."""


class ModelUnavailable(StoreError):
    """The embedding model could not be loaded; keyword search goes on without it."""


class QueryEmbedder(Protocol):
    """Turns questions into vectors of unit length."""

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question. Loads the model first if need be. Raises ModelUnavailable."""
        ...


class Embedder(QueryEmbedder, Protocol):
    """Turns text into vectors of unit length. Any thread may call it; queries and bulk may run at once."""

    @property
    def model_id(self) -> str:
        """Names the model and everything that changes its vectors; stored with them."""
        ...

    @property
    def made_by(self) -> str:
        """The id of the model in use: its own, or that of a near model in its place."""
        ...

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    @property
    def ready(self) -> bool:
        """True if embedding would start at once."""
        ...

    def start(self) -> None:
        """Begin to load in the background; again is harmless."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until loading has ended; says whether it is ready."""
        ...

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts that are to be found, in their order. Raises ModelUnavailable."""
        ...


def embedder_for(settings: EmbeddingSettings, cache_dir: Path) -> Embedder:
    """Return the embedder that the settings name; nothing is loaded yet."""
    return StubEmbedder() if settings.model == STUB else FastembedEmbedder(settings, cache_dir)


NEAR_MODELS: dict[str, frozenset[str]] = {PREPARED_ID: frozenset({MINILM_ID, UNTRAINED_ID})}
"""Of a model, those whose vectors can be mixed with its own until they are computed again: 288 questions of four people
that were not trained on find .54 of their turns with vectors of the model alone, .52 where half are of the package's
file, .51 where all are, and .50 by that file itself."""


STUB = "stub"
MINILM = "minilm"
MULTILINGUAL = "multilingual"
OWN_IDS = {MINILM: PREPARED_ID, MULTILINGUAL: MULTILINGUAL_ID}
"""By their names in the settings, the models that are prepared here; both have vectors of one length."""


@dataclass(frozen=True, slots=True)
class ModelRule:
    """The prefixes that a family of models expects before a text. `pattern` is searched in the model's name."""

    pattern: str
    query_prefix: str = ""
    passage_prefix: str = ""


MODEL_RULES: tuple[ModelRule, ...] = (
    ModelRule(rf"^{MULTILINGUAL}$|(^|/)(multilingual-)?e5-", "query: ", "passage: "),
    ModelRule(r"nomic-embed", "search_query: ", "search_document: "),
    ModelRule(r"bge-.*-en|mxbai|snowflake-arctic", "Represent this sentence for searching relevant passages: "),
)
"""From the model cards; the first that matches counts, none means no prefixes."""


def rule_for(model: str) -> ModelRule:
    """Return the rule of the model's family."""
    return next((rule for rule in MODEL_RULES if re.search(rule.pattern, model, re.IGNORECASE)), ModelRule(""))


class FastembedEmbedder:
    """fastembed, loaded in the background, fed with batches whose memory is bounded."""

    def __init__(self, settings: EmbeddingSettings, cache_dir: Path) -> None:
        self._settings = settings
        self._cache_dir = cache_dir
        self._rule = rule_for(settings.model)
        self._model: Any = None
        self._stands_in: str | None = None
        self._problem: Exception | None = None
        self._loaded = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def model_id(self) -> str:
        """The id of a model that is prepared here, or fastembed's name."""
        return OWN_IDS.get(self._settings.model, self._settings.model)

    @property
    def made_by(self) -> str:
        """The model's id, or that of the package's file if that could not be prepared."""
        return self._stands_in or self.model_id

    @property
    def dimension(self) -> int:
        """384 for a model that is prepared here; asking for another's imports fastembed (2 s)."""
        if self._settings.model in OWN_IDS:
            return MINILM_DIMENSION
        try:
            return dimension_of(self._settings.model)
        except (ImportError, ValueError) as problem:
            raise self._unavailable(problem) from problem

    @property
    def ready(self) -> bool:
        """True once the model is loaded."""
        return self._model is not None

    def start(self) -> None:
        """Begin to load in the background; again is harmless."""
        with self._starting:
            if self._thread is None:
                # A process that ends is to wait for it, seconds at most: the interpreter stops a daemon thread where it
                # comes back from the model's library, which then aborts the process. A download may take any time.
                may_last = self._settings.allow_download
                self._thread = threading.Thread(target=self._load, name="embedding-load", daemon=may_last)
                self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until loading has ended; says whether it is ready."""
        self.start()
        self._loaded.wait(timeout_s)
        return self.ready

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question. Loads the model first if need be. Raises ModelUnavailable."""
        return self._embed([self._rule.query_prefix + text])[0]

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of texts, in their order; batches of like length, so that little is padded."""
        # Texts of like length share a batch; the vectors go back to the places of their texts.
        prefixed = [self._rule.passage_prefix + text for text in texts]
        vectors: list[Vector] = [np.empty(0, np.float32)] * len(texts)
        for batch in batches_by_length(prefixed, BATCH_TOKENS):
            for place, vector in zip(batch, self._embed([prefixed[place] for place in batch]), strict=True):
                vectors[place] = vector
        return vectors

    def _embed(self, texts: list[str]) -> list[Vector]:
        model = self._ready_model()
        # Models that are prepared here are run directly, all others by fastembed.
        if isinstance(model, Minilm | Multilingual):
            return list(model.embed(texts))
        return [np.asarray(vector, np.float32) for vector in model.embed(texts, batch_size=len(texts))]

    def _ready_model(self) -> Any:
        if self._model is None and not self.wait():
            raise self._unavailable(self._problem) from self._problem
        return self._model

    def _unavailable(self, problem: Exception | None) -> ModelUnavailable:
        if isinstance(problem, MultilingualMissing):
            return ModelUnavailable(f"the embedding model {MULTILINGUAL} is not installed ({problem})", problem.hint)
        return ModelUnavailable(
            f"the embedding model {self._settings.model} could not be loaded ({type(problem).__name__}: {problem})",
            "Name another in the setting embedding.model, or set embedding.allow_download to fetch this one.",
        )

    def _load(self) -> None:
        try:
            self._model = self._open()
        except Exception as problem:  # the thread's boundary: callers that need the model get the error
            self._problem = problem
        finally:
            self._loaded.set()

    def _open(self) -> Any:
        settings = self._settings
        if settings.model == MINILM:
            loaded = load_minilm(self._cache_dir, settings.threads)
            self._stands_in = None if loaded.model_id == self.model_id else loaded.model_id
            return loaded
        if settings.model == MULTILINGUAL:
            return load_multilingual(self._cache_dir, settings.threads)
        return load_named(settings.model, self._cache_dir, settings.threads, settings.allow_download)


def batches_by_length(texts: Sequence[str], batch_tokens: int) -> Iterator[list[int]]:
    """Places of texts, shortest first, in batches whose padded size is at most `batch_tokens` (or one text)."""
    lengths = [min(MAX_TOKENS, estimate_tokens(text)) for text in texts]
    # Padded size is the longest of a batch times its number; in sorted order the longest is the next one.
    batch: list[int] = []
    for place in sorted(range(len(texts)), key=lambda place: (lengths[place], place)):
        if batch and lengths[place] * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


class StubEmbedder:
    """A hashed bag of stemmed words: deterministic, fast, and good enough that like texts are near. For tests."""

    model_id = "stub-bag-of-words"
    ready = True

    @property
    def made_by(self) -> str:
        """Return its own id."""
        return self.model_id

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension

    def start(self) -> None:
        """Do nothing: there is no model to load."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True at once: it is always ready."""
        return True

    def embed_query(self, text: str) -> Vector:
        """Return the same vector as for a passage."""
        vector = np.zeros(self.dimension, np.float32)
        for word, times in Counter(WORD_CHARACTERS.findall(text.lower())).items():
            # One bit of the hash is the sign, so that collisions cancel out instead of adding up.
            digest = zlib.crc32(index_stem(word).encode())
            vector[digest % self.dimension] += (1.0 if digest & 0x80000000 else -1.0) * (1.0 + math.log(times))
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:  # a text without words still needs a vector of unit length
            vector[0], norm = 1.0, 1.0
        return vector / np.float32(norm)

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Each text's vector."""
        return [self.embed_query(text) for text in texts]
