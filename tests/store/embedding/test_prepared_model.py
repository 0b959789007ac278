from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dreamd.store.embedding import fastembed_loading
from dreamd.store.embedding.fastembed_loading import (
    MINILM_ID,
    PREPARED_ID,
    assemble_minilm,
    load_minilm,
    load_packaged,
    packaged_weights,
    prepared_weights,
)
from dreamd.store.embedding.quantized_model import (
    MINILM,
    PREPARED_SHA256,
    NotPrepared,
    integer_model,
    prepare,
    read_constants,
)

SENTENCES = [
    "I adopted a cat in Berlin",
    "ok",
    "The build fails with E0425 in crates/parser/src/lexer.rs, line 212",
    "We moved the nightly export from cron to systemd timers because cron swallowed the exit code.",
    "東京タワーに行きました",
    "word " * 300,
]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def vectors(model: fastembed_loading.Minilm, texts: list[str]) -> np.ndarray:
    return model.embed(texts)


def test_the_prepared_file_has_the_hash_that_is_known(cache_dir: Path) -> None:
    made = prepared_weights(cache_dir)
    assert hashlib.sha256(made.read_bytes()).hexdigest() == PREPARED_SHA256
    written_at = made.stat().st_mtime_ns
    assert prepared_weights(cache_dir).stat().st_mtime_ns == written_at, "made once"


def test_with_the_same_weights_its_vectors_are_those_of_the_package(cache_dir: Path, tmp_path: Path) -> None:
    packaged = load_packaged(cache_dir, 1)
    expected = np.array(list(packaged.model.embed(SENTENCES)))
    np.testing.assert_allclose(packaged.embed(SENTENCES), expected, atol=1e-5)
    untrained = tmp_path / "untrained.onnx"
    constants = read_constants(memoryview(packaged_weights().read_bytes()))
    untrained.write_bytes(b"".join(integer_model(constants).pieces))
    own = fastembed_loading.Minilm(_opened(assemble_minilm(tmp_path / "cache", untrained)), "untrained")
    cosines = (vectors(own, SENTENCES) * expected).sum(axis=1)
    assert cosines.min() > 0.95
    assert cosines.mean() > 0.985


def _opened(folder: Path) -> Any:
    return fastembed_loading._open_minilm(fastembed_loading.import_text_models(), folder, 1)


def test_the_trained_vectors_may_stand_among_those_of_the_package(cache_dir: Path) -> None:
    loaded, packaged = load_minilm(cache_dir, 1), load_packaged(cache_dir, 1)
    assert (loaded.model_id, loaded.problem) == (PREPARED_ID, None)
    question = loaded.embed(["how is the export run at night?"])
    nearest = packaged.embed(SENTENCES) @ question[0]
    assert int(nearest.argmax()) == 3


def test_a_vector_does_not_depend_on_its_batch(cache_dir: Path) -> None:
    loaded = load_minilm(cache_dir, 1)
    together = vectors(loaded, SENTENCES)
    alone = np.concatenate([vectors(loaded, [sentence]) for sentence in SENTENCES])
    assert (together * alone).sum(axis=1).min() > 0.9999


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    target.write_bytes(b"half a mod")
    prepare(packaged_weights(), target)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == PREPARED_SHA256
    assert list(tmp_path.iterdir()) == [target]


def test_two_that_prepare_at_once_agree(tmp_path: Path) -> None:
    target = tmp_path / "model.onnx"
    problems: list[Exception] = []

    def make() -> None:
        try:
            prepare(packaged_weights(), target)
        except NotPrepared as problem:
            problems.append(problem)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert list(tmp_path.iterdir()) == [target]


def test_other_weights_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(packaged_weights().read_bytes()[:-1] + b"!")
    with pytest.raises(NotPrepared, match="other weights"):
        prepare(other, tmp_path / "model.onnx")
    with pytest.raises(NotPrepared, match="FileNotFoundError"):
        prepare(tmp_path / "none.onnx", tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == [other]


def test_another_result_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(NotPrepared, match="hash"):
        prepare(packaged_weights(), tmp_path / "model.onnx", replace(MINILM, prepared_sha256="0" * 64))
    assert list(tmp_path.iterdir()) == []


def test_the_packages_file_serves_where_none_can_be_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(source: Path, target: Path) -> None:
        raise NotPrepared("no space")

    monkeypatch.setattr(fastembed_loading, "prepare", full)
    with caplog.at_level(logging.WARNING):
        loaded = load_minilm(tmp_path, 1)
    assert (loaded.model_id, loaded.problem) == (MINILM_ID, "no space")
    assert "no space" in caplog.text
    assert vectors(loaded, ["still here"]).shape == (1, 384)
