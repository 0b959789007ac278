"""Facts: what is kept of a turn in its context, in whose words, with which keys."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from dreamd.pipelines.extract.facts import Draft, drafts_of
from dreamd.store.model import Kind

from tests.pipelines.fakes import turns

FRIDAY = datetime(2026, 9, 11, 9, tzinfo=UTC)


def drafts(*said: tuple[str, str], new_from: int = 1) -> list[Draft]:
    return drafts_of(turns(*said, at=FRIDAY), new_from)


def only(*said: tuple[str, str]) -> Draft:
    (draft,) = drafts(*said)
    return draft


@pytest.mark.parametrize(
    "text",
    [
        "the invoices go to Petra Holm, she does the books since March",
        "never push to main on a friday, we got burnt twice",
        "no ORM please, I prefer plain SQL because I can read the plan",
        "the staging database is on db3, not db1",
        "Die Rechnungen gehen immer an Petra Holm, weil sie die Bücher führt",
        "usamos siempre Postgres, porque el equipo lo conoce",
    ],
)
def test_a_short_turn_is_kept_whole_and_word_for_word(text: str) -> None:
    draft = only(("user", text))
    assert draft.text == text
    assert draft.sources == ("s1#1",)
    assert draft.said_by == "user"


@pytest.mark.parametrize(
    "text",
    ["Nunca borres datos sin preguntar.", "Frag mich immer, bevor du einen Dienst neu startest."],
)
def test_a_bare_wish_in_the_words_of_a_rule_is_kept_whatever_it_seems_worth(text: str) -> None:
    draft = only(("user", text))
    assert draft.text == text
    assert draft.worth < 0.5


def test_a_report_in_such_words_is_not() -> None:
    assert drafts(("assistant", "Done."), ("user", "still red: the test never ends")) == []


@pytest.mark.parametrize(
    ("role", "text"),
    [
        ("user", "thanks, see you tomorrow"),
        ("user", "can you run the tests again"),
        ("user", "what happens if the disk is full?"),
        ("user", "maybe I'll try Rust some day"),
        ("user", "the password is hunter2!Xy9#k"),
        ("user", "wie war das nochmal?"),
        ("user", "I want to make sure I understand this correctly."),
        ("assistant", "You could use Redis, for example with a TTL of 300 seconds."),
        ("assistant", "Let me look at the file first."),
        ("assistant", "All 52 tests pass."),
        ("assistant", "A sample entry would look like this: `name = Jane Doe`."),
        ("tool", "the build took 300 seconds because the cache was cold"),
    ],
)
def test_what_is_over_with_the_conversation_is_not_kept(role: str, text: str) -> None:
    assert drafts((role, text)) == []


def test_a_choice_takes_along_what_was_chosen_and_nothing_else() -> None:
    offer = "Two ways to cache it:\n\n1. Redis, one more server\n2. A table in Postgres, slower but already there\n"
    draft = only(("user", "the catalogue is slow?"), ("assistant", offer), ("user", "option 2"))
    assert draft.text == "> Two ways to cache it: … A table in Postgres, slower but already there\n\noption 2"
    assert draft.attributes.kind is Kind.DECISION
    assert draft.sources == ("s1#3", "s1#2")


@pytest.mark.parametrize("reply", ["ok do that", "sí", "genau so", "do it", "vale"])
def test_an_acceptance_is_a_decision_with_what_was_proposed(reply: str) -> None:
    draft = only(("assistant", "I'd keep the backups for thirty days. Shall I set that up?"), ("user", reply))
    assert draft.text == f"> Shall I set that up?\n\n{reply}"
    assert draft.attributes.kind is Kind.DECISION


def test_a_refusal_is_kept_as_one_with_what_was_refused() -> None:
    said = "I'd keep the backups for thirty days. Shall I set that up?"
    draft = only(("assistant", said), ("user", "no redis, a map in the process will do"))
    assert draft.text == "> Shall I set that up?\n\nno redis, a map in the process will do"


def test_a_reply_stands_beside_the_sentence_that_it_names() -> None:
    said = "The tests of the importer need a clock of their own. I'd send the invoices by mail on the 5th."
    draft = only(("assistant", said), ("user", "no, the importer has a clock in `conftest.py`, use that one"))
    assert draft.text.startswith("> The tests of the importer need a clock")


def test_ok_to_what_proposes_nothing_is_nothing() -> None:
    assert drafts(("assistant", "The branch is green."), ("user", "ok")) == []
    assert drafts(("assistant", "Shall I run the tests now?"), ("user", "yes")) == []


def test_a_correction_is_one() -> None:
    draft = only(("assistant", "Both servers stand in Nuremberg."), ("user", "no, Helsinki. nuremberg was the old one"))
    assert draft.text == "> Both servers stand in Nuremberg.\n\nno, Helsinki. nuremberg was the old one"
    assert (draft.attributes.kind, draft.attributes.provenance) == (Kind.CORRECTION, "user_corrected")


def test_a_few_words_without_what_they_reply_to_are_nothing() -> None:
    assert drafts(("assistant", "All is ready: lint, types and tests are green."), ("user", "do it")) == []


def test_what_an_assistant_does_next_is_no_part_of_what_it_found() -> None:
    found = (
        "The root cause is that `os.replace` fails across file systems: the temporary folder is on tmpfs and the vault"
        " on the disk, so every save raises `EXDEV`."
    )
    said = f"Found the bug. {found} Now let me write a test for it."
    draft = only(("user", "why does saving fail on the laptop?"), ("tool", "exit 1"), ("assistant", said))
    assert draft.text == found


def test_what_an_assistant_reports_as_done_is_no_fact() -> None:
    report = (
        "All tests pass. I've changed the numbering of the folders from 1-based to 0-based across the code:"
        " `write_folder` and `read_folder` now begin at 0, and I updated their tests."
    )
    assert drafts(("user", "begin at 0"), ("tool", "ok"), ("assistant", report), new_from=3) == []


def test_of_an_assistant_the_finding_is_kept_and_the_proposal_not() -> None:
    found = (
        "The build was red because the runner has Node 18 and `vite` 6 needs Node 20; I pinned Node 20.11 in `.nvmrc`."
    )
    draft = only(("user", "why is it red?"), ("tool", "exit 1"), ("assistant", found))
    assert draft.text == found
    assert drafts(("user", "what now?"), ("assistant", "Should I add a test for it? I could also move the file.")) == []
    assert (draft.said_by, draft.attributes.provenance) == ("assistant", "observed")


def test_long_advice_is_no_fact() -> None:
    advice = "There are several ways.\n\n" + "\n".join(
        f"{n}. **Point {n}**: use caching because it helps" for n in range(12)
    )
    assert drafts(("user", "how?"), ("assistant", advice)) == []


def test_a_reason_stays_with_what_it_explains_in_a_long_turn() -> None:
    filler = "I had a look at the thing and it went on and on without much of a result for anybody. " * 5
    text = f"{filler}We switched the queue to NATS 2.10. That's why the old workers must stay off. {filler}"
    (draft,) = [draft for draft in drafts(("user", text)) if "NATS" in draft.text]
    assert "We switched the queue to NATS 2.10. That's why the old workers must stay off." in draft.text


def test_at_most_two_facts_come_of_a_turn() -> None:
    text = " ".join(
        f"We use Postgres {n} for the shop in Oslo because Petra knows it. Maybe the rest can wait." for n in range(12)
    )
    assert len(drafts(("user", text))) == 2


def test_a_request_put_as_a_question_is_no_decision() -> None:
    assert drafts(("user", "could we rename the importer to intake in all packages too?")) == []


def test_an_answer_with_a_question_mark_is_kept() -> None:
    said = "no, ninety days, we need them for the audit, right?"
    draft = only(("assistant", "I'd keep the backups for thirty days. Shall I set that up?"), ("user", said))
    assert draft.text == f"> Shall I set that up?\n\n{said}"


def test_keys_name_whom_and_what_a_fact_is_about_and_the_days_that_it_means() -> None:
    draft = drafts(
        ("assistant", "I wrote to Sunniva Berg about `deploy.toml`."),
        ("user", "sunniva berg runs the shop at Solsiden, the pilot starts next monday, see deploy.toml"),
    )[-1]
    assert draft.about == ("Sunniva Berg", "Solsiden", "deploy.toml")
    assert draft.days == (date(2026, 9, 14),)


def test_a_secret_is_not_kept_with_its_neighbours() -> None:
    (draft,) = drafts(
        ("user", "token: sk-ant-api03-q7Zk3vQx9LmT2bRw8NcY5dHs1JpF4gKa6UeV. We use Postgres 16 in Oslo now.")
    )
    assert "sk-ant" not in draft.text


def test_recalled_text_and_captions_are_not_learned() -> None:
    said = "<dreamd-memory>We always use MySQL 8.</dreamd-memory> [image: a photo of Rome] We use Postgres 16 now."
    assert only(("user", said)).text == "We use Postgres 16 now."


def test_turns_before_the_first_new_one_are_context() -> None:
    proposal = "I'd keep the backups for thirty days. Shall I set that up?"
    said = (("user", "the staging database is on db3, not db1"), ("assistant", proposal), ("user", "ok do that"))
    assert [draft.sources[0] for draft in drafts(*said, new_from=3)] == ["s1#3"]


def test_among_people_what_they_tell_is_kept_and_kind_words_are_not() -> None:
    kept = drafts(
        ("Ann", "Wow, that's amazing, congrats!"),
        ("Bob", "I moved to Oslo in 2019 and work for Telenor."),
        ("Ann", "You must be so proud of your team!"),
    )
    assert [draft.said_by for draft in kept] == ["Bob"]


def test_a_few_words_among_people_take_the_question_along() -> None:
    draft = drafts(("Ann", "Which city did you move to in 2019?"), ("Bob", "To Oslo, from Sweden, with Ann."))[-1]
    assert draft.text == "> Which city did you move to in 2019?\n\nTo Oslo, from Sweden, with Ann."


def test_of_people_a_comment_is_not_kept_and_what_happened_to_them_is() -> None:
    said = (
        ("Ann", "Last Friday we moved to Bergen, and Lina starts school there."),
        ("Bob", "That is wonderful! LintFinding a context to belong matters so much in life."),
        ("Ann", "It is. My friends and my family are my rock, and we have always kept each other motivated."),
    )
    assert [draft.text for draft in drafts(*said)] == [said[0][1]]


def test_a_remark_on_what_was_said_tells_nothing_by_itself() -> None:
    assert drafts(("assistant", "The old volume is deleted."), ("user", "yes good. that was the scary one")) == []


def test_a_line_that_leads_to_a_program_is_left_out_with_it() -> None:
    told = "We keep the limit of 40 requests a second, because the bot found the booking form. " * 4
    program = "```\nlimit = 40\nx = 1\ny = 2\nz = 3\n```"
    text = f"{told}\n\nHere is what I have so far:\n\n{program}\n\nWe need the limit of 40, because {told}"
    assert not any("so far" in draft.text for draft in drafts(("user", text)))


@pytest.mark.parametrize("call", ["[Bash: just test]", "[WebFetch: https://x.example]"])
def test_what_may_come_from_the_web_is_no_more_than_inferred(call: str) -> None:
    found = "Root cause: `cache.lock` stays behind when the worker is killed, so the next run waits for ever."
    draft = only(("user", "why is it red?"), ("assistant", call), ("tool", "timeout"), ("assistant", found))
    is_of_the_web = call.startswith("[Web")
    assert draft.attributes.provenance == ("inferred" if is_of_the_web else "observed")
    assert (draft.attributes.certainty < 0.8) is is_of_the_web


def test_a_claim_that_is_put_right_in_the_next_turn_is_no_fact() -> None:
    claim = (
        "The build was red because the runner has Node 18 and `vite` 6 needs Node 20; I pinned Node 20.11 in `.nvmrc`."
    )
    asked = ("user", "why is it red?")
    assert [draft.said_by for draft in drafts(asked, ("tool", "x"), ("assistant", claim))] == ["assistant"]
    put_right = drafts(
        asked, ("tool", "x"), ("assistant", claim), ("user", "no, that is wrong, the runner has Node 22 since May")
    )
    assert "assistant" not in {draft.said_by for draft in put_right}


def test_a_proposal_is_told_as_it_stands_in_its_turn() -> None:
    listed = "- Postgres for the orders\n- Redis for the queue"
    offer = f"I'd keep two:\n{listed}\n\n```\nlong\ncode\nof it\nall\n```\nThe rest stays."
    draft = only(("assistant", offer), ("user", "yes, do that"))
    assert draft.text.startswith("> I'd keep two: - Postgres for the orders - Redis for the queue … The rest stays.")
