"""Suite `query_cache`: which questions share what was found, and whether it is what they would have found themselves.

LoCoMo's questions are asked, then each again in other spellings of the same words, which may share, and with another
name, another number and a negation, which may not. What the cosine alone would have let through stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from dreamd.store import MemoryStore
from dreamd.store.find.search.query_cache import TOP, QueryCache
from dreamd.store.find.search.question import Question
from dreamd.store.find.search.search import Ranking
from dreamd.store.settings import QueryCacheSettings

from .datasets import locomo
from .in_process import DaemonInProcess
from .options import Options
from .scratch import own_folder
from .table import Row, skipped

HOW = (
    "LoCoMo dev, categories 1 to 4, shipped model; each question asked, then its variants, one generation of the index"
)
NEAR = 0.95
"""The cosine at which caches elsewhere take two questions for the same."""

_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_VERB = re.compile(r"\b(did|does|is|was|has|can|would|will)\b")


def _spelled_otherwise(text: str) -> Iterator[str]:
    yield text.lower()
    yield text.upper()
    yield f"  {text.replace('?', ' ?')}"
    yield text.rstrip("?.")
    yield re.sub(r"^(What|Who|Where|How) is\b", r"\1's", text)
    yield text.replace(" the ", " ")


def _about_another(text: str, names: Sequence[str]) -> Iterator[str]:
    for name in _NAME.findall(text)[:1]:
        yield from (text.replace(name, other) for other in names if other != name)
    yield _NUMBER.sub(lambda found: str(int(found[0]) + 1), text) if _NUMBER.search(text) else f"{text} In 2024?"
    yield _VERB.sub(r"\1 not", text, count=1)


@dataclass
class Tally:
    """Of some questions asked after others: how many were near, how many shared, how often the ten best differed."""

    asked: int = 0
    near: int = 0
    near_and_differ: int = 0
    shared: int = 0
    shared_and_differ: int = 0

    def __str__(self) -> str:
        return (
            f"of {self.asked:,}: {self.shared:,} shared, of which {self.shared_and_differ} had another top {TOP}; a "
            f"cosine of {NEAR} alone would share {self.near:,}, {self.near_and_differ:,} of them with another top {TOP}"
        )


def measure(options: Options) -> Iterator[Row]:
    """Yield what shares among spellings of the same, among other questions, and among the set's own pairs."""
    file = options.data / "locomo" / "dev.json"
    if not file.is_file():
        yield skipped("query cache", "no false hit", f"there is no {file}")
        return
    with own_folder("query-cache") as scratch:
        data = locomo(file, scratch, 1 if options.quick else 3)
        with DaemonInProcess(scratch / "store") as daemon:
            data.observed_by(daemon)
            daemon.wait_until_embedded()
            tallies = _tallies(daemon.store, [Question(text=one.text, channel=one.channel) for one in data.questions])
    same, other, own = (tallies[name] for name in ("same", "other", "own"))
    yield Row("query cache: the same words, spelled otherwise", str(same), "≤ 1 % differ", _few(same), HOW)
    yield Row("query cache: another name, number or a negation", str(other), "0 shared", other.shared == 0, HOW)
    yield Row("query cache: the set's own questions, each after all others", str(own), "0 differ", _few(own), HOW)


def _few(tally: Tally) -> bool:
    return 100 * tally.shared_and_differ <= tally.shared


def _tallies(store: MemoryStore, questions: Sequence[Question]) -> Mapping[str, Tally]:
    names = sorted({name for one in questions for name in _NAME.findall(one.text)})[:2] or ["Tom"]
    tallies = {name: Tally() for name in ("same", "other", "own")}
    kept: list[tuple[Question, Ranking]] = []
    for one in questions:
        own = _cache(store)
        first = own.rank(one)
        before = _top(first)
        for name, variants in (("same", _spelled_otherwise(one.text)), ("other", _about_another(one.text, names))):
            for text in {text for text in variants if text != one.text}:
                _tally(tallies[name], store, own, first, before, Question(text=text, channel=one.channel))
        kept.append((one, first))
    units = [ranking.vector / np.linalg.norm(ranking.vector) for _, ranking in kept if ranking.vector is not None]
    vectors = np.stack(units)
    near = np.argwhere(np.triu(vectors @ vectors.T, 1) >= NEAR)
    for place, other in near.tolist():
        (asked, ranking), (again, _) = kept[place], kept[other]
        if asked.channel == again.channel and asked.text != again.text:
            own = _cache(store)
            own.rank(asked)
            _tally(tallies["own"], store, own, ranking, _top(store.parts.search.rank(asked)), again)
    return tallies


def _tally(
    tally: Tally, store: MemoryStore, cache: QueryCache, first: Ranking, before: list[str], asked: Question
) -> None:
    hits = cache.status()["hits"]
    fresh = store.parts.search.rank(asked)
    shared = cache.rank(asked)
    is_near = _cosine(first, fresh) >= NEAR
    has_shared = cache.status()["hits"] > hits
    tally.asked += 1
    tally.near += is_near
    tally.near_and_differ += is_near and _top(fresh) != before
    tally.shared += has_shared
    tally.shared_and_differ += has_shared and _top(shared) != _top(fresh)


def _cache(store: MemoryStore) -> QueryCache:
    """Return a cache of its own that keeps at once."""

    def now(job: Callable[[], None]) -> None:
        job()

    return QueryCache(store.parts.search, QueryCacheSettings(), lambda: 0, now, store.parts.now)


def _top(ranking: Ranking) -> list[str]:
    return [candidate.unit for candidate in ranking.candidates[:TOP]]


def _cosine(one: Ranking, other: Ranking) -> float:
    if one.vector is None or other.vector is None:
        return 0.0
    return float(one.vector @ other.vector / (np.linalg.norm(one.vector) * np.linalg.norm(other.vector)))
