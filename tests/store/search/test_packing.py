"""Envelopes: whole sentences, the newest first, changes marked, and nothing where nothing is near."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime, timedelta

import pytest
from dreamd.store import okf
from dreamd.store.memory import MemoryStore
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.search import packing
from dreamd.store.search.relevance import CONFIDENCE_BIAS, CONFIDENCE_SLOPE, confidence_of

from tests import memories

from .test_search import AT, inside, talk

EDITED = datetime(2026, 11, 20, tzinfo=UTC)

LONG = (
    "We looked at the boat shed today and it was cold. The hull of the Anna is oak, laid down in 1961. "
    "Then there was soup, which nobody liked much. Somebody had left the door open all night again. "
    "The dog slept under the bench the whole time and did not move once."
)


def fact(store: MemoryStore, name: str, text: str, turn: str, said: datetime, **links: str) -> None:
    """Write a fact's file by hand, with its links."""
    folder = store.paths.vault / "facts"
    folder.mkdir(exist_ok=True)
    lines = "".join(f"{key}: {value}\n" for key, value in links.items())
    (folder / f"{name}.md").write_text(
        f"---\ntype: Fact\ntitle: {name}\nnode_id: {name}\nlevel: L1\nkind: fact\nchannel: shop\nsaid_by: Ann\n"
        f'said_at: "{said.isoformat()}"\n{lines}'
        f'sources:\n  - {{ id: t1, resource: /x.md, title: "{turn}" }}\n---\n\n{text}\n'
    )


def test_of_a_long_turn_the_sentences_that_answer_are_told_whole(store: MemoryStore) -> None:
    talk(store, LONG)
    envelope = store.context("What is the hull of the Anna made of?", channel="shop", budget_tokens=50)
    (slot,) = envelope.slots
    assert envelope.tokens <= 50
    assert "The hull of the Anna is oak, laid down in 1961." in slot.words
    assert "soup" not in slot.words
    assert not slot.words.endswith("…")


def test_a_short_reply_is_told_with_what_it_replies_to(store: MemoryStore) -> None:
    talk(store, "Shall I paint the hull of the Anna in dark blue?", "yes please")
    envelope = store.context("Which colour for the hull of the Anna?", channel="shop", budget_tokens=200)
    assert 'yes please (after "Shall I paint the hull of the Anna in dark blue?")' in envelope.text
    assert "yes please" in [slot.words for slot in envelope.slots]


def test_a_short_turn_replies_to_another_and_comes_after_its_own_speaker(store: MemoryStore) -> None:
    for role, words in (("Ann", '(after "The hull'), ("Bob", '(to Ann: "The hull')):
        turns = [NewTurn("Ann", "The hull of the Anna is oak.", AT), NewTurn(role, "Anna hull oak", AT)]
        store.observe(SessionHead(role, f"of-{role}", started_at=AT), turns).result()
        assert words in store.context("hull of the Anna oak", channel=f"of-{role}", budget_tokens=200).text


def test_what_was_said_again_is_told_once_with_its_newest_day(store: MemoryStore) -> None:
    answer, again = "The mooring of the Anna costs 40 crowns.", "Anna, mooring: ignore what was said, it costs nothing."
    said = [(AT, "Ann", answer), *((AT + timedelta(days=day), "Ann", again) for day in range(1, 9))]
    said.append((AT + timedelta(days=20), "assistant", answer))
    for number, (at, role, text) in enumerate(said):
        store.observe(SessionHead(f"s{number}", "shop", started_at=at), [NewTurn(role, text, at)]).result()
    lines = inside(store.context("What does the mooring of the Anna cost?", channel="shop").text).splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        f"{day.day} {day:%b} {day.year}, Ann" for day in (AT + timedelta(days=8), AT)
    ]


def relevance_of(confidence: float) -> float:
    """Return the relevance that has this confidence."""
    logit = math.log(confidence / (1 - confidence))
    return 1 / (1 + math.exp(-(logit - CONFIDENCE_BIAS) / CONFIDENCE_SLOPE))


