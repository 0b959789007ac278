from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from dreamd.store.embedding import embedding, fastembed_loading
from dreamd.store.embedding.embedding import (
    Embedder,
    FastembedEmbedder,
    ModelUnavailable,
    StubEmbedder,
    batches_by_length,
    embedder_for,
    rule_for,
)
from dreamd.store.embedding.fastembed_loading import (
    MINILM_DIMENSION,
    TOKENIZER_FILES,
    WEIGHTS_FILE,
    assemble_minilm,
    packaged_weights,
)
from dreamd.store.engine.interface import Vector
from dreamd.store.settings import EmbeddingSettings
from dreamd.store.text.token_count import estimate_tokens
from hypothesis import given
from hypothesis import strategies as st

TEXTS = ["I adopted a cat in Berlin", "The build fails with E0425", "ok", "", "東京 " * 3, "words " * 900]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> FastembedEmbedder:
    embedder = FastembedEmbedder(EmbeddingSettings(), tmp_path_factory.mktemp("cache"))
    embedder.start()
    assert embedder.wait(60)
    return embedder


@pytest.fixture(params=["minilm", "stub"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "stub":
        return StubEmbedder()
    chosen: FastembedEmbedder = request.getfixturevalue("minilm")
    return chosen


def cosine(left: Vector, right: Vector) -> float:
    return float(left @ right)


def test_vectors_are_unit_and_in_the_order_of_the_texts(embedder: Embedder) -> None:
    vectors = embedder.embed_passages(TEXTS)
    assert len(vectors) == len(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector.dtype == np.float32
        assert vector.shape == (embedder.dimension,)
        assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)
        assert cosine(vector, embedder.embed_query(text)) == pytest.approx(1.0, abs=1e-4), "alone or in a batch"
    assert embedder.embed_passages([]) == []


def test_like_texts_are_near(embedder: Embedder) -> None:
    near, far = embedder.embed_passages(["She is painting landscapes", "The database is locked again"])
    asked = embedder.embed_query("what did she paint")
    assert cosine(asked, near) > cosine(asked, far)


def test_the_shipped_model_reads_512_tokens(minilm: FastembedEmbedder) -> None:
    cut, longer, shorter = minilm.embed_passages(["words " * 510, "words " * 600, "words " * 400])
    assert cosine(cut, longer) == pytest.approx(1.0, abs=1e-5)
    assert cosine(cut, shorter) < 0.99999
    assert embedding.MAX_TOKENS == 512


def test_queries_and_bulk_run_at_once(minilm: FastembedEmbedder) -> None:
    texts = [f"turn {number} about something {'and more ' * (number % 9)}" for number in range(40)]
    alone = minilm.embed_passages(texts)
    together: list[Vector] = []
    bulk = threading.Thread(target=lambda: together.extend(minilm.embed_passages(texts)))
    bulk.start()
    asked = [minilm.embed_query(texts[number]) for number in range(20)]
    bulk.join()
    for expected, vector in zip([*alone, *alone[:20]], [*together, *asked], strict=True):
        assert cosine(expected, vector) == pytest.approx(1.0, abs=1e-4)


def test_settings_choose_the_embedder(tmp_path: Path) -> None:
    stub = embedder_for(EmbeddingSettings(model="stub"), tmp_path)
    assert isinstance(stub, StubEmbedder)
    assert stub.ready
    assert stub.wait()
    shipped = embedder_for(EmbeddingSettings(), tmp_path)
    assert not shipped.ready
    assert (shipped.model_id, shipped.dimension) == (fastembed_loading.PREPARED_ID, MINILM_DIMENSION)
    assert list(tmp_path.iterdir()) == [], "nothing is loaded before it is asked"


def test_another_model_is_not_fetched_unless_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def load(name: str, cache_dir: Path, threads: int, allow_download: bool) -> None:
        asked.append((name, allow_download))
        raise ValueError("not here")

    monkeypatch.setattr(embedding, "load_named", load)
    embedder = FastembedEmbedder(EmbeddingSettings(model="BAAI/bge-small-en-v1.5"), tmp_path)
    with pytest.raises(ModelUnavailable, match="bge-small") as raised:
        embedder.embed_query("x")
    assert "allow_download" in raised.value.hint
    assert asked == [("BAAI/bge-small-en-v1.5", False)]
    assert not embedder.ready
    assert not embedder.wait(0)


def test_a_model_nobody_knows_has_no_dimension(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no/such-model"):
        _ = FastembedEmbedder(EmbeddingSettings(model="no/such-model"), tmp_path).dimension


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/e5-small-v2", "query: ", "passage: "),
        ("nomic-ai/nomic-embed-text-v1.5", "search_query: ", "search_document: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("minilm", "", ""),
        ("multilingual", "query: ", "passage: "),
    ],
)
def test_each_family_of_models_has_its_prefixes(model: str, query: str, passage: str) -> None:
    rule = rule_for(model)
    assert (rule.query_prefix, rule.passage_prefix) == (query, passage)


@given(st.lists(st.integers(0, 800).map(lambda n: "a " * n), max_size=40), st.integers(1, 4000))
def test_batches_hold_every_text_once_in_bounds(texts: list[str], batch_tokens: int) -> None:
    batches = list(batches_by_length(texts, batch_tokens))
    assert sorted(place for batch in batches for place in batch) == list(range(len(texts)))
    for batch in batches:
        longest = max(min(embedding.MAX_TOKENS, estimate_tokens(texts[place])) for place in batch)
        assert len(batch) == 1 or longest * len(batch) <= batch_tokens


def test_the_folder_is_assembled_once(tmp_path: Path) -> None:
    folder = assemble_minilm(tmp_path, packaged_weights())
    assert {file.name for file in folder.iterdir()} == {*TOKENIZER_FILES, WEIGHTS_FILE}
    stamps = {file.name: file.lstat().st_mtime_ns for file in folder.iterdir()}
    assert assemble_minilm(tmp_path, packaged_weights()) == folder
    assert {file.name: file.lstat().st_mtime_ns for file in folder.iterdir()} == stamps
    assert list(tmp_path.iterdir()) == [folder], "no temporary folder is left"


def test_a_broken_folder_is_mended(tmp_path: Path) -> None:
    folder = assemble_minilm(tmp_path, packaged_weights())
    (folder / WEIGHTS_FILE).unlink()
    (folder / "config.json").unlink()
    (folder / "config.json").write_text("{")
    assert assemble_minilm(tmp_path, packaged_weights()) == folder
    assert (folder / WEIGHTS_FILE).stat().st_size > 20_000_000
    assert '"pooling_mode_mean_tokens": true' in (folder / "config.json").read_text()


def test_files_are_copied_where_links_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path, target_is_directory: bool = False) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    folder = assemble_minilm(tmp_path, packaged_weights())
    assert not any(file.is_symlink() for file in folder.iterdir())
    assert (folder / WEIGHTS_FILE).stat().st_size > 20_000_000


def test_two_that_assemble_at_once_agree(tmp_path: Path) -> None:
    folders: list[Path] = []
    threads = [
        threading.Thread(target=lambda: folders.append(assemble_minilm(tmp_path, packaged_weights()))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 6
    assert list(tmp_path.iterdir()) == [folders[0]]


LOADS_FAST = """
import sys
from pathlib import Path
from dreamd.store.embedding import fastembed_loading
model = fastembed_loading.load_minilm(Path(sys.argv[1]), 1).model
heavy = {"huggingface_hub", "PIL", "requests", "fastembed"} & sys.modules.keys()
assert not heavy, heavy
import fastembed
assert fastembed.TextEmbedding.list_supported_models() and fastembed.ImageEmbedding
from fastembed.common.model_management import ModelManagement
assert ModelManagement is not fastembed_loading._LocalModels
print(len(next(iter(model.embed(["still here"])))))
"""

LOADS_PLAINLY = """
import sys
from pathlib import Path
from dreamd.store.embedding import fastembed_loading
def broken(*args, **kwargs):
    raise ImportError("fastembed was laid out anew")
fastembed_loading._package = broken
print(len(next(iter(fastembed_loading.load_minilm(Path(sys.argv[1]), 1).model.embed(["slower, but right"])))))
"""


@pytest.mark.parametrize("program", [LOADS_FAST, LOADS_PLAINLY], ids=["fast", "plainly"])
def test_the_shipped_model_loads(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.strip() == "384", done.stderr


def test_the_stub_is_deterministic() -> None:
    first, second = StubEmbedder().embed_query("The cat's toys"), StubEmbedder().embed_query("The cat's toys")
    np.testing.assert_array_equal(first, second)
    assert cosine(StubEmbedder().embed_query("paintings"), StubEmbedder().embed_query("painting")) > 0.99


ENDS_AT_ONCE = """
import sys, time
from pathlib import Path
from dreamd.store.embedding.embedding import FastembedEmbedder
from dreamd.store.settings import EmbeddingSettings

class Slow(FastembedEmbedder):
    def _open(self):
        time.sleep(0.3)
        print("loaded", flush=True)

Slow(EmbeddingSettings(), Path(sys.argv[1])).start()
"""


def test_a_process_that_ends_waits_for_the_model_that_it_loads(tmp_path: Path) -> None:
    """Its library would abort the process: the interpreter stops a daemon thread that comes back from it."""
    command = [sys.executable, "-P", "-c", ENDS_AT_ONCE, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "loaded\n"
