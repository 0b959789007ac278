"""Does the gate distinguish harm from none? Planted stages on LoCoMo's dev conversations as they are after a dream."""

from __future__ import annotations

import copy
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from dreamd.daemon.importing.items import SessionRead
from dreamd.pipelines.dream import dream
from dreamd.pipelines.gate.gate import Dropped, Gate
from dreamd.pipelines.gate.shadow_index import ShadowIndex
from dreamd.pipelines.messages import RunRequest, read_changeset
from dreamd.pipelines.settings import Stage
from dreamd.pipelines.workspace.memo import CachedEmbedder
from dreamd.pipelines.workspace.snapshot import Snapshot
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.embedding.embedding import Embedder, embedder_for
from dreamd.store.embedding.vector_cache import EmbeddingCache
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, Changeset, Level
from dreamd.store.settings import StoreSettings

from .options import Options
from .planted import HARMFUL, HARMLESS, Plan, Sandbox
from .scratch import own_folder
from .sets.locomo import read as read_locomo
from .table import Row, say, skipped

HARM = "gate: planted harmful stages refused"
NONE = "gate: harmless stages refused"
MOST_WRONG = 0.04
"""Of either sort: two of the sixty."""
QUICK_EVERY = 5
SEED = 20261122
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=60)
TONIGHT = NOW + timedelta(days=1)
_WHO = "Alice Bruno Chiara Deniz Emeka Farah Goran Hana Ines Jonas Kofi Lena".split()
_WHAT = "boiler key, ladder, invoice book, spare battery, archive box, passport, projector, tent, seed tray".split(", ")
_WHERE = "cellar, garage, harbour office, attic studio, allotment, old mill, van, print shop, summer house".split(", ")
LATER = ("no-reason", "no-name", "no-number", "other-date", "other-value", "replaced")
"""How the second of two notes differs from the first."""
_KEPT = "ladle, rope, lamp, kiln, loom, anvil, canoe, harp, globe, sled, still, churn".split(", ")
_WHY = (
    "because the cellar floods in {month}",
    "since the lock of the {where} is broken",
    "so that the night shift finds it before {hour}:30",
    "because the insurer asked for a witness in {month}",
    "because the neighbour of the {where} complained about noise",
    "so that apprentices can practise on it after {hour}:15",
)
REASONED = 48
"""Notes with a name, a date and a reason each, of each of which a second speaks."""


@dataclass(frozen=True, slots=True)
class GateUnderTest:
    """The gate that planted stages are tried on, with its view and its shadow index."""

    gate: Gate
    view: View
    shadow: ShadowIndex


def measure(options: Options) -> Iterator[Row]:
    """Plant every stage, each on the same state."""
    file = options.data / "locomo" / "dev.json"
    if not file.is_file():
        yield skipped(HARM, "≥ 96 %", f"no {file}")
        yield skipped(NONE, "≤ 4 %", f"no {file}")
        return
    with own_folder("gate") as scratch, ExitStack() as closing:
        tested = _opened(file, scratch, options, closing)
        yield _row(HARM, tested, HARMFUL, options, refused_is_right=True)
        yield _row(NONE, tested, HARMLESS, options, refused_is_right=False)


