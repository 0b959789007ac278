"""Grounding: what may be said of what was said, and what may not."""

from __future__ import annotations

from datetime import date

import pytest
from dreamd.pipelines.grounding.verify import ClaimRefusal, ClaimSource, ground
from hypothesis import given
from hypothesis import strategies as st

MAY_8 = date(2023, 5, 8)


def said(text: str) -> ClaimSource:
    return ClaimSource(text, "Ann", "Bob", MAY_8)


def is_grounded(text: str, claim: str) -> bool:
    return ground(claim, [said(text)]).is_grounded


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("I love my dog.", "I love my dog."),
        ("I love my dog.", "Ann loves Ann's dog."),
        ("I've been painting for seven years now.", "Ann has been painting for 7 years now."),
        ("I'm so happy that you came!", "Ann is happy that Bob came."),
        ("I went to a support group yesterday.", "Ann went to a support group on 7 May 2023."),
        ("I went to a support group yesterday.", "Ann went to a support group on May 7, 2023."),
        ("I went to a support group yesterday.", "Ann went to a support group (7 May 2023)."),
        ("I went to a support group yesterday.", "Ann went to a support group in May 2023."),
        ("I went to a support group yesterday.", "Ann went to a support group on 2023-05-07."),
        ("Next month I'm moving to Rome.", "In June 2023 Ann is moving to Rome."),
        ("Hey Bob, I really just want a quiet life.", "Ann wants a quiet life."),
        ("I went home and I slept.", "Ann slept."),
        ("I went home, and it was cold.", "Ann went home."),
        ("I painted the fence because it was ugly.", "Ann painted the fence."),
        ("You told me about your job.", "Bob told Ann about Bob's job."),
        ("I love pizza.", "Ann said that she loves pizza."),
        ("I cook and paint daily.", "Ann cooks and paints daily."),
        ("Do you like my garden?", "Does Bob like Ann's garden?"),
    ],
)
def test_an_edit_of_what_was_said_is_grounded(text: str, claim: str) -> None:
    assert ground(claim, [said(text)]).refusal is None


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        # roles
        ("I gave you the book.", "Bob gave Ann the book."),
        ("Carl gave Dora the book.", "Dora gave Carl the book."),
        ("You told me about my job.", "Bob told Ann about his job."),
        ("I love my dog.", "Bob loves his dog."),
        ("We had a picnic.", "They had a picnic."),
        ("Here's a picture of us.", "Here is a picture of them."),
        ("My sister met your boss.", "Ann's boss met Bob's sister."),
        ("I moved from Rome to Oslo.", "Ann moved to Rome from Oslo."),
        # negation
        ("I don't eat meat.", "Ann eats meat."),
        ("I eat meat.", "Ann does not eat meat."),
        ("I never liked Rome.", "Ann liked Rome."),
        ("I haven't seen it.", "Ann has seen it."),
        ("Nobody came to my party.", "Ann's party came."),
        ("I can't swim.", "Ann can swim."),
        ("I hardly sleep.", "Ann sleeps."),
        ("I left without my keys.", "Ann left with Ann's keys."),
        ("I'm not really happy.", "Ann is not happy."),
        ("It's not just a hobby.", "It is not a hobby."),
        # modality, thought, condition
        ("I might go to Rome.", "Ann goes to Rome."),
        ("I might go to Rome.", "Ann will go to Rome."),
        ("I want to go to Rome.", "Ann goes to Rome."),
        ("I think Carl quit his job.", "Carl quit his job."),
        ("My mom said Carl quit his job.", "Carl quit his job."),
        ("I hope he wins and I get the job.", "Ann gets the job."),
        ("I'll come if it rains.", "Ann will come."),
        ("If it rains, I stay home.", "Ann stays home."),
        ("When it rains, I stay home.", "Ann stays home."),
        ("I'll come unless Carl comes.", "Ann will come."),
        ("I almost won the race.", "Ann won the race."),
        ("I stopped smoking.", "Ann smokes."),
        ("I used to smoke.", "Ann smokes."),
        ("I tried to fix the car.", "Ann fixed the car."),
        ("I would buy it, but I have no money.", "Ann would buy it."),
        ("I'm going to marry Carl.", "Ann is going."),
        ("He's coming, I think.", "He is coming."),
        ("I was joking about the baby.", "Ann was about the baby."),
        # what the rest hangs on
        ("I don't eat meat on Fridays.", "Ann does not eat meat."),
        ("I don't drink and drive.", "Ann does not drink."),
        ("I hate all people who lie.", "Ann hates all people."),
        ("I'd go to Paris or London.", "Ann would go to Paris."),
        ("It was the best day of my life.", "It was the best day."),
        ("Everyone in my family has a dog.", "Everyone has a dog."),
        ("I ran into Carl.", "Ann ran."),
        ("I fell in love.", "Ann fell."),
        ("I like tea more than coffee.", "Ann likes tea more."),
        ("I didn't leave because I was angry.", "Ann did not leave."),
        # numbers, dates, names
        ("I have three kids.", "Ann has four kids."),
        ("I have three kids.", "Ann has kids three."),
        ("I paid $1,200 for it.", "Ann paid $1,300 for it."),
        ("I went there yesterday.", "Ann went there on 8 May 2023."),
        ("I went there yesterday.", "Ann went there on 7 May 2022."),
        ("I went there yesterday.", "Ann went there in June 2023."),
        ("I went there last week.", "Ann went there on 1 May 2023."),
        ("I went there in May.", "Ann went there in May 2021."),
        ("I went there.", "Ann went there on 8 May 2023."),
        ("I met Carl in Rome.", "Ann met Carla in Rome."),
        ("I saw a cat.", "Ann saw cats."),
        # attributes
        ("I have a red car and a blue bike.", "Ann has a blue car and a red bike."),
        ("I have a red car and a blue bike.", "Ann has a red bike."),
        ("I have a car and a blue bike.", "Ann has a blue car and a bike."),
        ("I met a friend in Rome with a dog in Oslo.", "Ann met a friend in Oslo."),
        ("Ann likes tea, Carl likes coffee, and milk.", "Ann likes tea and milk."),
        ("I took a black and white photo.", "Ann took a black photo."),
        ("My old boss has a new wife.", "Ann's new boss has an old wife."),
        # invention
        ("I love my dog.", "Ann loves her dog Rex."),
        ("I love my dog.", "Ann loves her dog in Rome."),
        ("I love my dog.", "Ann adores her dog."),
        ("I love my dog.", "Carl."),
        ("I paint.", "Ann painted."),
        # questions are no statements
        ("You went to Rome?", "Bob went to Rome."),
        ("Do you like my garden?", "Bob likes Ann's garden."),
        ("I have a dog.", "Does Ann have a dog?"),
        ("What if I sold my car?", "Ann sold Ann's car."),
        # a piece is no statement
        ("I went to a support group.", "support group"),
        ("I love my dog.", "Ann loves"),
        ("I love my dog.", ""),
    ],
)
def test_what_says_anything_else_is_refused(text: str, claim: str) -> None:
    assert not is_grounded(text, claim)


