"""Titles of groups of texts."""

from __future__ import annotations

from dreamd.pipelines.pages.topics import Vocabulary, title_of


def test_titles_are_made_of_the_shared_name_and_salient_words() -> None:
    texts = ["Ann feeds the horses.", "Ann rides horses in the stable.", "A stable needs straw, Ann says."]
    vocabulary = Vocabulary([*texts, "Bob reads.", "Bob writes."])
    assert title_of(texts, vocabulary) == "Ann: horses, stable"
    assert title_of(["..."], vocabulary) == "Miscellany"
