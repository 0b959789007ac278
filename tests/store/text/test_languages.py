from __future__ import annotations

import pytest
from dreamd.store.text.languages import entries, languages, name_of, phrases, words_in
from dreamd.store.text.words import is_english, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("We moved the billing to the new host", "en"),
        ("Wir ziehen die Abrechnung auf den neuen Rechner um", "de"),
        ("La facturación ya no está en el servidor de la oficina", "es"),
        ("De heter noe annet nå, det gamle navnet er borte", "no"),
        ("kubectl apply", "en"),
    ],
)
def test_a_text_s_language_is_told_by_its_function_words(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "is_it"),
    [
        ("the nightly export failed again, can you look at the log of the last run", True),
        ("Der nächtliche Export ist wieder fehlgeschlagen, schau bitte ins Log", False),
        ("l'export de la nuit a encore échoué, regarde le journal du dernier passage", False),
        ("夜間エクスポートがまた失敗しました。ログを見てください。", False),
        ("야간 내보내기가 또 실패했어요. 로그를 확인해 주세요.", False),
        ("", True),
    ],
)
def test_a_text_is_english_by_its_function_words(text: str, is_it: bool) -> None:
    assert is_english(text) == is_it


def test_every_language_has_a_name_twelve_months_and_seven_days() -> None:
    assert {"de", "en", "es", "no"} <= set(languages())
    for language in languages():
        assert len(entries(language, "months")) == 12
        assert len(entries(language, "weekdays")) == 7
        assert name_of(language)[:1].isupper()


def test_phrases_are_found_as_whole_words_in_any_language() -> None:
    assert phrases("months").search("am 3. März kommt sie")
    assert not phrases("months").search("die Märzen")
    assert not phrases("no.such.section").search("anything at all")
    assert {"march", "märz", "marzo"} <= words_in("months")