def test_facts_are_told_of_third_persons() -> None:
    fact = "Ann went to a support group on 7 May 2023, and it was powerful."
    told = ClaimSource(fact, said_on=MAY_8)
    assert ground("Ann went to a support group on 7 May 2023.", [told]).is_grounded
    assert not ground("Ann went to a support group on 8 May 2023.", [told]).is_grounded
    assert not ground("Bob went to a support group on 7 May 2023.", [told]).is_grounded


def test_one_piece_alone_must_bear_a_claim() -> None:
    pieces = [said("I have a cat."), said("I have a dog.")]
    assert ground("Ann has a dog.", pieces).evidence == pieces[1]
    assert not ground("Ann has a cat and a dog.", pieces).is_grounded
    assert ground("Ann has a dog.", []).refusal is ClaimRefusal.NO_EVIDENCE


def test_other_languages_are_held_to_the_same() -> None:
    german = ClaimSource("Die Schnittstelle hört auf 8443, weil der Proxy davor steht.", "Jonas", "Ann", MAY_8)
    assert ground("Die Schnittstelle hört auf 8443.", [german]).is_grounded
    assert ground("Die Schnittstelle hört auf 443.", [german]).refusal is ClaimRefusal.NUMBER
    assert ground("Die Schnittstelle hört nicht auf 8443.", [german]).refusal is ClaimRefusal.NEGATION
    spanish = ClaimSource("La pasarela quiere kilos, porque así pesa el horno.", "Itziar", "Ann", MAY_8)
    assert ground("La pasarela quiere kilos.", [spanish]).is_grounded
    assert ground("La pasarela quiere gramos.", [spanish]).refusal is ClaimRefusal.INVENTED


