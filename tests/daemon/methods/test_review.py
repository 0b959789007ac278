"""What a person is asked to look at, whatever else is in the history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from dreamd.daemon.methods.review_methods import DecideParams, ReviewMethods, ReviewParams
from dreamd.daemon.settings import Settings
from dreamd.ipc.call import Call
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.records import Run, record_run
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Kind
from dreamd.store.settings import StoreSettings

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    paths = StorePaths(tmp_path / "v", tmp_path / "l.db", tmp_path / "i.db", tmp_path / "e.db", tmp_path / "runs")
    opened = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
    yield opened
    opened.close()


def test_what_an_agent_wrote_down_is_listed_accepted_and_rejected(store: MemoryStore, tmp_path: Path) -> None:
    methods, call = ReviewMethods(store, Settings(data_dir=tmp_path)), cast(Call, None)
    for text in ("Deploy by fax.", "Deploy by mail."):
        store.keep(text, kind=Kind.PROCEDURE, channel="shop", agent_id="cursor", curated=5).result()
    waiting = {one.text: one for one in methods.review_list(ReviewParams(), call).waiting}
    fax, mail = waiting["Deploy by fax."], waiting["Deploy by mail."]
    assert (fax.kind, fax.always, fax.agent, fax.channel) == ("procedure", 5, "cursor", "shop")
    done = methods.review_decide(DecideParams(decision=fax.node_id, keep="accept", by="marit"), call)
    assert (done.decision_id, done.choice) == (fax.node_id, "accept")
    assert methods.review_decide(DecideParams(decision=mail.node_id, keep="reject"), call).choice == "reject"
    assert methods.review_list(ReviewParams(), call).waiting == []
    assert [listed.title for listed in store.list(always=True)] == ["Deploy by fax."]


def test_marks_come_in_pages_and_one_is_taken_back(store: MemoryStore, tmp_path: Path) -> None:
    methods, call = ReviewMethods(store, Settings(data_dir=tmp_path)), cast(Call, None)
    old, new = "The deploy runs on Heroku.", "The deploy runs on Fly now, no longer on Heroku."
    for text in (old, new):
        store.remember(text, channel="shop").result()
        assert store.settle_links()
    answer = methods.review_list(ReviewParams(), call)
    (mark,) = answer.marks
    assert (mark.older.text, mark.newer.text, mark.mark) == (old, new, "replaced")
    assert (answer.marks_total, answer.decisions) == (1, [])
    assert methods.review_list(ReviewParams(offset=1), call).marks == []
    done = methods.review_decide(DecideParams(decision=mark.decision_id, keep="both", by="marit"), call)
    assert done.choice == "both"
    assert methods.review_list(ReviewParams(), call).marks_total == 0
    assert store.show(mark.older.node_id).live


def test_a_secret_that_a_dream_found_is_named_however_much_happened_since(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "v" / "leaky.md").write_text(f"---\ntype: Note\nnode_id: leaky\n---\n\nThe token is {SECRET}.\n")
    store.reconcile()
    store.record_run(Run("landed", "daily", "applied", NOW - timedelta(hours=9), summary={"leaks": ["leaky"]}))
    since = [
        Run(f"{kind}-{n}", kind, state, NOW - timedelta(seconds=n), summary={"leaks": []} if kind != "link" else {})
        for n in range(100)
        for kind, state in (("link", "applied"), ("compaction", "nothing"), ("daily", "failed"))
    ]
    store.core.writer.write(*map(record_run, since)).result()
    (leak,) = ReviewMethods(store, Settings(data_dir=tmp_path)).review_list(ReviewParams(), cast(Call, None)).leaks
    assert leak.node_id == "leaky"
