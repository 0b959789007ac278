from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from dreamd.store.model import Chunk
from dreamd.store.text.chunking import chunk, estimate_tokens
from dreamd.store.text.token_count import LONGEST_WORD
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

PIECES = ["word ", "A sentence, quite long. ", "line\n", "\n\n", "# Heading\n", "### Deeper\n", "```\n", "~~~\n"]
PIECES += [
    "東京タワー。",
    "🙂",
    "x" * 50,
    "\t",
    "\r\n",
    "a" + "b" * 200,
    '"Really?" ',
    "- item\n",
    "    code()\n",
    "é" * 30,
]
pieces = st.sampled_from(PIECES)
documents = st.one_of(st.lists(pieces, max_size=120).map("".join), st.text(max_size=800))


def check(text: str, chunks: list[Chunk], max_tokens: int) -> None:
    covered = 0
    for part in chunks:
        assert part.start <= covered < part.end
        assert part.text == text[part.start : part.end]
        assert estimate_tokens(part.text) <= max_tokens
        covered = part.end
    assert covered == len(text)


@given(documents, st.integers(16, 80), st.integers(0, 30))
def test_every_character_is_in_a_bounded_chunk(text: str, max_tokens: int, overlap: int) -> None:
    chunks = chunk("n", text, max_tokens, overlap)
    check(text, chunks, max_tokens)
    assert chunks == chunk("n", text, max_tokens, overlap)
    if len(chunks) > 1:
        assert [part.chunk_id for part in chunks] == [f"n#chunk-{number}" for number in range(1, len(chunks) + 1)]


def test_a_small_text_is_one_chunk_with_the_nodes_own_id() -> None:
    assert chunk("n", "# Title\n\nA few words.") == [Chunk("n", 0, 21, "# Title\n\nA few words.")]
    assert chunk("n", " ") == [Chunk("n", 0, 1, " ")]
    assert chunk("n", "") == []


def test_sections_are_cut_at_headings_and_know_their_path() -> None:
    body = "Some words that fill this section up. " * 4 + "\n"
    text = f"# Guide\n{body}## Setup\n{body}### Linux\n{body}### Mac\n{body}## Use\n{body}"
    chunks = chunk("n", text, 60, 10)
    assert [part.heading for part in chunks] == [
        "Guide",
        "Guide > Setup",
        "Guide > Setup > Linux",
        "Guide > Setup > Mac",
        "Guide > Use",
    ]
    assert [part.text.splitlines()[0] for part in chunks] == ["# Guide", "## Setup", "### Linux", "### Mac", "## Use"]


def test_small_sections_stay_together() -> None:
    text = "".join(f"## Part {number}\nA short line.\n\n" for number in range(12))
    chunks = chunk("n", text, 60, 0)
    assert 1 < len(chunks) < 12
    assert all(part.text.startswith("## Part") for part in chunks)


@pytest.mark.parametrize("fence", ["```", "~~~~", "````python"])
def test_a_comment_in_a_code_fence_is_no_heading(fence: str) -> None:
    closing = fence.rstrip("python")
    code = "\n\n".join(f"# step {number}\nrun({number})" for number in range(3))
    text = "Words before the code. " * 12 + f"\n\n{fence}\n{code}\n{closing}\n\n" + "Words behind the code. " * 12
    chunks = chunk("n", text, 100, 10)
    assert all(part.heading == "" for part in chunks)
    assert any(code in part.text for part in chunks), "a fence that fits is kept whole"


def test_a_fence_that_is_never_closed_goes_on_to_the_end() -> None:
    text = "# Real\n" + "words and words\n" * 30 + "```\n" + "# not a heading\ncode()\n" * 40
    assert {part.heading for part in chunk("n", text, 80, 0)} == {"Real"}


