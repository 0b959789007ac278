"""How frequent words are, by rank, in what was said and in what is made of it.

`python -m tests.bench.growth.frequencies [--sizes 10000 …]`
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from dreamd.store import embedder_for
from dreamd.store.engine.bm25 import words
from dreamd.store.settings import EmbeddingSettings

from ..options import Options
from .sentences import Sentences, said_in
from .suite import KEPT, short

RANKS = (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def main() -> int:
    """Print a table: the share of turns that have the word of each rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--kept", type=Path, default=KEPT, help="where the memories are kept")
    given = parser.parse_args()
    embedder = embedder_for(EmbeddingSettings(threads=1), given.kept / "models")
    embedder.start()
    embedder.wait()
    sentences = Sentences(Options().data, embedder, given.kept)
    said = said_in(Options().data)
    random.Random(1).shuffle(said)
    columns = {f"said, {len(said):,}": _by_rank(said)}
    columns[f"made, {len(said):,}"] = _by_rank(sentences.turn(number).text for number in range(len(said)))
    columns |= {
        f"made, {short(size)}": _by_rank(sentences.turn(number).text for number in range(size)) for size in given.sizes
    }
    print(f"{'rank':>9}", *(f"{name:>14}" for name in columns))
    for place, rank in enumerate(RANKS):
        print(f"{rank:>9,}", *(f"{shares[place]:>14}" for shares in columns.values()))
    for place, name in enumerate(("words", "a turn", "once"), len(RANKS)):
        print(f"{name:>9}", *(f"{shares[place]:>14}" for shares in columns.values()))
    return 0


def _by_rank(texts: Iterable[str]) -> Sequence[str]:
    """Return the shares of texts that have the word of each rank; then how many words there are, a text has, and are
    in one text alone."""
    having: Counter[str] = Counter()
    count = 0
    for text in texts:
        having.update(set(words(text)))
        count += 1
    ordered = sorted(having.values(), reverse=True)
    shares = [f"{ordered[rank - 1] / count:.2g}" if rank <= len(ordered) else "" for rank in RANKS]
    alone = sum(found == 1 for found in ordered)
    return [*shares, f"{len(ordered):,}", f"{having.total() / count:.1f}", f"{alone:,}"]


if __name__ == "__main__":
    sys.exit(main())
