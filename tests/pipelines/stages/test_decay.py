from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import exp, log
from typing import Any

import pytest
from dreamd.pipelines.settings import DecaySettings
from dreamd.pipelines.stages import consolidate, decay
from dreamd.pipelines.stages.decay import Confidence, UsageEvidence
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.ledger.ledger import Reinforced, Usage
from dreamd.store.ledger.questions import Probe
from dreamd.store.model import Kind, Level, Memory, trust

from tests.memories import fact
from tests.pipelines.fakes import MAY_8, NOW, FakeSource

SETTINGS = DecaySettings()


def days(number: float) -> timedelta:
    return timedelta(days=number)


def memory(
    text: str = "The build takes nine minutes.", kind: Kind = Kind.FACT, *, learned: datetime = NOW, **fields: Any
) -> Memory:
    """Build a fact that was said long before it was learned."""
    extra = {"learned_at": learned.isoformat(), **fields.pop("extra", {})}
    defaults: dict[str, Any] = {"certainty": 0.95, "created_at": MAY_8, "sources": ("s1#1",)}
    return fact(text, kind=kind, extra=extra, **(defaults | fields))


def source_of(*memories: Memory) -> FakeSource:
    source = FakeSource()
    for each in memories:
        source.files[each.path] = okf.from_memory(each)
    return source


def faded(source: FakeSource, now: datetime, history: History | None = None) -> list[str]:
    view = source.view(history)
    planned = decay.plan(view, now)
    for action in planned.actions:
        meta = okf.parse(action.content or b"").meta
        assert meta["status"] == "deprecated"
        assert okf.instant(meta["archived_at"]) == now
    return [action.node_id for action in planned.actions]


def confidence(of: Memory, usage: Mapping[str, Usage] | None = None, **feedback: int) -> Confidence:
    history = History(usage=usage or {}, feedback={of.node_id: feedback})
    found = UsageEvidence(history, (), SETTINGS).confidence_in(of)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "provenance", "tau"),
    [
        (Kind.CORRECTION, "user_corrected", 365),
        (Kind.PREFERENCE, "user_stated", 90),
        (Kind.PROCEDURE, "user_stated", 60),
        (Kind.FACT, "user_stated", 30),
        (Kind.FACT, "inferred", 7),
    ],
)
def test_confidence_falls_exponentially_and_grows_with_use_and_trust(kind: Kind, provenance: str, tau: float) -> None:
    one = memory(kind=kind, provenance=provenance)
    usage = {one.node_id: Usage(4, NOW + days(2))}
    expected = 0.95 * exp(-40 / tau) * (1 + 0.1 * log(5)) * 0.90
    assert confidence(one, usage, not_useful=1).at(NOW + days(42)) == pytest.approx(expected)


def test_confidence_never_exceeds_one() -> None:
    one = memory()
    assert confidence(one, {one.node_id: Usage(10_000, NOW)}, used=50).at(NOW) == 1.0


def test_feedback_moves_trust_within_bounds() -> None:
    assert trust({}) == 1.0
    assert trust({"used": 1, "not_useful": 1, "rejected": 1}) == pytest.approx(0.93)
    assert trust({"not_useful": 99}) == 0.0
    assert trust({"used": 99}) == 2.0


def test_answering_a_question_raises_trust() -> None:
    one = memory()
    probes = [Probe("how long?", "proj", ("s1#1",)), Probe("what takes nine minutes?", None, (one.node_id,))]
    found = UsageEvidence(History(probes=probes), (), SETTINGS).confidence_in(one)
    assert found is not None
    assert found.trust == pytest.approx(1.10)


@pytest.mark.parametrize("kind", [Kind.FACT, Kind.PREFERENCE, Kind.PROCEDURE, Kind.CORRECTION])
def test_the_moment_of_fading_is_known_beforehand(kind: Kind) -> None:
    one = memory(kind=kind)
    at = confidence(one).fades_at(SETTINGS)
    assert confidence(one).at(at) == pytest.approx(SETTINGS.archive_below)
    source = source_of(one)
    assert faded(source, at - days(0.01)) == []
    assert faded(source, at + days(0.01)) == [one.node_id]


def test_imported_history_counts_from_when_it_was_learned() -> None:
    source = FakeSource()
    for week in range(52):
        said = (("Ann", f"I paid {week + 100} crowns for the violin lesson in Oslo."),)
        source.add(f"s{week}", *said, at=NOW - days(365 - 7 * week))
    view = source.view()
    learned = consolidate.plan(view, NOW)
    view.apply(learned.actions, learned.cursors)
    assert len(learned.actions) >= 52
    assert decay.plan(view, NOW).actions == []
    source.take(view)
    assert faded(source, NOW + days(29)) == []
    assert faded(source, NOW + days(400)) != []


