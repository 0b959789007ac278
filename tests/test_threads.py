"""What threads share: each object that lives as long as the process, used from eight at once, answers as from one."""

from __future__ import annotations

import dataclasses
import enum
import random
import re
import string
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from functools import _lru_cache_wrapper
from pathlib import Path, PurePath
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from dreamd.daemon.importing import detect
from dreamd.ipc import protocol
from dreamd.pipelines import messages
from dreamd.pipelines.extract.facts import drafts_of
from dreamd.store import extensions, okf, redaction
from dreamd.store.changes.run_kinds import new_run_id
from dreamd.store.channel import channel_of_folder, channels_in_reach, know_projects
from dreamd.store.embedding.embedding import StubEmbedder, embedder_for
from dreamd.store.engine import bm25
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Turn
from dreamd.store.okf import frontmatter
from dreamd.store.settings import EmbeddingSettings, StoreSettings
from dreamd.store.text import chunking, judging, sentences, token_count, words
from dreamd.store.vault.disk import Disk

from tests.modules import modules

THREADS = 8
FRESH = 1_500
FEW = 40
"""Texts for what asks a model of each."""
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ENDINGS = ("", "s", "ing", "ed", "edly", "ational", "iveness", "fulness", "izer", "'s", "ying", "ies")


@pytest.fixture
def eager_switches() -> Iterator[None]:
    """Let the interpreter change threads as often as it can: what may interleave does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def fresh_words(number: int = FRESH, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [
        "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) + rng.choice(ENDINGS) for _ in range(number)
    ]


def fresh_texts(number: int, seed: int = 2) -> list[str]:
    """Statements with a number, a date, a secret and a heading here and there, none said twice."""
    rng, stock = random.Random(seed), iter(fresh_words(9 * number, seed))
    texts = []
    for place in range(number):
        words = " ".join(next(stock) for _ in range(8))
        texts.append(
            f"# {words}\n\nMy {next(stock)} costs {place} euros since {1 + place % 28} May 2026, not {place + 1} more. "
            + (f"password={rng.getrandbits(64):x}Zz9" if place % 3 == 0 else "東京タワー foo_bar.py MemoryStore")
        )
    return texts


def forget_everything() -> None:
    """Empty every cache of the process: what one thread worked out must be worked out again."""
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, _lru_cache_wrapper):
                value.cache_clear()
    token_count._costs.clear()
    token_count._pieces.clear()


def opened(folder: Path) -> MemoryStore:
    paths = StorePaths(
        folder / "vault", folder / "ledger.db", folder / "i" / "index.db", folder / "i" / "e.db", folder / "r"
    )
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)


def from_threads(function: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Any]:
    """Every input once, dealt to eight threads that begin together."""
    together = Barrier(THREADS)

    def take(part: Sequence[Any]) -> list[Any]:
        together.wait()
        return [function(one) for one in part]

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(take, [inputs[start::THREADS] for start in range(THREADS)]))
    answers: list[Any] = [None] * len(inputs)
    for start, part in enumerate(parts):
        answers[start::THREADS] = part
    return answers


def both_ways(text: str) -> object:
    """A message of the wire, written and read."""
    return protocol.parse(protocol.encode_request(7, "remember", {"text": text}).rstrip(b"\n"))


def kept_and_read(text: str) -> object:
    """A file's frontmatter, written and read, and the file's own words."""
    data = okf.render({"type": "Fact", "title": text[:40], "tags": text.split()[:4]}, text)
    return okf.parse(data), frontmatter.load_yaml(f"a: {len(text)}\nb: [{text.split()[1]}, 2026-05-01]")


def of_a_dream(text: str) -> object:
    """A turn as a dream reads it."""
    turn = Turn("s", 1, "user", text, datetime(2026, 11, 6, 9, tzinfo=UTC), None)
    return drafts_of([turn]), sentences.sentences_of(text), words.content_stems(text)


WORDS: dict[str, Callable[[str], object]] = {
    "store.text.words": words.stem,
    "store.text.words of the index": words.index_stem,
}

TEXTS: dict[str, Callable[[str], object]] = {
    "store.text.words of a question": words.term_stems,
    "store.engine.bm25": bm25.words,
    "store.text.token_count": token_count.estimate_tokens,
    "store.text.chunking": lambda text: chunking.chunk("n", text * 3, 20, 4),
    "store.text.judging": lambda text: judging.judge(
        text.replace("costs", "costs now"), [judging.EarlierStatement("earlier", text, 0.9)]
    ),
    "store.embedding": lambda text: StubEmbedder().embed_query(text).tobytes(),
    "store.redaction": redaction.redact,
    "store.okf": kept_and_read,
    "store.okf.frontmatter": lambda text: frontmatter.entry("title", text),
    "ipc.protocol": both_ways,
    "pipelines": of_a_dream,
    "pipelines.messages": lambda text: messages.decode(messages.encode(messages.Failed(reason=text))),
}


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("name", WORDS)
def test_fresh_words_are_worked_out_alike(name: str) -> None:
    words = fresh_words()
    forget_everything()
    alone = [WORDS[name](word) for word in words]
    forget_everything()
    assert from_threads(WORDS[name], words) == alone
    assert [WORDS[name](word) for word in words] == alone  # and nothing wrong was remembered


@pytest.mark.usefixtures("eager_switches")
@pytest.mark.parametrize("name", TEXTS)
def test_fresh_texts_are_worked_out_alike(name: str) -> None:
    texts = fresh_texts(FEW if name == "pipelines" else 240)
    forget_everything()
    alone = [TEXTS[name](text) for text in texts]
    forget_everything()
    assert from_threads(TEXTS[name], texts) == alone
    assert [TEXTS[name](text) for text in texts] == alone


@pytest.mark.usefixtures("eager_switches")
def test_token_counts_survive_being_forgotten_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of costs is emptied when it is full, whoever reads in it."""
    texts = fresh_texts(240)
    forget_everything()
    alone = [token_count.estimate_tokens(text) for text in texts]
    forget_everything()
    monkeypatch.setattr(token_count, "REMEMBERED", 5)
    assert from_threads(token_count.estimate_tokens, texts) == alone


