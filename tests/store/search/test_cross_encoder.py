"""The cross-encoder: the best of both arms in its order, and the fused order where it is not there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import fastembed.rerank.cross_encoder
import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import SearchSettings, StoreSettings

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SAID = ("The boat is painted blue", "The boat is painted", "Blue paint for the boat is in the shed")


class Longest:
    """A model that prefers long texts."""

    def __init__(self, name: str, **options: Any) -> None:
        self.given = name, options

    def rerank(self, query: str, documents: Iterable[str]) -> Iterator[float]:
        return (float(len(text)) for text in documents)


def found(paths: StorePaths, **settings: Any) -> list[tuple[str, float]]:
    search = SearchSettings(cross_encoder="Xenova/ms-marco-MiniLM-L-6-v2", **settings)
    store = MemoryStore.open(paths, StoreSettings(search=search), StubEmbedder(), lambda: NOW)
    with closing(store):
        for text in SAID:
            store.remember(text, channel="harbour").result()
        store.embed([hit.node_id for hit in store.recall("boat painted blue", channel="harbour").hits])
        hits = store.recall("boat painted blue", channel="harbour").hits
    return [(hit.text, hit.score) for hit in hits]


def test_the_model_orders_what_it_reads(paths: StorePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastembed.rerank.cross_encoder, "TextCrossEncoder", Longest)
    ranked = found(paths)
    assert [text for text, _ in ranked] == sorted(SAID, key=len, reverse=True)
    assert [score for _, score in ranked] == sorted((score for _, score in ranked), reverse=True)


def test_it_reads_the_best_alone(paths: StorePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    fused = [text for text, _ in found(paths)]
    monkeypatch.setattr(fastembed.rerank.cross_encoder, "TextCrossEncoder", Longest)
    assert [text for text, _ in found(paths, cross_encoder_reads=1)] == fused


def test_a_model_that_is_not_there_leaves_the_fused_order(
    paths: StorePaths, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ranked = found(paths)
    assert {text for text, _ in ranked} == set(SAID)
    assert ranked[0][0] == "The boat is painted blue"
    assert sum("cannot be loaded" in record.message for record in caplog.records) == 1, "it is tried once"