@pytest.mark.parametrize(
    "kept",
    [
        memory(extra={"verified": [{"by": "human:ann", "at": NOW.isoformat()}]}),
        memory(extra={"curated": True}),
        memory(extra={"curated": 5}),
        memory(run=None),
        memory(contradicts=("other",)),
        memory(sources=("s1#1", "s2#1", "s3#4")),
        memory(sources=("s1#1", "s1#2"), extra={"sources": [
            {"id": f"t{n}", "resource": "/s.md", "title": f"s1#{n}", "at": NOW.isoformat()} for n in (1, 2)
        ]}),
    ],
    ids=[
        "reviewed", "curated", "in every envelope", "a person's own", "open question", "said in three sessions",
        "reinforced twice",
    ],
)  # fmt: skip
def test_confirmed_and_repeated_facts_do_not_fade(kept: Memory) -> None:
    assert faded(source_of(kept), NOW + days(4000)) == []


def test_repetitions_in_the_ledger_add_to_those_in_the_file() -> None:
    one = memory(extra={"reinforced": [{"at": (NOW - days(40)).isoformat()}]})
    again = Reinforced(2, NOW - days(3))
    assert decay.reinforcements(one, History()) == 1
    assert decay.reinforcements(one, History(reinforced={one.node_id: again})) == 3
    once = History(reinforced={(plain := memory()).node_id: Reinforced(1, NOW + days(3))})
    found = UsageEvidence(once, (), SETTINGS).confidence_in(plain)
    assert found is not None
    assert found.last_at == NOW + days(3)
    assert UsageEvidence(History(reinforced={plain.node_id: again}), (), SETTINGS).confidence_in(plain) is None


def test_a_fact_that_a_person_edited_does_not_fade() -> None:
    one = memory()
    source = source_of(one)
    source.files[one.path] = source.files[one.path].replace(b"nine minutes", b"ten minutes")
    assert faded(source, NOW + days(4000)) == []


def test_what_an_agent_kept_fades_and_what_a_person_kept_does_not() -> None:
    agents = memory("Kept by an agent.", run=None, sources=(), extra={"agent_id": "claude"})
    mine = memory("Kept by me.", run=None, sources=())
    assert faded(source_of(agents, mine), NOW + days(400)) == [agents.node_id]


def test_use_and_repetition_restart_the_fading() -> None:
    used, through_turn, on_page, repeated = (memory(f"Number {word} is here.") for word in ("one", "two", "six", "ten"))
    through_turn = memory(through_turn.text, sources=("s2#7",))
    repeated = memory(
        repeated.text,
        extra={"sources": [{"id": "t1", "resource": "/s.md", "title": "s1#1", "at": (NOW + days(380)).isoformat()}]},
    )
    page = _page((on_page.node_id, used.node_id))
    usage = {
        used.node_id: Usage(1, NOW + days(390)),
        "s2#7": Usage(1, NOW + days(390)),
        page.node_id: Usage(1, NOW + days(390)),
    }
    source = source_of(used, through_turn, on_page, repeated, page)
    assert faded(source, NOW + days(400), History(usage=usage)) == []
    unused = faded(source, NOW + days(400))
    assert through_turn.node_id in unused
    assert repeated.node_id not in unused
    assert len(unused) == 2  # the page keeps one of its two


def test_the_last_source_of_a_page_does_not_fade() -> None:
    first, second = memory("The first of two."), memory("The second of two.")
    source = source_of(first, second, _page((first.node_id, second.node_id)))
    assert len(faded(source, NOW + days(400))) == 1


def test_the_number_that_fades_in_a_run_is_bounded() -> None:
    many = [memory(f"Fact number {n}.") for n in range(30)]
    assert len(faded(source_of(*many), NOW + days(400))) == SETTINGS.least_per_run
    assert decay.most_per_run(30, SETTINGS) == 10
    assert decay.most_per_run(5000, SETTINGS) == 50


def test_a_restored_memory_is_not_archived_again() -> None:
    one = memory()
    history = History(tombstones=frozenset({decay.tombstone_key(one.node_id)}))
    assert faded(source_of(one), NOW + days(4000), history) == []


def test_the_forecast_gives_moments_and_reads_no_young_file() -> None:
    soon, later, young = memory("Soon."), memory("Later.", Kind.CORRECTION), memory("Young.", created_at=NOW + days(80))
    source = source_of(soon, later, young)
    read: list[str] = []

    def reading(path: str) -> bytes | None:
        read.append(path)
        return source.read(path)

    evidence = UsageEvidence(History(), (), SETTINGS)
    fading = decay.confidences(source.memories(), reading, evidence, SETTINGS, NOW + days(100))
    found = list(decay.forecast(fading, evidence, SETTINGS, NOW + days(70), 30, 10))
    assert [one.memory.node_id for _, one in found] == [soon.node_id]
    assert NOW + days(70) <= found[0][0] <= NOW + days(100)
    assert young.path not in read