def _row(
    name: str,
    tested: GateUnderTest,
    kinds: tuple[tuple[Plan, tuple[int, ...]], ...],
    options: Options,
    *,
    refused_is_right: bool,
) -> Row:
    cases = [(plan, strength) for plan, strengths in kinds for strength in strengths][:: options.of(1, QUICK_EVERY)]
    refused, wrong, idle = 0, list[str](), list[str]()
    for number, (plan, strength) in enumerate(cases):
        sandbox = Sandbox(tested.view, random.Random(SEED + number), TONIGHT)
        actions = list(plan(sandbox, strength))
        changed = sum(tested.view.read(action.path) != action.content for action in actions)
        if not changed:
            idle.append(f"{plan.__name__} {strength}")
        dropped = _tried(tested, actions)
        is_refused = dropped is not None and (dropped.actions == dropped.of or not refused_is_right)
        refused += is_refused
        what = f"{dropped.actions} of {dropped.of} refused, {dropped.reason}" if dropped else "passed"
        if is_refused is not refused_is_right:
            wrong.append(f"{plan.__name__} {strength}: {what}")
        say(f"{plan.__name__} {strength}: {changed} files changed, {what}")
    total, most_wrong = len(cases), int(MOST_WRONG * len(cases))
    target = f"≥ {total - most_wrong} of {total}" if refused_is_right else f"≤ {most_wrong} of {total}"
    kinds_named = f"{len({plan for plan, _ in cases})} kinds; {tested.gate.result.probes} probes, none a person's own"
    how = f"{kinds_named}; wrong: {'; '.join(wrong) or 'none'}; changed nothing: {'; '.join(idle) or 'none'}"
    return Row(name, f"{refused} of {total}", target, len(wrong) <= most_wrong and not idle, how)


def _tried(tested: GateUnderTest, actions: list[Action]) -> Dropped | None:
    """Return what the gate refuses of this, None if nothing; the shadow index is as before afterwards."""
    gate = copy.copy(tested.gate)
    gate._dropped = []
    gate._checker = copy.copy(tested.gate._checker)
    before = {action.path: tested.shadow.read(action.path) for action in actions}
    gate.sift("planted", actions)
    tested.shadow.overlay(before)
    return next(iter(gate.result.dropped), None)


# -- the gate under test


def _opened(file: Path, scratch: Path, options: Options, closing: ExitStack) -> GateUnderTest:
    paths = StorePaths(
        scratch / "vault", scratch / "ledger.db", scratch / "index" / "index.db", scratch / "index" / "vectors.db",
        scratch / "runs",
    )  # fmt: skip
    kept = options.results / "embeddings-locomo.db"
    if kept.is_file():
        paths.embeddings.parent.mkdir(parents=True)
        shutil.copy2(kept, paths.embeddings)
    settings = StoreSettings()
    embedder = embedder_for(settings.embedding, scratch / "models")
    _fill(file, paths, settings, embedder)
    request = _request(paths, "tonight", TONIGHT)
    snapshot = Snapshot(request.folder, request.vault, request.index, request.ledger)
    closing.callback(snapshot.close)
    cache = EmbeddingCache(paths.embeddings, embedder.model_id)
    closing.callback(cache.close)
    view = View(
        snapshot, snapshot.history(), CachedEmbedder(embedder, cache, lambda *_: None), "tonight", request.pipelines
    )
    shadow = closing.enter_context(
        ShadowIndex(request.folder / "index.db", paths.vault, settings, embedder, view.vectors, TONIGHT)
    )
    gate = Gate(lambda: shadow, view, request.pipelines.gate, TONIGHT)
    gate._shadow = shadow
    say("asking the probes of the memory as it is")
    gate._begin(shadow)
    return GateUnderTest(gate, view, shadow)


