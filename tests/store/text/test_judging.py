# ruff: noqa: E501 - pairs are read side by side
from __future__ import annotations

import pytest
from dreamd.store.limits import LONGEST_STATEMENT_CHARS
from dreamd.store.text.judging import EarlierStatement, Relation, judge
from hypothesis import given
from hypothesis import strategies as st

from tests.pipelines.near_misses import near_misses

NEAR = 0.8


def relation(earlier: str, later: str, cosine: float = NEAR) -> Relation | None:
    found = judge(later, [EarlierStatement("earlier", earlier, cosine)])
    return found[0].relation if found else None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The Zoom meeting with Danielle is on March 22 at 3 PM.", "The Zoom meeting with Danielle was moved to March 22 at 4:30 PM."),
        ("The deadline of the peer review draft is April 20.", "The deadline of the peer review draft was extended to April 25."),
        ("The API timeout is 30 seconds.", "The API timeout is 60 seconds now."),
        ("We use Postgres for billing.", "We switched billing to MySQL."),
        ("We keep 14 daily backups, please remember that.", "We keep 21 daily backups instead of 14."),
        ("Jørgen signs the invoices.", "Jørgen has left, Åse signs them."),
        ("The quota is 1,000 calls a day.", "The quota is 1,200 calls a day now."),
        ("SQLite it is for now.", "We moved from SQLite to Postgres."),
        ("The license is MIT, whatever. It runs on Python 3.10.", "The license: not MIT any more. Somebody sold it."),
        ("Die Sicherung läuft stündlich.", "Die Sicherung läuft jetzt nur noch nachts."),
        ("Wir deployen immer freitags um 16 Uhr.", "Wir deployen jetzt nur noch dienstags, weil am Freitag niemand da ist."),
        ("Ragnhild ser etter nettsiden.", "Ragnhild har sluttet, Peder tar over nettsiden fra nå av."),
        ("Møterommet heter Aurora.", "Møterommet heter Borealis nå."),
        ("Los informes salen por correo.", "Los informes ya no salen por correo, ahora van a la carpeta."),
    ],
)  # fmt: skip
def test_what_is_said_to_have_changed_is_an_update(earlier: str, later: str) -> None:
    assert relation(earlier, later) is Relation.UPDATES
    assert relation(later, earlier) is None


def test_a_value_that_is_denied_and_another_in_its_place_is_an_update() -> None:
    later = "Cancelling is free until 24 hours before, not 2 hours."
    assert relation("Customers can cancel for free up to 2 hours before.", later) is Relation.UPDATES


@pytest.mark.parametrize(
    "later",
    [
        "Maybe we switch billing to MySQL.",
        "Should we have billing on MySQL now?",
        "We switched billing to MySQL and rolled it back.",
        "I'd like billing moved to MySQL now.",
    ],
)
def test_what_is_only_thought_of_or_was_undone_changes_nothing(later: str) -> None:
    assert relation("We use Postgres for billing.", later) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The logo is blue.", "Is the logo green now? I don't know."),
        ("The key rotates every 30 days.", "The key rotates every 60 days now? Not sure."),
        ("The team lead is Ruth.", "Is the team lead Paul now? Please ask him."),
        ("The meeting room is Aurora.", "Someone said the meeting room is now Borealis. I doubt it."),
        ("The meeting room is Aurora.", "I am not sure of it. The meeting room is now Borealis."),
        ("The quota is 1,000 calls.", "The quota is 1,200 calls now. I really do not know whether that is so."),
        ("Der Drucker heißt Karl.", "Heißt der Drucker jetzt Otto? Keine Ahnung."),
        ("Das Passwort läuft nach 90 Tagen ab.", "Das Passwort läuft jetzt nach 30 Tagen ab. Das glaube ich aber nicht."),
        ("El límite es 40.", "El límite es 80 ahora. No estoy seguro."),
        ("Grensen er 40.", "Grensen er 80 nå. Det er jeg ikke sikker på."),
    ],
)  # fmt: skip
def test_what_is_asked_or_doubted_changes_nothing(earlier: str, later: str) -> None:
    assert relation(earlier, later) is None


