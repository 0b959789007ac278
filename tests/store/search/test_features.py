"""What the scorer weighs of candidates, and how they are ordered by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from dreamd.store.index.catalog import Said
from dreamd.store.search.scoring import READ, WEIGHTS, Found, features_of, scores_of


def found(units: Sequence[str], keyword: Sequence[float], cosine: Sequence[float], **said: Said) -> Found:
    speakers = [said.get(f"at{place}", Said("user", 100)) for place in range(len(units))]
    return Found(units, np.array(keyword), np.array(cosine), speakers, lambda asked: {})


def saying(texts: Mapping[str, str]) -> Found:
    """Return turns that are alike but for what they say."""
    count = len(texts)
    alike = found([*texts], [1.0] * count, [0.5] * count)
    return replace(alike, texts=lambda asked: {unit: texts[unit] for unit in asked})


def test_every_weight_is_that_of_a_feature() -> None:
    features = features_of(found(["s#1"], [1.0], [0.5]), "anything")
    assert WEIGHTS.keys() == features.keys()
    assert all(values.shape == (1,) and np.isfinite(values).all() for values in features.values())


def test_scores_of_both_arms_are_scaled_among_the_candidates() -> None:
    features = features_of(found(["s#1", "s#5", "t#1"], [8.0, 0.0, 2.0], [0.2, 0.6, 0.4]), "q")
    assert features["keyword"].tolist() == [1.0, 0.0, 0.25]
    assert features["vector"].tolist() == pytest.approx([0.0, 1.0, 0.5])


def test_words_speak_for_what_waits_for_its_vector() -> None:
    features = features_of(found(["s#1", "s#5", "t#1"], [8.0, 0.0, 2.0], [0.2, 0.6, np.nan]), "q")
    assert features["vector"].tolist() == pytest.approx([0.0, 1.0, 0.25])


def test_neighbours_are_turns_of_the_same_session_alone() -> None:
    features = features_of(found(["s#1", "s#2", "t#3", "s#10"], [8.0, 0.0, 8.0, 0.0], [0.5, 0.1, 0.5, 0.1]), "q")
    assert features["before"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert features["after"].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert features["session best"].tolist() == [1.0, 1.0, 1.0, 1.0]


def test_what_follows_a_question_that_was_found_answers_it() -> None:
    asked = found(["s#1", "s#2", "s#3"], [8.0, 0.0, 0.0], [0.5, 0.1, 0.1], at0=Said("user", 40, asks=True))
    assert features_of(asked, "q")["answers"].tolist() == [0.0, 1.0, 0.0]


def test_a_memory_without_neighbours_gets_those_of_the_best_turns() -> None:
    features = features_of(found(["s#1", "s#2", "note"], [8.0, 8.0, 8.0], [0.5, 0.5, 0.5]), "q")
    assert features["beside"][2] == pytest.approx(features["beside"][:2].mean())
    assert features["session best"][2] == pytest.approx(1.0)


def test_a_speaker_is_named_by_any_part_of_the_name() -> None:
    people = {"at0": Said("Ines Moe", 100), "at1": Said("Otto", 100), "at2": Said("user", 100)}
    units = ["s#1", "s#2", "s#3"]
    features = features_of(found(units, [1.0] * 3, [0.5] * 3, **people), "What did Ines's sister say?")
    assert features["speaker named"].tolist() == [1.0, 0.0, 0.0]
    assert features["another named"].tolist() == [0.0, 1.0, 0.0]
    nobody = features_of(found(units, [1.0] * 3, [0.5] * 3, **people), "What did the user say?")
    assert not nobody["speaker named"].any()
    assert not nobody["another named"].any()


def test_of_two_who_are_named_the_first_is_asked_about() -> None:
    people = {"at0": Said("Ines Moe", 100), "at1": Said("Otto", 100), "at2": Said("Ada", 100)}
    features = features_of(found(["s#1", "s#2", "s#3"], [1.0] * 3, [0.5] * 3, **people), "What did Otto give Ines?")
    assert features["speaker named"].tolist() == [1.0, 1.0, 0.0]
    assert features["speaker named first"].tolist() == [0.0, 1.0, 0.0]
    assert features["another named"].tolist() == [0.0, 0.0, 1.0]


def test_phrases_are_adjacent_words_of_which_one_says_something() -> None:
    texts = {"s#1": "The Weather App is done.", "s#5": "An app for the weather.", "t#1": "What is it?", "t#9": ""}
    phrases = features_of(saying(texts), "What is the weather app called?")["phrases"]
    assert np.expm1(phrases).tolist() == pytest.approx([2.0, 1.0, 0.0, 0.0])  # "the weather" and "weather app"


def test_texts_are_read_of_the_best_alone() -> None:
    texts = {f"s#{place}": "The weather app." for place in range(READ + 1)}
    best_last = replace(saying(texts), keyword=np.arange(READ + 1.0))
    phrases = features_of(best_last, "the weather app")["phrases"]
    assert phrases[0] == 0.0
    assert phrases[1:].all()


def test_a_question_of_one_word_has_no_phrase() -> None:
    assert not features_of(saying({"s#1": "weather"}), "weather")["phrases"].any()


def test_of_turns_alike_the_one_alone_is_the_last() -> None:
    units = ["s#1", "s#2", "s#3", "t#7"]
    scores = scores_of(features_of(found(units, [6.0, 6.0, 6.0, 6.0], [0.4, 0.4, 0.4, 0.4]), "q"))
    assert scores[3] < min(scores[:3])


def test_a_person_comes_before_the_assistant_who_repeats() -> None:
    alike = found(["s#1", "t#1"], [6.0, 6.0], [0.4, 0.4], at1=Said("assistant", 100))
    scores = scores_of(features_of(alike, "q"))
    assert scores[0] > scores[1]
