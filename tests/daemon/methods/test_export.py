"""Exports: a bundle that reads back, lines of JSON, and a handover; without what is private, secret or taken back."""

from __future__ import annotations

import json
import stat
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dreamd.daemon.methods.export_methods import ExportMethods, ExportParams
from dreamd.ipc.call import Call
from dreamd.ipc.protocol import Refused
from dreamd.store import okf
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Edit, InvalidInput, Kind, NewTurn, SessionHead

from tests.daemon.methods.conftest import Opened

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RULE = "We never deploy on Fridays after noon, since nobody gets to a laptop in the traffic."
SHOP = "shop-1a2b3c"
KEY = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture
def store(opened: Opened) -> MemoryStore:
    """Give a store with two projects, one of them private, a session, and a forgotten turn in another."""
    store = opened(lambda: NOW)
    store.remember(RULE, channel=SHOP, kind=Kind.PREFERENCE).result()
    store.remember("Ngozi takes the on-call rota.", channel=SHOP, kind=Kind.PERSON).result()
    gone = store.remember("The shop is painted green.", channel=SHOP).result()
    store.remember("My doctor is in Lagos.", channel="private-2").result()
    for name in ("talk", "half"):
        turns = [NewTurn("user", f"Turn {number} of {name}", NOW, f"t{number}") for number in range(3)]
        store.observe(SessionHead(name, SHOP), turns).result()
    store.set_goal("talk", SHOP, text="the shelf is mounted")
    store.end_session("talk")
    store.settle()
    store.forget(gone)
    store.forget("half#2")
    store.set_channel("private-2", False)
    # By hand: what comes in by the door is masked there.
    (store.vault.root / "leak.md").write_text(f"---\ntype: Note\nchannel: {SHOP}\n---\nThe key is {KEY}.\n")
    store.reconcile()
    store.settle()
    return store


def export(store: MemoryStore, path: Path, form: str, **params: object) -> Path:
    given = ExportParams.model_validate({"path": str(path), "form": form, **params})
    ExportMethods(store).export(given, Call(1, "export"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path


def test_lines_of_json_hold_every_memory_once_and_nothing_private(store: MemoryStore, tmp_path: Path) -> None:
    text = export(store, tmp_path / "a.jsonl", "jsonl", sessions=True).read_text()
    records = {record["node_id"]: record for record in map(json.loads, text.splitlines())}
    assert len(records) == len(text.splitlines())
    assert RULE in {record.get("text") for record in records.values()}
    assert [turn["text"] for turn in records["talk"]["turns"]] == [f"Turn {number} of talk" for number in range(3)]
    assert "half" not in records
    assert not [word for word in ("doctor", "painted green", "Turn 1 of half", KEY) if word in text]


def test_a_bundle_reads_back_as_the_same_memories(store: MemoryStore, tmp_path: Path) -> None:
    with tarfile.open(export(store, tmp_path / "a.tar.gz", "okf", channel=SHOP)) as tar:
        files = {one.name: tar.extractfile(one).read() for one in tar.getmembers()}  # type: ignore[union-attr]
    assert okf.parse(files.pop("index.md")).meta["okf_version"] == okf.OKF_VERSION
    read = {path: okf.to_memory(path, okf.parse(data)) for path, data in files.items()}
    assert {RULE, "Ngozi takes the on-call rota."} <= {memory.text for memory in read.values()}
    assert all(store.show(memory.node_id).path == path for path, memory in read.items())
    assert not [path for path in files if path.startswith("sessions/")]
    assert KEY.encode() not in b"".join(files.values())


def test_a_handover_quotes_what_holds_and_names_open_threads(store: MemoryStore, tmp_path: Path) -> None:
    page = export(store, tmp_path / "h.md", "handover", channel=SHOP).read_text()
    assert page.startswith("# Handover of shop\n")
    rules, threads = page.index("## Rules"), page.index("## Open threads")
    assert rules < page.index(RULE) < page.index("## People") < page.index("Ngozi") < threads
    assert page.index("the shelf is mounted") > threads
    assert "painted green" not in page
    html = export(store, tmp_path / "h.html", "handover", channel=SHOP).read_text()
    assert f"“{RULE}”</li>" in html
    assert "default-src 'none'" in html


@pytest.mark.parametrize("form", ["jsonl", "handover"])
def test_what_other_clones_of_the_project_have_goes_with_it_unless_it_is_private(
    store: MemoryStore, tmp_path: Path, form: str
) -> None:
    clones = ("shop-4d5e6f", "shop-7a8b9c")
    for channel in clones:
        store.remember(f"Never push to the main branch of {channel}.", channel=channel, kind=Kind.PREFERENCE).result()
    for channel in (SHOP, *clones):
        store.replica.link("0" * 32, channel)
    store.set_channel(clones[1], False)
    store.settle()
    text = export(store, tmp_path / "a.md", form, channel="shop").read_text()
    assert [name in text for name in (RULE, f"branch of {clones[0]}.", f"branch of {clones[1]}.")] == [
        True,
        True,
        False,
    ]


def test_a_handover_tells_what_is_in_force_alone(store: MemoryStore, tmp_path: Path) -> None:
    def remembered(text: str, kind: Kind = Kind.DECISION) -> str:
        return store.remember(text, channel=SHOP, kind=kind).result()

    older, newer = remembered("Webhooks are tried 8 times."), remembered("Delivery is attempted six times at most.")
    trap = remembered("The scanner freezes in the cold store below zero.", Kind.PITFALL)
    wrong = remembered("The label printer jams when paper is damp.", Kind.PITFALL)
    edited, doubtful = remembered("The team meets on Thursdays."), remembered("Parcels are kept ninety days.")
    store.settle()
    store.link(newer, older, "Supersedes")
    store.edit(edited, Edit(text="The team meets on Wednesdays."))
    store.link(doubtful, newer, "Contradicts")
    store.forget(wrong)
    page = export(store, tmp_path / "h.md", "handover", channel=SHOP).read_text()
    assert "six times" in page
    assert "Wednesdays" in page
    assert store.show(trap).text in page
    assert next(line for line in page.splitlines() if "ninety days" in line).endswith("(in question)")
    assert not [words for words in ("8 times", "Thursdays", "jams") if words in page]


def test_what_cannot_be_exported_is_refused(store: MemoryStore, tmp_path: Path) -> None:
    cases: list[tuple[Path, str, dict[str, object]]] = [
        (tmp_path / "h.md", "handover", {}),
        (Path("relative.jsonl"), "jsonl", {}),
        (tmp_path, "okf", {}),
        (tmp_path / "nowhere" / "a.jsonl", "jsonl", {}),
    ]
    for path, form, params in cases:
        with pytest.raises(Refused):
            export(store, path, form, **params)
    (tmp_path / "there.html").write_text("mine")
    with pytest.raises(Refused, match=r"there\.html exists"):
        export(store, tmp_path / "there.html", "handover", channel=SHOP)
    assert (tmp_path / "there.html").read_text() == "mine"
    for form in ("jsonl", "okf"):
        with pytest.raises(InvalidInput, match="private"):
            export(store, tmp_path / f"p.{form}", form, channel="private-2")
    assert not list(tmp_path.glob("p.*"))