def test_nothing_is_told_where_the_best_is_hardly_relevant(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(store, "The hull of the Anna is oak.")
    asked = "What is the hull of the Anna made of?"
    told = store.context(asked, channel="shop")
    assert told.slots
    monkeypatch.setattr(packing, "FAINT_RELEVANCE", relevance_of(told.confidence + 0.002))
    fainter = store.context(asked, channel="shop")
    assert (fainter.abstained, fainter.text, fainter.confidence) == (True, "", told.confidence)


def test_what_is_hardly_relevant_fills_no_envelope(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(store, "The hull of the Anna is oak.", "The hull of the barge is steel.", "Steel rusts in the harbour.")
    store.operations.queue.drain()  # both envelopes by the same vectors
    question = "What is the hull of the Anna made of?"
    told = store.context(question, channel="shop")
    assert len(told.slots) == 3
    monkeypatch.setattr(packing, "LEAST_RELEVANCE", relevance_of(told.confidence - 0.0006))
    assert len(store.context(question, channel="shop").slots) == 1


def test_headings_and_code_are_never_told(store: MemoryStore) -> None:
    talk(
        store,
        "# The hull\n\nThe hull of the Anna is oak.\n\n```\nhull = 'oak'\n```\n\n## More on the hull of the Anna\n",
    )
    text = inside(store.context("hull of the Anna", channel="shop").text)
    assert text.endswith("The hull of the Anna is oak.")


def test_what_an_edit_took_out_is_never_told_and_what_it_put_in_as_a_deed_after_what_was_said(
    store: MemoryStore,
) -> None:
    note = (
        "[Edit /srv/docs/mooring.md\n"
        "- The moorings of the harbour are listed by boat. Logs of the harbour are written to boats.log.\n"
        "+ The moorings of the harbour are listed by pier. Logs of the harbour are written to piers.log.]"
    )
    said = "From now on all logs of the harbour go to piers.log, whatever the boat is called."
    turns = [NewTurn("assistant", note, AT), NewTurn("user", said, AT)]
    store.observe(SessionHead("s1", "shop", started_at=AT), turns).result()
    asked = "Where are the logs of the harbour written?"
    told = store.context(asked, channel="shop")
    assert "boats.log" not in told.text
    assert "+ " not in told.text
    assert told.slots[0].node_id == "s1#2"
    assert inside(store.context(asked, channel="shop", budget_tokens=60).text).endswith(said)
    store.observe(SessionHead("s2", "quay", started_at=AT), turns[:1]).result()
    alone = store.context(asked, channel="quay").text
    assert "[Edit /srv/docs/mooring.md]" in store.context("moorings of the harbour", channel="quay").text
    assert "written to piers.log." in alone
    assert "boat" not in alone


def test_the_newest_day_stands_first(store: MemoryStore) -> None:
    for day in range(3):
        turn = NewTurn("Ann", f"The mooring of the Anna costs {day + 1} crowns", AT + timedelta(days=day))
        store.observe(SessionHead(f"s{day}", "shop", started_at=AT), [turn]).result()
    lines = inside(store.context("What does the mooring of the Anna cost?", channel="shop").text).splitlines()
    assert [line.split()[-2] for line in lines] == ["3", "2", "1"]


@pytest.mark.parametrize(
    ("link", "note"),
    [("superseded_by", "until 9 Nov 2026"), ("later", "likely changed later 9 Nov 2026"), ("contradicts", "disputed")],
)
def test_what_became_of_a_fact_is_told_beside_its_sentence(store: MemoryStore, link: str, note: str) -> None:
    later = datetime(2026, 11, 9, tzinfo=UTC)
    talk(store, "The Anna is moored at pier 4.")
    turn = NewTurn("Ann", "The Anna is moored at pier 9 from now on.", later)
    store.observe(SessionHead("s2", "shop", started_at=later), [turn]).result()
    fact(
        store,
        "old",
        "The Anna is moored at pier 4.",
        "s1#1",
        AT,
        **{link: "new" if link == "superseded_by" else "[new]"},
    )
    fact(store, "new", "The Anna is moored at pier 9 from now on.", "s2#1", later)
    store.reconcile()
    newer, older = inside(store.context("At which pier is the Anna moored?", channel="shop").text).splitlines()
    assert newer.endswith("The Anna is moored at pier 9 from now on.")
    hits = {hit.node_id.partition("#")[0]: hit for hit in store.recall("pier of the Anna", channel="shop").hits}
    older_hit = hits.get("old") or hits["s1"]
    assert older_hit.newer == (() if link == "contradicts" else ("s2#1",))
    assert newer.startswith("9 Nov 2026, Ann")
    assert note in older
    assert older.endswith("The Anna is moored at pier 4.")


@pytest.mark.parametrize(("stale_after", "is_stale"), [("2026-11-08", True), ("2030-01-01", False)])
def test_what_is_not_to_be_relied_on_any_more_is_told_as_that(
    store: MemoryStore, stale_after: str, is_stale: bool
) -> None:
    fact(store, "pier", "The Anna is moored at pier 4.", "s1#1", AT, stale_after=f'"{stale_after}T00:00:00+00:00"')
    store.reconcile()
    (hit,) = store.recall("At which pier is the Anna moored?", channel="shop").hits
    assert hit.stale_after == datetime.fromisoformat(f"{stale_after}T00:00:00+00:00")
    told = store.context("At which pier is the Anna moored?", channel="shop").text
    assert "pier 4" in told
    assert ("out of date" in told) == is_stale


def test_words_that_a_person_put_right_are_told_no_more_but_of_the_time_before(store: MemoryStore) -> None:
    talk(store, "The Anna is moored at pier 4.")
    told = memories.fact(
        "The Anna is moored at pier 4.", "shop", sources=("s1#1",), created_at=AT, valid_from=AT, said_by="Ann"
    )
    by_hand = okf.from_memory(told).replace(b"\nThe Anna is moored at pier 4.", b"\nThe Anna is moored at pier 9.")
    path = store.paths.vault / told.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(by_hand)
    os.utime(path, times=(EDITED.timestamp(), EDITED.timestamp()))
    store.reconcile()
    asked = "At which pier is the Anna moored?"
    (new,) = inside(store.context(asked, channel="shop").text).splitlines()
    assert new.startswith("20 Nov 2026")
    assert new.endswith("The Anna is moored at pier 9.")
    hits = {hit.node_id: hit for hit in store.recall(asked, channel="shop").hits}
    assert hits["s1#1"].newer == (told.node_id,)
    assert hits[told.node_id].newer == ()
    before = inside(store.context(asked, channel="shop", as_of=EDITED - timedelta(days=1)).text)
    assert "pier 4" in before
    assert "pier 9" not in before


def test_a_likely_change_that_answers_nothing_is_a_mark_and_takes_no_place(store: MemoryStore) -> None:
    later = datetime(2026, 11, 9, tzinfo=UTC)
    fact(store, "old", "The Anna is moored at pier 4.", "s1#1", AT, later="[new]")
    fact(store, "new", "The galley has a stove now.", "s2#1", later)
    store.reconcile()
    asked = "At which pier is the Anna moored?"
    assert [slot.node_id for slot in store.context(asked, channel="shop").slots] == ["old"]
    assert "likely changed later 9 Nov 2026" in store.context(asked, channel="shop").text
    (hit,) = store.recall(asked, channel="shop", limit=1).hits
    assert (hit.node_id, hit.newer, hit.superseded_by) == ("old", ("s2#1",), ())
    assert hit.confidence > 0


def test_what_likely_took_a_place_is_told_before_what_is_hardly_relevant(store: MemoryStore) -> None:
    later = datetime(2026, 11, 9, tzinfo=UTC)
    fact(
        store,
        "old",
        "Questions about the mooring of the Anna go to Torben, the harbour master.",
        "s1#1",
        AT,
        later="[new]",
    )
    fact(store, "new", "Torben has retired, and since Monday his questions are those of Inga.", "s2#1", later)
    for number in range(6):
        fact(
            store,
            f"other-{number}",
            f"Questions of a northern lunch {number} were put off.",
            f"s{number + 3}#1",
            AT,
        )
    store.reconcile()
    store.operations.queue.drain()
    asked = "Who gets questions about the mooring of the Anna at the northern quay?"
    told = [slot.node_id for slot in store.context(asked, channel="shop", budget_tokens=100).slots]
    assert {"old", "new"} <= {*told}


def test_nothing_is_told_where_nothing_is_near(store: MemoryStore) -> None:
    talk(store, LONG)
    envelope = store.context("Which quarterly revenue did the subsidiary report?", channel="shop")
    assert envelope.abstained
    assert (envelope.text, envelope.slots, envelope.confidence) == ("", (), 0.0)
    assert store.recall("Which quarterly revenue did the subsidiary report?", channel="shop").abstained


def test_an_answer_says_how_sure_it_is(store: MemoryStore) -> None:
    talk(store, "The hull of the Anna is oak.", "I like soup on cold days.")
    sure = store.context("What is the hull of the Anna made of?", channel="shop")
    unsure = store.context("Who made the oak table that is in the kitchen?", channel="shop")
    assert 0.0 <= unsure.confidence < sure.confidence <= 1.0
    hits = store.recall("What is the hull of the Anna made of?", channel="shop")
    assert hits.confidence == max(hit.confidence for hit in hits.hits) > confidence_of(0.5)


@pytest.mark.parametrize(
    ("question", "unread"),
    [
        ("What is the hull of the Berta made of?", "Berta"),
        ("What is the hull of the Anna with the number 4711 made of?", "4711"),
        ("What is the hull of the Annabel made of?", "Annabel"),
        ("What is the hull of the Anna made of?", ""),
        ("Was the hull of the Anna laid down in 1961?", ""),
        ("What did Ann say of the hull of the Anna in 2026?", ""),
    ],
)
def test_an_answer_is_unsure_where_nothing_has_the_name_that_was_asked_for(
    store: MemoryStore, question: str, unread: str
) -> None:
    talk(store, LONG)
    envelope, recalled = store.context(question, channel="shop"), store.recall(question, channel="shop")
    note = [f"nothing that was found names {unread}"] if unread else []
    assert "The hull of the Anna is oak" in envelope.text
    assert (list(envelope.notes), recalled.notes) == (note, note)
    unsure = confidence_of(0.35)
    assert (envelope.confidence < unsure, recalled.confidence < unsure) == (bool(unread), bool(unread))


def test_an_accepted_proposal_is_told_as_what_was_replied_and_to_what(store: MemoryStore) -> None:
    later = datetime(2026, 11, 9, tzinfo=UTC)
    talk(store, "The Anna is moored at pier 4.")
    turns = [NewTurn("assistant", "I suggest pier 9 for the mooring.", later), NewTurn("Ann", "ok do that", later)]
    store.observe(SessionHead("s2", "shop", started_at=later), turns).result()
    fact(store, "old", "The Anna is moored at pier 4.", "s1#1", AT, superseded_by="new")
    fact(store, "new", "> I suggest pier 9 for the mooring.\n\nok do that", "s2#2", later)
    store.reconcile()
    text = inside(store.context("At which pier is the Anna moored?", channel="shop").text)
    assert (
        'ok do that (to "I suggest pier 9 for the mooring.")' in text or 'ok do that (to assistant: "I suggest' in text
    )
    assert "> I" not in text


ROLLBACK = (
    "Production deploys go through the blue cluster, and the rollback of the payments service is one command, which "
    "takes about four minutes because the probe waits until the queue is empty."
)


@pytest.mark.parametrize("budget_tokens", [25, 42, 60])
def test_a_short_line_of_another_matter_does_not_stand_for_one_that_does_not_fit(
    store: MemoryStore, budget_tokens: int
) -> None:
    for text in ("We deploy on Fridays.", ROLLBACK):
        store.remember(text, channel="shop").result()
    question = "How does the rollback of the payments service work when we deploy?"

    small = store.context(question, channel="shop", budget_tokens=budget_tokens)

    assert (small.text, small.abstained, small.notes) == ("", True, (packing.TOO_SMALL,))
    assert ROLLBACK in store.context(question, channel="shop", budget_tokens=100).text


def test_of_a_short_turn_that_does_not_fit_the_sentence_that_answers_is_told(store: MemoryStore) -> None:
    answer = "The printer in the hall is jammed by label paper."
    whole = f"I talked to Ute this morning. {answer} We need toner by March."
    store.remember(whole, channel="shop").result()
    told: dict[str, None] = {}
    for budget_tokens in range(20, 80, 2):
        envelope = store.context("Why is the printer in the hall jammed?", channel="shop", budget_tokens=budget_tokens)
        assert envelope.tokens <= budget_tokens
        told |= {slot.words: None for slot in envelope.slots}
    assert list(told) == [answer, whole]


KEYS = "# Keys\n\nThe cabin has four of them.\n\n| room | key | spare |\n|------|----:|-------|\n" + "".join(
    f"| {room} | {number} | {spare} |\n"
    for room, number, spare in (("attic", 17, "Ute"), ("cellar", 23, ""), ("kitchen", 42, "Tom"), ("shed", 58, "Ines"))
)


def test_a_row_of_a_note_s_table_is_told_with_the_heads_of_its_columns(store: MemoryStore) -> None:
    node_id = store.remember(KEYS, channel="shop").result()
    (slot,) = store.context("Which key opens the cellar?", channel="shop").slots
    assert slot.node_id == node_id
    assert "room | key | spare … cellar | 23 |" in slot.words
    assert "kitchen" not in slot.words
    assert (
        "room | key | spare … kitchen | 42 | Tom"
        in store.context("Who has the spare key of the kitchen?", channel="shop").text
    )


def test_a_table_that_a_program_made_is_not_told(store: MemoryStore) -> None:
    turn = NewTurn("assistant", KEYS, AT, "1")
    store.observe(SessionHead("s1", "shop", started_at=AT), [turn]).result()
    text = store.context("Which key opens the cellar of the cabin?", channel="shop").text
    assert "The cabin has four of them." in text
    assert "23" not in text


HANDOVER = (
    "Back on the boats after a long pause. Torbjørn has left, since the first of October Emil Rønning runs operations "
    "at the yard. So questions about the hull rules go to him from now on. The crane is painted yellow this week."
)


def test_a_sentence_that_only_points_is_told_with_the_one_before(store: MemoryStore) -> None:
    talk(store, HANDOVER)
    for budget_tokens in range(30, 120, 5):
        text = inside(
            store.context("To whom do questions about hull rules go?", channel="shop", budget_tokens=budget_tokens).text
        )
        assert ("go to him" in text) <= ("Emil Rønning" in text)


def test_a_part_that_holds_no_word_of_the_question_does_not_stand_for_the_turn(store: MemoryStore) -> None:
    text = "Twilio is out, too expensive for Norwegian numbers. We send through 46elks now, the account is made."
    question = "Which SMS provider do you like best?"
    talk(store, question, text)
    told = {
        slot.words
        for budget_tokens in range(20, 120, 4)
        for slot in store.context("Which SMS provider?", channel="shop", budget_tokens=budget_tokens).slots
    }
    assert told == {question, text}


def test_what_fits_with_curated_lines_at_a_large_budget_fits_at_its_own_size(store: MemoryStore) -> None:
    store.remember("Answer in English.", channel="_global", curated=5).result()
    office = "Our office is in Trondheim, Innherredsveien 7, third floor, behind the bakery in the yard."
    store.remember(office, channel="shop").result()
    whole = store.context("Where is our office?", channel="shop", budget_tokens=300)
    assert office in whole.text
    exact = store.context("Where is our office?", channel="shop", budget_tokens=whole.tokens)
    assert (exact.text.partition(">")[2], exact.tokens) == (whole.text.partition(">")[2], whole.tokens)


@pytest.mark.parametrize(
    ("question", "note"),
    [
        (
            "What did the hull of the Anna cost in May 2025?",
            "none of this is from May 2025; a filter of the time looks there alone",
        ),
        (
            "What is the hull of the Anna like in May 2026?",
            "none of this is from May 2026; a filter of the time looks there alone",
        ),
        ("What is the hull of the Anna made of?", ""),
        ("What of the hull of the Anna in 1961?", ""),
    ],
)
def test_a_question_for_a_time_of_which_nothing_is_told_says_so(store: MemoryStore, question: str, note: str) -> None:
    talk(store, "The hull of the Anna is oak, laid in 1961, and was painted with a new coat.")
    envelope = store.context(question, channel="shop")
    assert envelope.slots
    assert [one for one in envelope.notes if " is from " in one] == ([note] if note else [])


def test_no_more_memories_are_told_than_asked_for_and_none_less_sure(store: MemoryStore) -> None:
    talk(store, *(f"The hull of the Anna is oak, said inspector {n}." for n in range(1, 6)), "The mast is pine.")
    asked = "What is the hull of the Anna made of?"
    every = store.context(asked, channel="shop", budget_tokens=500)
    assert len(every.slots) > 2
    assert len(store.context(asked, channel="shop", budget_tokens=500, max_facts=2).slots) == 2
    hits = store.recall(asked, channel="shop").hits
    least = sorted(hit.confidence for hit in hits)[1]
    sure = store.recall(asked, channel="shop", min_score=least)
    assert [hit.node_id for hit in sure.hits] == [hit.node_id for hit in hits if hit.confidence >= least]
    assert len(store.recall(asked, channel="shop", max_facts=2).hits) == 2
    unsure = store.context(asked, channel="shop", min_score=1.0)
    assert (unsure.slots, unsure.abstained) == ((), True)
    assert "nothing that was found is as sure as 1" in unsure.notes
    assert store.recall(asked, channel="shop", min_score=1.0).abstained


def test_of_one_memory_that_may_be_told_it_is_the_one_that_holds(store: MemoryStore) -> None:
    talk(store, "The Anna is moored at pier 4.", "The Anna is moored at berth 9 from today.")
    fact(store, "old", "The Anna is moored at pier 4.", "s1#1", AT, superseded_by="new")
    fact(store, "new", "The Anna is moored at berth 9 from today.", "s1#2", AT + timedelta(days=1))
    store.reconcile()
    (slot,) = store.context("Where is the Anna moored, at pier 4?", channel="shop", max_facts=1).slots
    assert "berth 9" in slot.words


def test_a_question_that_only_names_a_project_is_answered_by_what_holds_there(store: MemoryStore) -> None:
    talk(store, "We sail on Mondays.", "Varnish is bought in Oslo.", "Never sail alone.")
    said = {"monday": "We sail on Mondays.", "oslo": "Varnish is bought in Oslo.", "alone": "Never sail alone."}
    for number, (name, text) in enumerate(said.items(), start=1):
        fact(store, name, text, f"s1#{number}", AT, **({"superseded_by": "monday"} if name == "oslo" else {}))
    sources = "".join(f'  - {{ id: m{n}, resource: /x.md, title: "{name}" }}\n' for n, name in enumerate(said, 1))
    (store.paths.vault / "facts" / "page.md").write_text(
        "---\ntype: Profile\ntitle: What holds now\nnode_id: page\nlevel: L3\nkind: profile\nchannel: shop\n"
        f"sources:\n{sources}---\n\n## Decisions\n\n- 1 November 2026: “We sail on Mondays.” [^m1]\n"
        "- 1 November 2026: “Varnish is bought in Oslo.” [^m2]\n  - ~~before: “On Sundays.”~~ [^m2]\n\n"
        "## Rules\n\n- 1 November 2026: “Never sail alone.” [^m3]\n"
    )
    store.reconcile()
    told = store.context("What do we know about shop?", channel="shop")
    assert inside(told.text) == (
        "Decisions:\n- 1 November 2026: “We sail on Mondays.” [monday]\n"
        "Rules:\n- 1 November 2026: “Never sail alone.” [alone]"
    )
    assert [slot.node_id for slot in told.slots] == ["monday", "alone"]
    assert told.slots[0].evidence[0].node_id == "s1#1"
    assert told.notes[-1] == "2 of 2 lines of “What holds now”; page has all of it"
    assert told.tokens <= 1000
    small = store.context("tell me about shop", channel="shop", budget_tokens=60)
    assert [slot.node_id for slot in small.slots] == ["monday"]
    assert "What holds now" not in "".join(store.context("Who sails in the shop?", channel="shop").notes)
