"""The harnesses can fail: with every write refused, or with too little tried, none says that nothing is lost."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import zlib
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.store import MemoryStore, StorePaths
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.journal import sha256
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.model import Action, Changeset
from dreamd.store.redaction import redaction as rules
from dreamd.store.redaction.key_forms import CANDIDATE, Span
from dreamd.store.redaction.prefilter import folded
from dreamd.store.settings import StoreSettings

from . import kill_store, planted_secrets, purging, redaction, scale, unseen_secrets
from .daemon_under_test import DaemonUnderTest
from .damage import Account, Store, at_the_start
from .documented_secrets import documented
from .kill_daemon import Trial, left_by
from .many_dreams import Nights
from .planted_secrets import Planted


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(DaemonUnderTest(tmp_path / "daemon", {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}), seed=1)


@pytest.mark.nightly
@pytest.mark.system
@pytest.mark.parametrize("kind", ["writes", "imports"])
def test_a_daemon_that_refuses_every_write_fails_the_kills(trial: Trial, kind: str) -> None:
    with trial.daemon as daemon:
        daemon.call("pause")
        trial.round(kind)
    assert any("learning is paused" in violation for violation in trial.violations)


@pytest.mark.nightly
@pytest.mark.system
def test_a_daemon_that_ends_by_itself_fails_the_kills(trial: Trial) -> None:
    with trial.daemon as daemon:
        trial._until_killed(daemon.kill)
        trial._until_killed(trial.remember)
    (violation,) = trial.violations
    assert "ended" in violation


def test_kills_that_meet_nothing_are_too_little(trial: Trial) -> None:
    assert trial.too_little() == []
    trial.killed_in = Counter(writes=3, dream=6, undo=3)
    assert len(trial.too_little()) == 3
    trial.promised_in["writes"], trial.applications, trial.caught_half_way = 30, 4, 2
    assert trial.too_little() == []


def test_a_purge_that_leaves_something_or_takes_more_fails(tmp_path: Path) -> None:
    vault = tmp_path / "vault" / "facts"
    vault.mkdir(parents=True)
    (vault / "a.md").write_text("tokabcdefghi is left")
    (tmp_path / "ledger.db").write_bytes(b"\0\1" + zlib.compress(b"tokabcdefghi", 1))
    found = [place.partition(" ")[0] for place in purging.leaks(tmp_path, ["tokabcdefghi"])]
    assert found == ["ledger.db", "a.md"]
    before = purging.Before("turn", {"tokzzzzzzzzz"}, set(), {"facts/a.md": b"as it was"}, {}, set())
    (tmp_path / "ledger.db").unlink()
    Ledger(tmp_path / "ledger.db").close()
    assert list(purging.losses(tmp_path, before)) == ["facts/a.md is not as it was"]


def test_nights_without_a_dream_are_too_little(trial: Trial) -> None:
    nights = Nights(trial.daemon, 1)
    nights.states = Counter(nothing=20)
    assert len(nights.too_little()) == 2
    nights.states, nights.killed = Counter(applied=12, failed=8), Counter(child=4)
    assert nights.too_little() == []


def test_a_store_that_refuses_fails_the_kills(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = kill_store.Child(tmp_path, kill_store.Expected(), writing, seed=1)
    child.store.pause()
    child.until_killed(child.remember, 0)
    child.store.close()
    (line,) = os.read(reading, 65536).splitlines()
    assert json.loads(line)["op"] == "failed"
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("kills", "working", "acknowledged", "half_way", "missing"),
    [(40, 30, 600, 20, 0), (40, 10, 600, 20, 1), (40, 30, 10, 20, 1), (40, 30, 600, 2, 1), (10, 0, 0, 0, 2)],
)
def test_kills_of_a_store_have_their_floors(
    kills: int, working: int, acknowledged: int, half_way: int, missing: int
) -> None:
    assert len(kill_store.too_little(kills, working, acknowledged, half_way)) == missing


def test_damage_that_nobody_notices_is_too_little() -> None:
    account = Account("index", pages=10, recalls=30, noticed=1)
    account.judge(12)
    assert len(account.too_little) == 2
    account = Account("index", pages=12, recalls=36, noticed=3)
    account.judge(12)
    assert account.too_little == []


@pytest.mark.nightly
@pytest.mark.system
def test_a_memory_that_is_not_there_after_damage_is_a_broken_promise(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.memories["nobody"] = "Nobody ever said so."
    account = at_the_start(store, "index", [1])
    assert any("nobody is lost" in violation for violation in account.violations)


def test_what_two_runs_left_is_known_in_whichever_order_they_were_undone(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path / "vault", tmp_path / "l.db", tmp_path / "i.db", tmp_path / "e.db", tmp_path / "runs")
    clock = itertools.count()
    start = datetime(2026, 11, 22, tzinfo=UTC)
    store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: start + timedelta(seconds=next(clock)))
    kept = store.remember("The ferry leaves at nine").result()
    store.settle()
    path = store.show(kept).path
    texts = [store.vault.read(path), *(store.vault.read(path) + b"%d\n" % number for number in (1, 2))]
    for number in (1, 2):
        action = Action.replacing(path, kept, texts[number - 1], texts[number], stage="planted", reason="")
        store.apply(Changeset(run_id=f"run-{number}", actions=(action,)))
    for run_id, text in (("run-2", texts[1]), ("run-1", texts[0])):
        store.undo(run_id)
        history = [(run, store.ledger.actions(run.run_id)) for run in store.ledger.runs(100)]
        assert left_by(history)[path] == (sha256(text), run_id)
        assert store.vault.read(path) == text
    store.close()


def test_a_key_that_only_its_issuer_betrays_stays_when_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_issuers(text: str, *, personal: bool = False) -> list[Span]:
        return list(vars(rules)["find_issued"](text, folded(text), list(CANDIDATE.finditer(text))))

    monkeypatch.setattr(rules, "find", of_issuers)
    key = "ghp_" + "T9unDeWb27LqXz0R4mYvKc81JhPoSa5GfEdN"
    one = Planted("github", "issued", "prose", f"try it with {key}", (key,))
    assert not unseen_secrets.is_left(one)
    assert unseen_secrets.is_left(one, without_issuers=True)
    rows = {row.measure: row for row in unseen_secrets.leave_one_out(10)}
    assert rows["keys gone, their issuers left out"].measured.startswith("0.0%")


def test_the_corpora_are_as_large_as_their_page_says() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8").split())
    planted, of_issuers = planted_secrets.corpus(436), documented(random.Random(5))
    kinds, issued = ({one.kind for one in corpus} for corpus in (planted, of_issuers))
    assert f"{len(planted)} secrets of {len(kinds)} kinds" in page
    assert f"and {len(of_issuers)} of {len(issued)} kinds from the issuers' documentation" in page
    assert len(redaction.WAYS) == 6
    assert "two corpora in by six ways" in page


def test_a_corpus_counts_what_stays_and_what_is_wrongly_taken(tmp_path: Path) -> None:
    key = "Zk39vhQ20xPqLm48sTrW77yB"
    secrets = [
        {"id": "1", "family": "file", "issuer": "a", "context": "env", "text": f"TOKEN={key}", "secrets": [key]},
        {"id": "2", "family": "prose", "issuer": "b", "context": "en", "text": "it is harbour", "secrets": ["harbour"]},
    ]
    innocents = [{"id": "3", "group": "wrong", "text": f"TOKEN={key}"}, {"id": "4", "group": "prose", "text": "hello"}]
    for name, rows in (("secrets", secrets), ("innocents", innocents)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = {row.measure: row for row in unseen_secrets.of_corpus(tmp_path)}
    assert measured["unseen secrets gone"].measured == "50.0%, 1 of 2 left"
    assert measured["unseen secrets gone"].ok is False
    assert measured["unseen secrets gone, family prose"].measured == "0.0%, 1 of 1 left"
    assert measured["unseen innocents with an alarm"].measured == "1 of 2"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words",
    [("tests.bench",), ("tests.bench.quality", "beam"), ("tests.bench.people", "lives"), ("tests.bench.wording",)],
    ids=" ".join,
)
def test_a_benchmark_without_its_data_says_what_to_set(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, "SHARED_DATA_DIR": "/nowhere"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "set SHARED_DATA_DIR to the folder that holds the data sets" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_of_a_plan_is_what_its_script_works_out() -> None:
    page = Path(__file__).parents[2] / "docs" / "scale.md"
    assert scale.table() in page.read_text(encoding="utf-8")