@pytest.mark.parametrize(
    "beside",
    [
        "Let me know.",
        "Let's update the docs.",
        "If it breaks, tell me.",
        "I'd like to have that in the docs too.",
        "We are considering more tests.",
    ],
)
def test_what_is_wished_or_planned_beside_a_change_does_not_open_it(beside: str) -> None:
    earlier, later = "The API timeout is 30 seconds.", "The API timeout is 60 seconds now."
    assert relation(earlier, f"{later} {beside}") is Relation.UPDATES
    assert relation(earlier, f"{beside} {later}") is Relation.UPDATES
    assert relation(f"{earlier} {beside}", later) is Relation.UPDATES


@pytest.mark.parametrize("doubt", ["I think so.", "Not sure, though.", "Probably.", "Nobody knows, it's a rumour."])
def test_what_is_doubted_beside_a_change_opens_it(doubt: str) -> None:
    assert relation("The API timeout is 30 seconds.", f"The API timeout is 60 seconds now. {doubt}") is None


@pytest.mark.parametrize(
    "later",
    [
        "The API timeout is 60 seconds now. Can you change the configuration?",
        "The API timeout is 60 seconds now. Maybe we look at Redis some day.",
        "Why did the job of last night stop so early? The API timeout is 60 seconds now.",
    ],
)
def test_what_a_text_asks_or_doubts_beside_a_change_does_not_open_it(later: str) -> None:
    assert relation("The API timeout is 30 seconds.", later) is Relation.UPDATES


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("We pay 40 euro for hosting.", "We do not pay 60 euro for hosting now, that was a typo."),
        ("The demo password policy is 12 characters.", "On the staging site only, the demo password policy is 8 characters now."),
        ("The limit is 40.", "In the test environment the limit is 80 now."),
        ("Die Grenze ist 40.", "Auf dem Testserver ist die Grenze jetzt 80."),
    ],
)  # fmt: skip
def test_another_value_that_is_denied_or_holds_for_a_part_changes_nothing(earlier: str, later: str) -> None:
    assert relation(earlier, later) is None


@pytest.mark.parametrize("when", ["Since last week", "On Monday", "In March", "From now on"])
def test_a_beginning_that_says_when_is_no_part(when: str) -> None:
    assert relation("The limit is 40.", f"{when} the limit was raised to 80.") is Relation.UPDATES


def test_one_word_in_common_needs_nearness_as_well() -> None:
    earlier, later = "Anna Schreiber is the product owner of the shop.", "The shop database is now MariaDB."
    assert relation(earlier, later, 0.38) is None
    assert relation("Anna is the owner of the shop.", "Ben has taken over from Anna as owner.", 0.65) is Relation.LATER
    assert relation("The shop opens at six.", "We moved the shop.", 0.5) is Relation.LATER
    assert relation("Our backup runs at 04:00.", "Start it with systemctl. We used to run pm2 restart.", 0.26) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The room of the first sprint review holds 12 people.", "The room of the second sprint review now holds 20 people."),
        ("Sprint 1 ends on April 1 with the login page.", "Sprint 2 now ends on April 19 with the login page."),
        ("Ana lives in Lisbon.", "Boris now lives in Porto."),
        ("The server runs 3.11.", "The laptop was moved from 3.12 to 3.13."),
        *((earlier, later) for _, earlier, later in near_misses(100)),
    ],
)  # fmt: skip
def test_another_subject_is_not_changed(earlier: str, later: str) -> None:
    assert relation(earlier, later) is None