def test_the_shipped_model_embeds_alike(tmp_path: Path) -> None:
    embedder = embedder_for(EmbeddingSettings(), tmp_path)
    texts = fresh_texts(24)
    alone = [embedder.embed_query(text).tobytes() for text in texts]
    assert from_threads(lambda text: embedder.embed_query(text).tobytes(), texts) == alone


@pytest.mark.usefixtures("eager_switches")
def test_no_two_files_are_written_under_one_name(tmp_path: Path) -> None:
    disk = Disk()
    names = from_threads(lambda number: disk.write_temp(tmp_path, b"%d" % number), range(400))
    assert [name.read_bytes() for name in names] == [b"%d" % number for number in range(400)]


@pytest.mark.usefixtures("eager_switches")
def test_no_two_runs_of_one_instant_share_an_id() -> None:
    now = datetime(2026, 11, 22, 9, tzinfo=UTC)
    ids = from_threads(lambda _: new_run_id(now, "remember"), range(4000))
    assert len(set(ids)) == 4000


@pytest.mark.usefixtures("eager_switches")
def test_recalls_and_contexts_are_answered_alike(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as store:
        texts = fresh_texts(60)
        for text in texts:
            store.remember(text, channel="threads").result()
        assert store.settle_links(60)
        while store.status().pending_embeddings:
            store.settle()
        questions = [" ".join(text.split()[2:6]) for text in texts]

        def ask(question: str) -> object:
            recalled = store.recall(question, channel="threads")
            return recalled.hits, recalled.abstained, store.context(question, channel="threads").text

        forget_everything()
        alone = [ask(question) for question in questions]
        forget_everything()
        assert from_threads(ask, questions) == alone


@pytest.mark.usefixtures("eager_switches")
def test_clones_that_are_seen_at_once_get_one_channel(tmp_path: Path) -> None:
    clones = [tmp_path / str(number) / "kettle" for number in range(40)]
    for clone in clones:
        (clone / ".git").mkdir(parents=True)
        (clone / ".git" / "HEAD").write_text("ref: refs/heads/main")
        (clone / ".git" / "config").write_text('[remote "origin"]\n\turl = git@git.example.org:kettle.git\n')
    with closing(opened(tmp_path / "of-one")) as store:
        projects = store.operations.core.projects
        from_threads(lambda clone: projects.learn(channel_of_folder(clone)), clones)
        (channel,) = set(map(channel_of_folder, clones))
        # Threads that named their clone before any was known have linked its own channel too.
        assert {*channels_in_reach(channel)} == {one for _, one in projects.links()} | {"_global"}
    with closing(opened(tmp_path / "of-one")) as store:
        assert {*channels_in_reach(channel)} == {one for _, one in projects.links()} | {"_global"}
    know_projects({}, ())
    know_projects({}, ())


# -- none is left out


def test_our_own_parts_are_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extensions, "_current", extensions.Extensions())
    gathered = Barrier(THREADS)

    def look(number: int) -> list[str]:
        gathered.wait()
        return list(detect.formats())

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(look, range(THREADS)))
    assert found == [list(detect.FORMATS)] * THREADS