def test_a_chunk_begins_with_the_end_of_the_one_before() -> None:
    text = " ".join(f"Sentence number {number} is here." for number in range(120))
    chunks = chunk("n", text, 100, 20)
    for before, after in pairwise(chunks):
        assert before.start < after.start < before.end
        assert after.text.startswith("Sentence number")
        assert before.text.rstrip().endswith("here.")
        assert estimate_tokens(text[after.start : before.end]) <= 20


def test_no_overlap_when_none_is_wanted() -> None:
    text = "Some words in a row. " * 100
    chunks = chunk("n", text, 50, 0)
    assert "".join(part.text for part in chunks) == text


@pytest.mark.parametrize(
    "text", ["東京タワーに行きました。" * 300, "あ" * 3_000, "x" * 20_000, "🙂" * 2_000, "安" * 10 + "b" * 9_000]
)
def test_texts_without_spaces_are_bounded_too(text: str) -> None:
    chunks = chunk("n", text, 100, 10)
    check(text, chunks, 100)
    assert len(chunks) < len(text) / 20


def test_the_count_can_be_a_tokenizers(minilm: Tokenizer) -> None:
    text = (Path(__file__).resolve().parents[3] / "README.md").read_text()
    chunks = chunk("n", text, 120, 20, count=lambda part: len(minilm.encode(part).ids))
    assert len(chunks) > 5
    assert all(len(minilm.encode(part.text).ids) <= 120 for part in chunks)


@pytest.mark.parametrize(
    "piece",
    [
        "The quick brown fox jumps. " * 20 + "\n\n",
        "abc\n",
        "word ",
        "# h\ntext\n",
        "```\n# x\n",
        " ",
        "\n",
        ". ",
        "a",
        "東京",
    ],
)
def test_long_texts_of_one_piece_are_cut(piece: str) -> None:
    text = piece * (5_000_000 // len(piece) // 20)  # a twentieth, so that the suite stays fast
    check(text, chunk("n", text), 400)


@pytest.fixture(scope="module")
def minilm() -> Tokenizer:
    import dreamd.store.text.token_count as beside

    tokenizer = Tokenizer.from_file(str(Path(beside.__file__).parent / "data" / "minilm" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def test_the_estimate_is_an_upper_one_and_close(data: Path, minilm: Tokenizer) -> None:
    texts: list[str] = []
    for talk in json.loads((data / "locomo" / "dev.json").read_text()):
        sessions = [turns for name, turns in talk["conversation"].items() if isinstance(turns, list)]
        texts += [turn["text"] for turns in sessions for turn in turns]
    for chat in sorted((data / "beam-100k").glob("1/chat.json")):
        texts += [
            turn["content"] for batch in json.loads(chat.read_text()) for turns in batch["turns"] for turn in turns
        ]
    texts += [file.read_text() for file in (data / "okf").rglob("*.md")]
    true = [len(encoding.ids) for encoding in minilm.encode_batch(texts)]
    estimates = [estimate_tokens(text) for text in texts]
    above = sum(estimate >= count for estimate, count in zip(estimates, true, strict=True))
    assert above >= 0.995 * len(texts)
    assert sum(estimate / count for estimate, count in zip(estimates, true, strict=True)) / len(texts) <= 1.15


@given(st.text(max_size=300))
def test_the_estimate_has_its_floor_and_is_the_same_again(text: str) -> None:
    assert estimate_tokens(text) >= 2 + len(text) // 4
    assert estimate_tokens(text) == estimate_tokens(text)


def test_the_estimate_counts_what_is_no_word() -> None:
    assert estimate_tokens("") == 2
    assert estimate_tokens("x" * 10_000) >= 10_000 // 3
    assert estimate_tokens("東京タワー") >= 2 + 5
    assert estimate_tokens("🙂🙂") >= 2 + 4
    assert estimate_tokens("1234567890") >= 2 + 4
    assert estimate_tokens("a" * (LONGEST_WORD + 1)) >= 2 + LONGEST_WORD // 3