def test_of_several_the_one_with_the_subject_is_replaced() -> None:
    texts = ["The staging server has 4 GB.", "The office closes at six.", "The build server has 8 GB."]
    found = judge("The build server has 16 GB now.", [EarlierStatement(text, text, NEAR) for text in texts])
    assert (found[0].node_id, found[0].relation) == (texts[2], Relation.UPDATES)
    assert all(one.relation is Relation.LATER for one in found[1:])


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("My office is in Oslo.", "My office is in Bergen."),
        ("Rent is due on Monday.", "Rent is due on Friday."),
        ("The archive has no password.", "The archive has a password."),
        ("I enrolled in an academic writing course.", "I have never taken any academic writing course."),
        ("Das Büro öffnet um neun.", "Das Büro öffnet um zehn."),
    ],
)
def test_one_differing_span_without_a_sign_of_change_is_a_dispute(earlier: str, later: str) -> None:
    assert relation(earlier, later) is Relation.CONTRADICTS
    assert relation(earlier, later, 0.4) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("My office is in Oslo.", "My office is not in Bergen."),
        ("I ran 5 km along the river in 2023.", "I ran 8 km along the river in 2024."),
        ("Caddy serves the museum.", "Caddy fronts the museum."),
        ("Rent is due on Monday.", "Rent is due on Monday and Friday."),
    ],
)
def test_what_can_both_hold_is_no_dispute(earlier: str, later: str) -> None:
    assert relation(earlier, later) is None


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The project uses Postgres.", "The project uses Postgres!"),
        ("We moved the wiki from Confluence to Outline.", "The wiki moved to Outline."),
        ("Reports are sent on Monday by mail.", "The reports are sent by mail on Monday."),
        ("Responde siempre en español.", "Siempre responde en español."),
        ("Never log a token, always mask it.", "Never log a token, mask it always."),
    ],
)
def test_what_brings_nothing_new_is_the_same(earlier: str, later: str) -> None:
    assert relation(earlier, later, 0.85) is Relation.SAME


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Reports are sent on Monday by mail.", "Reports are sent on Friday by mail."),
        ("Reports are sent by Ana.", "Reports are sent by Boris."),
        ("Reports are sent.", "Reports are not sent."),
        ("Reports are sent by mail.", "Reports are sent by mail and by fax."),
    ],
)
def test_a_value_a_name_a_denial_or_an_addition_makes_another_statement(earlier: str, later: str) -> None:
    assert relation(earlier, later, 0.97) is not Relation.SAME


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Postgres 16, on the same box. It comes from Debian's packages.", "Yes. The launch is moved from Monday 16 March to Tuesday 24 March."),
        ("Next: on bad wifi the tablets send an order twice. We saw it in the demo.", "Twilio is out. We send through 46elks now."),
        ("The old lead has left the bakery team. Since 1 October Ana Berg runs the ordering, so ask her.", "Ana just called about the fair. It opens a week earlier now, so on 9 November, Ana says."),
    ],
)  # fmt: skip
def test_of_several_sentences_one_word_or_a_name_in_common_is_chance(earlier: str, later: str) -> None:
    assert relation(earlier, later, cosine=0.45) is None


def test_a_reply_is_compared_with_what_it_accepts_and_not_with_what_it_refuses() -> None:
    later = "The server has JDK 21 now, with the reinstall."
    assert relation("> I'd target JDK 17 on the server.\n\nyes, do that", later) is Relation.UPDATES
    assert relation("> I'd target JDK 17 on the server.\n\nno, never that old", later, cosine=0.45) is None


def test_of_several_sentences_each_is_compared() -> None:
    later = "I slept badly. The API timeout is 60 seconds now. It rains."
    assert relation("The API timeout is 30 seconds.", later) is Relation.UPDATES


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_can_be_judged(one: str, other: str) -> None:
    assert relation(one, one, 1.0) is Relation.SAME
    judge(other, [EarlierStatement("one", one, NEAR)])


def test_a_document_is_read_by_its_beginning() -> None:
    assert (
        relation(
            "The API timeout is 30 seconds.", "so " * 5 * LONGEST_STATEMENT_CHARS + "The API timeout is 60 seconds now."
        )
        is None
    )


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The API uses JWT, not sessions.", "The API uses sessions, not JWT."),
        ("I prefer tabs over spaces in Go.", "I prefer spaces over tabs in Go."),
        ("Anna reports to Bea.", "Bea reports to Anna."),
        ("Run the migration before the deploy.", "Run the deploy before the migration."),
        ("Wir sagen, dass Tom Ana vertritt.", "Wir sagen, dass Ana Tom vertritt."),
    ],
)
def test_the_same_words_in_another_order_are_another_statement(earlier: str, later: str) -> None:
    assert relation(earlier, later, cosine=0.97) is not Relation.SAME


def test_a_long_note_is_the_same_only_where_every_word_is() -> None:
    note = " ".join(f"Part {number} of the kiln is checked every {number} days." for number in range(60))
    longer = note.replace("Part 3 ", "Part 300 ") + " The bisque program is number 3."
    assert relation(note, longer, 0.99) is None
    assert relation(note, note) is Relation.SAME
    assert relation(note, "Part 5 of the kiln is checked every 9 days now.", 0.9) is None
