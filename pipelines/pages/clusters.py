"""Clusters of facts by their embeddings; the same facts give the same clusters in every run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..workspace.checkpoint import Memo, once
from ..workspace.view import Vectors

SMALLEST = 4
LARGEST = 40  # a scenario that a person still reads; what is beyond stays free for the next
MOST_POINTS = 3_000
"""The spanning tree takes n² steps: .9 s for 3,000 points here."""
JOINS_AT = 0.55
"""Cosine from which a fact belongs to an existing centre."""
LEAVES_BELOW = 0.3
"""Cosine below which it belongs to its own no longer; two facts of one conversation are as near as that by chance."""

_DIMENSIONS = 24  # density means little in 384 dimensions: 9 of 10 facts were noise there, 1 of 2 here


def cluster(vectors: Vectors, memo: Memo | None = None) -> list[list[int]]:
    """Return the rows that form clusters, each in ascending order, the clusters by their first row.

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
    """Return the direction of the mean of some rows, at unit length."""
    mean = vectors.mean(axis=0)
    length = float(np.linalg.norm(mean))
    return np.asarray(mean / length if length else mean, np.float32)


def nearest(vectors: Vectors, centres: Vectors) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return for each row the nearest centre and its cosine."""
    cosines = vectors @ centres.T
    best = cosines.argmax(axis=1)
    return best, np.asarray(cosines[np.arange(len(vectors)), best], np.float32)


def _labels(vectors: Vectors) -> NDArray[np.int64]:
    """Return the cluster of each row, counted from 0, or -1: the leaves of HDBSCAN's condensed tree."""
    # HDBSCAN (Campello 2013) with one neighbour to a core point is single linkage: components merge over the shortest
    # gap first. Two components of at least SMALLEST rows that meet are clusters, each of them unless it was made of
    # such clusters itself; a smaller one is absorbed. scikit-learn's HDBSCAN with min_cluster_size=4, min_samples=2 and
    # the leaf method gave the same clusters for the turns of three LoCoMo conversations (408, 332 and 651 vectors).
    #
    # An example with SMALLEST = 4 and points at 0 1 2 3, 10 11 12 13 and 40: each four merge over gaps of 1, then meet
    # over the gap of 7, which makes clusters of both. 40 comes to a component that holds clusters: it is in none.
    labels = np.full(len(vectors), -1, np.int64)
    component_of = {row: ([row], False) for row in range(len(vectors))}  # rows, and whether they hold clusters
    clusters = 0
    for left, right in _spanning_edges(_reduced(vectors)):
        (rows, split), (others, others_split) = component_of[left], component_of[right]
        if meet := min(len(rows), len(others)) >= SMALLEST:
            for grown in [rows] * (not split) + [others] * (not others_split):
                labels[grown] = clusters
                clusters += 1
        merged = ([*rows, *others], meet or split or others_split)
        component_of.update(dict.fromkeys(merged[0], merged))
    return labels


def _spanning_edges(points: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the edges of the minimum spanning tree, the shortest first (Prim 1957: n² steps, .3 s for 3,000)."""
    inside, row = np.zeros(len(points), bool), 0
    gaps, nearest_inside = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
    edges: list[tuple[float, int, int]] = []
    for _ in range(1, len(points)):
        inside[row] = True
        squares = np.square(points - points[row]).sum(axis=1)
        nearer = squares < gaps
        gaps[nearer], nearest_inside[nearer] = squares[nearer], row
        row = int(np.where(inside, np.inf, gaps).argmin())
        edges.append((float(gaps[row]), int(nearest_inside[row]), row))
    return [(left, right) for _, left, right in sorted(edges)]


def _reduced(vectors: Vectors) -> NDArray[np.float64]:
    """Project onto the leading principal components, at unit length again."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred)
    points = centred @ directions[:, np.argsort(values)[::-1][:_DIMENSIONS]]
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    return np.asarray(points / np.where(lengths > 0, lengths, 1), np.float64)


def _bounded(group: Sequence[int], vectors: Vectors) -> list[list[int]]:
    """Keep the LARGEST rows that are nearest to the middle of a group that is too large."""
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
