from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from dreamd.pipelines.extract.facts import Draft, drafts_of
from dreamd.pipelines.language.content import content_stems
from dreamd.store.model import Kind, Turn

from tests.pipelines.fakes import MAY_8, turns
from tests.stand_ins import REAL, STAND_INS


def told(*said: tuple[str, str]) -> list[str]:
    return [draft.text for draft in drafts_of(turns(*said))]


def test_a_fact_stands_alone_and_cites_its_turn() -> None:
    (draft,) = drafts_of(
        turns(("Melanie", "Hi Caroline!"), ("Caroline", "Wow, Mel! I went to a support group yesterday."))
    )
    assert draft.text == "Caroline went to a support group on 7 May 2023."
    assert draft.sources == ("s1#2",)
    assert draft.at is not None
    assert (draft.attributes.kind, draft.attributes.tense, draft.attributes.certainty) == (Kind.EPISODE, "past", 0.95)
    assert draft.about == "Caroline"


def test_what_leans_stays_with_what_it_leans_on() -> None:
    assert told(("Jon", "I had to shut down my bank account. It was tough, but I needed to."), ("Gina", "Oh no!")) == [
        "Jon had to shut down Jon's bank account. It was tough, but Jon needed to."
    ]


def test_a_short_answer_takes_its_question_along() -> None:
    drafts = drafts_of(turns(("Ann", "Where did you go?"), ("Bob", "To Sweden."), ("Ann", "Nice!")))
    assert [draft.text for draft in drafts] == ["Where did Bob go? – To Sweden."]
    assert drafts[0].sources == ("s1#2", "s1#1")


def test_yes_and_no_are_answers() -> None:
    assert told(("Ann", "Have you ever been to Japan?"), ("Bob", "No, never!")) == [
        "Has Bob ever been to Japan? – No, never!"
    ]
    assert told(("Ann", "How are you?"), ("Bob", "Great!")) == []


def test_an_image_goes_with_what_was_said() -> None:
    said = ("Ann", "I painted my garden.\n[image: a photo of a red rose]"), ("Bob", "Wow!\n[image: a photo of a dog]")
    assert told(*said) == ["Ann painted Ann's garden. [image: a red rose]", "Bob shared [image: a dog]"]


def test_a_user_is_named_once_known() -> None:
    said = ("user", "I'm Craig, a developer. I prefer tabs."), ("assistant", "Noted."), ("user", "I use Flask 2.3.1.")
    assert told(*said) == ["The user is Craig, a developer.", "Craig prefers tabs.", "Craig uses Flask 2.3.1."]


def test_recalled_text_is_not_learned_again() -> None:
    said = ("user", '<dreamd source="recall">The user lives in Oslo.</dreamd> I moved to Bergen.')
    assert told(said) == ["The user moved to Bergen."]


def test_an_assistant_is_kept_short() -> None:
    answer = (
        "Certainly! Here you go:\n\n1. **Use a queue**: x\n2. **Add backoff**: y\n\nThe root cause was a stale cache."
    )
    assert told(("user", "Why is the import of orders slow?"), ("assistant", answer)) == [
        "The user asked: why is the import of orders slow?",
        "The assistant: The root cause was a stale cache.",
        "The assistant outlined: Use a queue; Add backoff",
    ]


def test_only_new_turns_become_facts() -> None:
    said = turns(("Ann", "Where did you go?"), ("Bob", "To Sweden."))
    assert [draft.text for draft in drafts_of(said, new_from=2)] == ["Where did Bob go? – To Sweden."]
    assert drafts_of(said, new_from=3) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I prefer lightweight libraries.", Kind.PREFERENCE),
        ("Always format code with syntax highlighting.", Kind.PREFERENCE),
        ("We decided to use Postgres.", Kind.DECISION),
        ("Actually the port is 8081.", Kind.CORRECTION),
        ("The workaround was to pin numpy.", Kind.PROCEDURE),
        ("Caching the tokens does not work.", Kind.NEGATIVE),
        ("Yesterday the server crashed.", Kind.EPISODE),
        ("The API listens on port 8080.", Kind.FACT),
    ],
)
def test_kinds(text: str, kind: Kind) -> None:
    (draft,) = drafts_of(turns(("user", text)))
    assert draft.attributes.kind is kind
    assert draft.attributes.provenance == ("user_corrected" if kind is Kind.CORRECTION else "user_stated")


SHORTER = {STAND_INS: 0.8, REAL: 0.75}
"""Of the stand-ins' words, which say much in few sentences, and of LoCoMo's."""


def test_facts_keep_the_substance_of_conversations(data: Path) -> None:
    """The facts of a set of conversations hold what answers its questions, in fewer words than the turns."""
    kept = evidence = 0
    held = {"turns": 0.0, "facts": 0.0}
    length = {"turns": 0, "facts": 0}
    for sample in json.loads((data / "locomo" / "dev.json").read_text())[:2]:
        said, facts = _read(sample["conversation"])
        length["turns"] += sum(len(turn.text.split()) for turn in said.values())
        length["facts"] += sum(len(draft.text.split()) for drafts in facts.values() for draft in drafts)
        for question in sample["qa"]:
            cited = [name for entry in question.get("evidence", []) for name in re.findall(r"D\d+:\d+", entry)]
            cited = [name for name in cited if name in said]
            if question["category"] == 5 or not cited:
                continue
            evidence += len(cited)
            kept += sum(bool(facts.get(name)) for name in cited)
            answer = set(content_stems(str(question["answer"])))
            held["turns"] += _share(answer, [said[name].text for name in cited])
            held["facts"] += _share(answer, [draft.text for name in cited for draft in facts.get(name, [])])
    assert kept >= 0.97 * evidence
    assert held["facts"] >= held["turns"]
    assert length["facts"] <= SHORTER[data] * length["turns"]


def _read(conversation: dict[str, list[dict[str, str]]]) -> tuple[dict[str, Turn], dict[str, list[Draft]]]:
    said: dict[str, Turn] = {}
    facts: dict[str, list[Draft]] = {}
    for number in range(1, 40):
        entries = conversation.get(f"session_{number}", [])
        session = [
            Turn(f"s{number}", n, entry["speaker"], _with_caption(entry), MAY_8, entry["dia_id"])
            for n, entry in enumerate(entries, start=1)
        ]
        said |= {turn.external_id or "": turn for turn in session}
        names = {turn.node_id: turn.external_id or "" for turn in session}
        for draft in drafts_of(session):
            facts.setdefault(names[draft.sources[0]], []).append(draft)
    return said, facts


def _with_caption(entry: dict[str, str]) -> str:
    return f"{entry['text']}\n[image: {entry['blip_caption']}]" if entry.get("blip_caption") else entry["text"]


def _share(answer: set[str], texts: list[str]) -> float:
    return len(answer & set(content_stems(" ".join(texts)))) / len(answer) if answer else 0.0


def test_what_begins_as_a_statement_is_told_as_one() -> None:
    said = turns(("user", "I have 3 hours left for the Heron problems, how can I use them for the exam?"))
    (draft,) = drafts_of(said)
    assert draft.text.startswith("The user has 3 hours left")