def test_the_forecast_is_what_the_dreams_of_so_many_nights_archive() -> None:
    kinds = (Kind.FACT, Kind.PREFERENCE, Kind.PROCEDURE)
    many = [memory(f"Fact number {n}.", kinds[n % 3], created_at=NOW + days(n % 7 * 9)) for n in range(50)]
    source = source_of(*many, _page((many[0].node_id, many[3].node_id)))
    start, nights, most = NOW + days(100), 4, SETTINGS.least_per_run
    evidence = UsageEvidence(History(), [("page", many[0].node_id), ("page", many[3].node_id)], SETTINGS)
    fading = decay.confidences(many, source.read, evidence, SETTINGS, start + days(nights))
    expected = list(decay.forecast(fading, evidence, SETTINGS, start, nights, most))
    archived = []
    for night in range(nights):
        view = source.view()
        planned = decay.plan(view, start + days(night))
        archived += [(start + days(night), action.node_id) for action in planned.actions]
        view.apply(planned.actions, planned.cursors)
        source.take(view)
    assert [(at, one.memory.node_id) for at, one in expected] == archived
    assert most < len(archived) <= nights * most
    assert {at for at, _ in archived} > {start}


def test_a_repetition_is_dated() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo in 2019."))
    view = source.view()
    planned = consolidate.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    history = source.take(view)
    source.add("s2", ("Ann", "I moved to Oslo in 2019."))
    again = source.view(history)
    (action,) = consolidate.plan(again, NOW + days(1)).actions
    memory_again = okf.to_memory(action.path, okf.parse(action.content or b""))
    assert [entry.get("at") for entry in memory_again.extra["sources"]] == [None, (NOW + days(1)).isoformat()]
    assert decay.reinforcements(memory_again, History()) == 1


@pytest.mark.parametrize(
    ("gone", "comes_back"),
    [
        ({"status": "deprecated", "archived_at": NOW.isoformat()}, True),
        ({"status": "deprecated"}, False),
        ({"status": "deprecated", "archived_at": NOW.isoformat(), "superseded_by": "newer"}, False),
    ],
    ids=["faded", "put away by hand", "superseded"],
)
def test_an_archived_fact_returns_when_it_is_repeated(gone: dict[str, str], comes_back: bool) -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo in 2019."))
    view = source.view()
    planned = consolidate.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    history = source.take(view)
    (path,) = source.files
    source.files[path] = okf.edit(source.files[path], gone)
    source.add("s2", ("Ann", "I moved to Oslo in 2019."))
    again = source.view(history)
    actions = consolidate.plan(again, NOW + days(200)).actions
    assert bool(actions) == comes_back
    for action in actions:
        meta = okf.parse(action.content or b"").meta
        assert (meta["status"], "archived_at" in meta, len(meta["sources"])) == ("stable", False, 2)


def _page(sources: tuple[str, ...]) -> Memory:
    return Memory(
        node_id="page",
        level=Level.SCENARIO,
        kind=Kind.SCENARIO,
        title="Page",
        text="- what they say",
        channel="proj",
        sources=sources,
        run="run-0",
        path="scenarios/page--page.md",
    )


def of_session(text: str, session: str = "s1", **fields: Any) -> Memory:
    return memory(text, channel=f"shop/~{session}", session_id=session, created_at=NOW, **fields)


def test_what_holds_in_a_session_fades_some_time_after_its_last_turn() -> None:
    said, without = of_session("The spike uses port 9999."), of_session("The branch is called spike.", "s2")
    lasting = memory("The shop uses port 8443.", channel="shop", created_at=NOW)
    source = source_of(said, without, lasting)
    source.add("s1", ("user", "Let us go on."), at=NOW + days(3))
    assert faded(source, NOW + days(0.9)) == []
    assert faded(source, NOW + days(1.1)) == [without.node_id]
    assert set(faded(source, NOW + days(4.1))) == {said.node_id, without.node_id}
    undone = History(tombstones=frozenset({decay.tombstone_key(without.node_id)}))
    assert faded(source, NOW + days(2), undone) == []


def test_no_page_is_made_of_what_holds_in_a_session() -> None:
    source = source_of(*(of_session(f"The spike uses port 999{number}.") for number in range(5)))
    assert source.view().memories() == []