def _fill(file: Path, paths: StorePaths, settings: StoreSettings, embedder: Embedder) -> None:
    """Store all sessions but the last ones, a dream of them, notes with corrections of some, then the last sessions.

    The notes are of before there was linking: what becomes of each pair is left to the planted stages.
    """
    rng = random.Random(SEED)
    store = MemoryStore.open(paths, settings, embedder, lambda: LONG_AGO)
    by_channel: dict[str, list[SessionRead]] = {}
    for item in read_locomo(file):
        if isinstance(item, SessionRead):
            by_channel.setdefault(item.head.channel, []).append(item)
    for sessions in by_channel.values():
        for item in sessions[:-2]:
            store.observe(item.head, item.turns).result()
    say(f"dreaming of {store.status().turns} turns")
    _embed(store)
    done = dream(_request(paths, "a-night-long-ago", LONG_AGO), lambda _: None)
    assert done.changeset_path is not None
    for dropped in done.report["gate"]["dropped"]:  # what drift may link here is the gate's to judge
        assert dropped["stage"] == Stage.DRIFT, dropped
        say(f"{dropped['stage']} without {dropped['actions']} of {dropped['of']} actions: {dropped['reason']}")
    store.apply(read_changeset(done.changeset_path))
    _embed(store)
    store.close()
    store = MemoryStore.open(paths, settings, embedder, lambda: NOW)
    store.operations.linker.stop()
    facts = store.list(level=Level.FACT, limit=1000)
    for listed in rng.sample(facts, min(60, len(facts))):
        store.recall(listed.title, channel=listed.channel, levels=[Level.FACT], limit=1)
    places = [(what, where) for what in _WHAT for where in _WHERE]
    for number, (what, where) in enumerate(rng.sample(places, len(places))):
        text = f"The {what} in the {where} belongs to {rng.choice(_WHO)}, number {rng.randint(100, 999)}"
        channel = rng.choice(sorted(by_channel))
        store.remember(text, channel=channel).result()
        if number % 6 == 0:
            store.remember(f"{text} again", channel=channel).result()
    for number in range(REASONED):
        _remember_twice(store, rng, number, rng.choice(sorted(by_channel)))
    for sessions in by_channel.values():
        for item in sessions[-2:]:
            store.observe(item.head, item.turns).result()
    _embed(store)
    store.close()


def _remember_twice(store: MemoryStore, rng: random.Random, number: int, channel: str) -> None:
    """Note whose thing stays where since when, and why; then again with a part left out, changed or written otherwise.

    Both notes are tagged with their number, the second also with how it differs. Of every sixth pair the first is
    superseded by the second.
    """
    kind = LATER[number % len(LATER)]
    who, other = rng.sample(_WHO, 2)
    place, elsewhere = rng.sample(_WHERE, 2)
    day = date(rng.randint(2012, 2025), rng.randint(1, 12), rng.randint(1, 28))
    why, instead = (one.format(month=f"{day:%B}", where=place, hour=day.day) for one in rng.sample(_WHY, 2))
    thing = f"{_KEPT[number % len(_KEPT)]} of type {number}"

    def say(who: str, place: str, since: str, why: str) -> str:
        return f"The {who}{thing} stays in the {place}{since}{why}"

    since = f" since {day.day} {day:%B %Y}"
    first = say(f"{who}'s ", place, since, f", {why}")
    second = {
        "no-reason": say(f"{who}'s ", place, since, ""),
        "no-name": say("", place, since, f", {why}"),
        "no-number": say(f"{who}'s ", place, "", f", {why}"),
        "other-date": say(f"{who}'s ", place, f" since {day.isoformat()}", f", {why}"),
        "other-value": say(f"{other}'s ", elsewhere, " now", ""),
        "replaced": say(f"{who}'s ", elsewhere, " now", f", {instead}"),
    }[kind]
    at = NOW - timedelta(days=20)
    older = store.remember(first, channel=channel, tags=[f"pair-{number}"], created_at=at).result()
    newer = store.remember(second, channel=channel, tags=[f"pair-{number}", kind]).result()
    if kind == "replaced":
        store.settle(60)
        path = store.show(older, wanted=False).path
        data = store.vault.read(path)
        ended = okf.edit(data, {"superseded_by": newer, "valid_to": NOW.isoformat()})
        action = Action.replacing(path, older, data, ended, stage="planted", reason="replaced")
        store.apply(Changeset(run_id=f"replaced-{number}", actions=(action,)))


def _embed(store: MemoryStore) -> None:
    store.settle(600)
    store.operations.queue.drain()


def _request(paths: StorePaths, run_id: str, now: datetime) -> RunRequest:
    request = RunRequest.of(paths, run_id, now)
    request.folder.mkdir(parents=True)
    return request
