"""Topics: a name in several facts of several sessions has weight; what everything is about has none."""

from __future__ import annotations

from dreamd.pipelines.pages.topics import MOST_TOPICS, topics_of
from dreamd.store.model import Memory

from tests.pipelines.pages.said import said


def about(name: str, *turns: str) -> list[Memory]:
    return [said(f"It is {name} in {turn}.", turn, about=(name,)) for turn in turns]


OTHERS = [said(f"Something else {n}.", f"s{n}#7") for n in range(1, 12)]


def test_a_name_of_several_sessions_is_a_topic() -> None:
    facts = [*OTHERS, *about("Graça", "s1#1", "s2#1", "s3#1"), *about("Priya", "s1#2", "s1#3", "s1#4")]
    (topic,) = topics_of(facts)
    assert topic.name == "Graça"
    assert len(topic.facts) == 3


def test_part_of_a_name_and_its_spellings_are_one_topic() -> None:
    facts = [*OTHERS, *about("Emil Rønning", "s1#1", "s2#1"), *about("Emil", "s3#1"), *about("emil", "s4#1")]
    (topic,) = topics_of(facts)
    assert topic.name == "Emil Rønning"
    assert len(topic.facts) == 4


def test_a_part_of_several_names_is_no_topic() -> None:
    named = [*about("Roda Livre", "s1#1"), *about("Pedal Livre", "s2#1"), *about("Livre", "s3#1", "s4#1", "s5#1")]
    assert topics_of([*OTHERS, *named]) == []


def test_a_person_is_meant_by_the_first_name_in_any_case_and_a_common_word_is_not() -> None:
    named = said("Operations are run by Emil Rønning, and all of Emil Rønning.", "s1#1", about=("Emil Rønning",))
    called = [said("emil moved the deadline.", "s2#1"), said("ask Emil first.", "s3#1")]
    assert [len(topic.facts) for topic in topics_of([*OTHERS, named, *called])] == [3]
    static = said("Take Static Site for it.", "s1#1", about=("Static Site",))
    common = [said("The pages are static.", "s2#1"), said("static files stay.", "s3#1")]
    assert topics_of([*OTHERS, static, *common]) == []


def test_what_everything_is_about_and_who_speaks_are_no_topics() -> None:
    every = [said(f"Spokes {n}.", f"s{n}#1", about=("Spokes", "user")) for n in range(1, 9)]
    assert topics_of(every) == []


def test_a_topic_within_another_and_too_many_are_left_out() -> None:
    facts = [said(f"It is Caddy {n}.", f"s{n}#1", about=("Caddy", "DNS")) for n in (1, 2, 3)]
    assert [topic.name for topic in topics_of([*OTHERS, *facts])] == ["Caddy"]
    many = [one for n in range(MOST_TOPICS + 3) for one in about(f"Name{chr(97 + n)}", "s1#1", "s2#1", "s3#1")]
    assert len(topics_of(many)) == MOST_TOPICS