SHARED = {
    "dreamd.ipc.adapters.space": {"_TURNS", "_GATE"},  # driven by the adapters' own tests; each is used under the lock
    "dreamd.ipc.mcp.service": {"LISTENING", "SERVER", "jsonrpc_message_adapter"},  # of the event loop's thread alone
    "dreamd.ipc.params": {"LISTED", "NUMBER"},  # validators: a function each, fixed when they are made
    "dreamd.ipc.protocol": {"_dump", "_dump_ascii", "_load"},
    "dreamd.pipelines.workspace.memo": {"_RECORD"},  # a struct: what it knows is fixed when it is made
    "dreamd.pipelines.messages": {"_messages"},
    "dreamd.store.judges.judge": {"_LOADING"},  # a lock
    "dreamd.store.embedding.multilingual": {"BLOCK", "HEAD", "TABLE", "TENSOR", "VOCABULARY"},  # structs, as above
    "dreamd.store.text.token_count": {"_costs", "_pieces"},
    "dreamd.store.changes.run_kinds": {"_run_numbers"},
    "dreamd.store.channel": {"_PROJECTS"},
    "dreamd.store.extensions": {"_current", "implements", "specified"},  # the last two mark functions and hold nothing
    "dreamd.store.vault.disk": {"_libc", "_temp_numbers"},
    "dreamd.store.okf.frontmatter": {"_quote"},
}
"""Objects that live as long as the process and are no plain values; the tests above use each from threads."""

PLAIN = (
    int, float, str, bytes, range, type(None), tuple, frozenset, re.Pattern, enum.Enum, type, types.FunctionType,
    types.ModuleType, types.BuiltinFunctionType, types.GenericAlias, PurePath, date, timedelta, type(UTC),
    _lru_cache_wrapper, np.generic,
)  # fmt: skip


def is_plain(name: str, value: object) -> bool:
    """A value that never changes, a table by its name, a logger, which locks, each thread's own, or a type's word."""
    if isinstance(value, dict | list | set) and type(value) in (dict, list, set):
        return name.isupper()
    if type(value).__module__.split(".")[0] in {"logging", "loguru", "typing", "types", "collections", "__future__"}:
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and value.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return all(is_plain("", getattr(value, field.name)) for field in dataclasses.fields(value))
    return isinstance(value, (*PLAIN, threading.local))


def test_no_other_object_is_shared() -> None:
    found: dict[str, set[str]] = {}
    for module in modules():
        for name, value in vars(module).items():
            if not name.startswith("__") and not is_plain(name, value):
                found.setdefault(module.__name__, set()).add(name)
    assert found == SHARED, "drive the new one from threads above, then name it in SHARED; or give each call its own"