@pytest.mark.parametrize(
    ("claim", "refusal"),
    [
        ("Ann met Carl in Oslo in 2019.", ClaimRefusal.DATE),
        ("Ann met 12 bakers in Rome.", ClaimRefusal.NUMBER),
        ("Ann did not meet a baker in Rome.", ClaimRefusal.NEGATION),
        ("Ann met Carl in Rome.", ClaimRefusal.NAME),
        ("Ann met a butcher in Rome.", ClaimRefusal.INVENTED),
        ("Rome met a baker in Ann.", ClaimRefusal.ORDER),
        ("Ann met a baker", ClaimRefusal.LEFT_OUT),
        ("Ann met a baker in Rome", None),
        ("…", ClaimRefusal.EMPTY),
        ("Ann met " + "a baker and " * 99, ClaimRefusal.TOO_LONG),
    ],
)
def test_a_refusal_says_why(claim: str, refusal: ClaimRefusal | None) -> None:
    assert ground(claim, [said("I met a baker in Rome.")]).refusal is refusal


# -- no lie, whatever it is made of

_WHO = st.sampled_from(["Carl", "Dora", "My sister", "My boss", "I", "You"])
_DID = st.sampled_from(["met", "helped", "painted", "called", "paid", "drove"])
_ATTRIBUTE = st.sampled_from(["red", "old", "tired", "famous", "Danish", "wooden"])
_WHAT = st.sampled_from(["baker", "boat", "garden", "teacher", "parrot", "house"])
_WHERE = st.sampled_from(["in Rome", "near Oslo", "at the lake", "yesterday", "last year", "for three days"])


@st.composite
def sentences(draw: st.DrawFn) -> list[str]:
    """The words of a plain sentence, no word twice."""
    who, did, where = draw(_WHO), draw(_DID), draw(_WHERE)
    first, second = draw(st.permutations(["red", "old", "tired", "famous", "Danish", "wooden"]))[:2]
    one, two = draw(st.permutations(["baker", "boat", "garden", "teacher", "parrot", "house"]))[:2]
    return f"{who} {did} a {first} {one} and the {second} {two} {where}".split()


@given(sentences())
def test_a_sentence_is_grounded_in_itself(words: list[str]) -> None:
    assert is_grounded(" ".join(words) + ".", " ".join(words))


@given(sentences(), st.data())
def test_no_two_words_change_places(words: list[str], data: st.DataObject) -> None:
    content = [at for at, word in enumerate(words) if word.lower() not in {"a", "the", "and", "my", "in", "near", "at"}]
    first, second = sorted(data.draw(st.permutations(content))[:2])
    swapped = list(words)
    swapped[first], swapped[second] = words[second], words[first]
    assert not is_grounded(" ".join(words) + ".", " ".join(swapped))


@given(sentences(), st.sampled_from(["not", "never", "hardly", "without", "no"]), st.data())
def test_no_negation_comes_or_goes(words: list[str], negation: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(words)))
    denied = [*words[:at], negation, *words[at:]]
    assert not is_grounded(" ".join(words) + ".", " ".join(denied))
    assert not is_grounded(" ".join(denied) + ".", " ".join(words))


@given(sentences(), st.integers(2, 20), st.integers(2, 20))
def test_no_number_changes(words: list[str], number: int, other: int) -> None:
    at = words.index("and")
    counted = " ".join([*words[:at], "with", str(number), "dogs", *words[at:]])
    claim = " ".join([*words[:at], "with", str(other), "dogs", *words[at:]])
    assert is_grounded(counted, claim) is (number == other)


@given(sentences(), st.data())
def test_no_attribute_moves(words: list[str], data: st.DataObject) -> None:
    first, second = words.index("and") - 2, words.index("and") + 2
    moved = list(words)
    attribute = moved.pop(first)
    moved.insert(second - 1, attribute)
    assert not is_grounded(" ".join(words), " ".join(moved))
    kept_one = [*words[: first + 1], *words[second + 1 :]]  # "a red boat" of "a red baker and the old boat"
    assert not is_grounded(" ".join(words), " ".join(kept_one))


@given(sentences(), st.sampled_from(["Berlin", "seven", "surgeon", "quickly", "sold", "ugly"]), st.data())
def test_nothing_is_invented(words: list[str], invented: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words)))
    assert not is_grounded(" ".join(words), " ".join([*words[:at], invented, *words[at:]]))


@given(sentences(), st.text(max_size=80))
def test_whatever_is_claimed_there_is_a_verdict(words: list[str], claim: str) -> None:
    ground(claim, [said(" ".join(words))])
    ground(" ".join(words), [said(claim)])
