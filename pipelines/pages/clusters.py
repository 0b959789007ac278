"""Clusters: which facts belong together, by their embeddings; the same facts give the same clusters every night."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..workspace.checkpoint import Memo, once
from ..workspace.view import Vectors

SMALLEST = 4
LARGEST = 40  # a scenario that a person still reads; what is beyond stays free for the next
MOST_POINTS = 3_000
"""HDBSCAN grows faster than linearly: 10,000 points took 94 s."""
JOINS_AT = 0.55
"""Cosine from which a fact belongs to an existing centre."""
LEAVES_BELOW = 0.3
"""Cosine below which it belongs to its own no longer; two facts of one conversation are as near as that by chance."""

_DIMENSIONS = 24  # density means little in 384 dimensions: 9 of 10 facts were noise there, 1 of 2 here


def cluster(vectors: Vectors, memo: Memo | None = None) -> list[list[int]]:
    """Rows that form clusters, each in ascending order, the clusters by their first row.

    At most the first MOST_POINTS rows are clustered; the others join the nearest centre if one is near enough.
    """
    if len(vectors) < 2 * SMALLEST:
        return []
    points = np.ascontiguousarray(vectors[:MOST_POINTS])
    parts = ("clusters", str(SMALLEST), str(_DIMENSIONS), points.tobytes())
    labels = np.frombuffer(once(memo, parts, lambda: _labels(points).tobytes()), np.int64)
    found = [np.flatnonzero(labels == label).tolist() for label in range(labels.max(initial=-1) + 1)]
    groups: list[list[int]] = [piece for group in found for piece in _bounded(group, vectors)]
    if len(vectors) > MOST_POINTS and groups:
        _join_rest(groups, vectors)
    return sorted(sorted(group) for group in groups if len(group) >= SMALLEST)


def centre(vectors: Vectors) -> Vectors:
    """The direction of the mean of some rows."""
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean / length if length else mean, np.float32)


def nearest(vectors: Vectors, centres: Vectors) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """For each row the nearest centre and its cosine."""
    cosines = vectors @ centres.T
    best = cosines.argmax(axis=1)
    return best, np.asarray(cosines[np.arange(len(vectors)), best], np.float32)


def _labels(vectors: Vectors) -> NDArray[np.int64]:
    from sklearn.cluster import HDBSCAN  # 4 s to import: only a dream that clusters pays

    points = _reduced(vectors)
    model = HDBSCAN(
        min_cluster_size=SMALLEST,
        min_samples=2,
        cluster_selection_method="leaf",
        copy=True,  # pyright: ignore[reportArgumentType]  # its default warns, and has the only type that is told
        n_jobs=1,
    )
    return np.asarray(model.fit_predict(points), np.int64)


def _reduced(vectors: Vectors) -> NDArray[np.float64]:
    """The leading principal components, unit length again."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    points = centred @ directions[:, np.argsort(values)[::-1][:_DIMENSIONS]]
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 0, lengths, 1), np.float64)


def _bounded(group: Sequence[int], vectors: Vectors) -> list[list[int]]:
    """The LARGEST rows nearest to the middle of a group that is too large."""
    if len(group) <= LARGEST:
        return [list(group)]
    rows = np.asarray(group)
    cosines = vectors[rows] @ centre(vectors[rows])
    order = np.lexsort((rows, -cosines))
    return [sorted(rows[order[:LARGEST]].tolist())]


def _join_rest(groups: list[list[int]], vectors: Vectors) -> None:
    centres = np.stack([centre(vectors[group]) for group in groups])
    best, cosines = nearest(vectors[MOST_POINTS:], centres)
    for offset, (place, cosine) in enumerate(zip(best.tolist(), cosines.tolist(), strict=True)):
        if cosine >= JOINS_AT and len(groups[place]) < LARGEST:
            groups[place].append(MOST_POINTS + offset)
