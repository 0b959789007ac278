"""Settings: the file, the environment above it, and what is said of a mistake."""

from __future__ import annotations

from datetime import time
from pathlib import Path
from typing import get_args

import pytest
from dreamd.daemon.settings import Settings, SettingsError, default_config_path, known_keys, load, with_backend
from dreamd.store.search.rerankers import stages_of
from dreamd.store.settings import PRESETS, StageName


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("DREAMD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "dreamd.toml"
    file.write_text(text)
    return file


def test_no_file_is_all_defaults() -> None:
    settings = load()
    assert settings.store.embedding.model == "minilm"
    assert settings.vault == settings.data_dir / "vault"
    assert settings.data_dir.is_absolute()
    assert default_config_path().name == "dreamd.toml"


def test_the_file_is_read_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, '[pipelines.schedule]\ndaily_at = "04:30"\n[store.embedding]\nmodel = "a"\nthreads = 2\n')
    monkeypatch.setenv("DREAMD_STORE__EMBEDDING__MODEL", "stub")
    settings = load(file)
    assert settings.pipelines.schedule.daily_at == time(4, 30)
    assert settings.store.embedding.model == "stub"
    assert settings.store.embedding.threads == 2


def test_dreamd_config_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_CONFIG", str(write(tmp_path, 'vault_dir = "~/notes"\n')))
    assert load().vault == tmp_path / "notes"


def test_a_named_file_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="is not there"):
        load(tmp_path / "nowhere.toml")
    monkeypatch.setenv("DREAMD_CONFIG", str(tmp_path / "nowhere.toml"))
    with pytest.raises(SettingsError, match="is not there"):
        load()


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("[store.embeding]\n", "store.embeding", "store.embedding"),
        ("[store.embedding]\nmodle = 'x'\n", "store.embedding.modle", "store.embedding.model"),
        ("datadir = '/x'\n", "datadir", "data_dir"),
        ("[pipelines.idle]\nquiet = 3\n", "pipelines.idle.quiet", "pipelines.idle.quiet_s"),
    ],
)
def test_an_unknown_key_is_refused_with_its_file_and_the_nearest_name(
    tmp_path: Path, text: str, key: str, near: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(SettingsError) as raised:
        load(file)
    assert str(raised.value) == f"{file}: {key} is no setting."
    assert raised.value.hint == f"Did you mean {near}?"


def test_an_unknown_variable_is_refused_by_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_STORE__EMBEDDING__MODLE", "x")
    with pytest.raises(SettingsError, match=r"^DREAMD_STORE__EMBEDDING__MODLE is no setting") as raised:
        load()
    assert raised.value.hint == "Did you mean DREAMD_STORE__EMBEDDING__MODEL?"


def test_a_misspelt_first_name_in_the_environment_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_STOER__EMBEDDING__MODEL", "x")
    with pytest.raises(SettingsError, match="DREAMD_STOER__EMBEDDING__MODEL is no setting") as raised:
        load()
    assert raised.value.hint == "Did you mean DREAMD_STORE__EMBEDDING__MODEL?"


def test_an_unknown_name_in_the_middle_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_STORE__EMBEDING__MODEL", "x")
    with pytest.raises(SettingsError, match=r"^DREAMD_STORE__EMBEDING__MODEL is no setting") as raised:
        load()
    assert raised.value.hint == "Did you mean DREAMD_STORE__EMBEDDING?"


def test_variables_of_other_readers_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_SOCKET", "/tmp/x.sock")
    load()


def test_a_value_out_of_bounds_names_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, "[llm]\ndeadline_s = -1\n")
    with pytest.raises(SettingsError, match=r"dreamd.toml: llm.deadline_s: .*greater than 0"):
        load(file)
    file.write_text("")
    monkeypatch.setenv("DREAMD_LLM__DEADLINE_S", "soon")
    with pytest.raises(SettingsError, match=r"^DREAMD_LLM__DEADLINE_S: "):
        load(file)


def test_a_value_is_not_repeated_in_the_message(tmp_path: Path) -> None:
    file = write(tmp_path, "[llm]\nprovider = 'hunter2'\n")
    with pytest.raises(SettingsError) as raised:
        load(file)
    assert "hunter2" not in str(raised.value)


def test_the_home_folder_is_known_in_every_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "dreamd.toml"
    file.write_text('vault_dir = "~/notes"\n[log]\nfile = "~/dreamd.log"\n[llm]\napi_key_file = "~/key"\n')
    settings = load(file)
    assert settings.vault == tmp_path / "notes"
    assert (settings.log.file, settings.llm.api_key_file) == (tmp_path / "dreamd.log", tmp_path / "key")


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is not TOML: .*line 2"):
        load(write(tmp_path, "a = 1\nb = = 2\n"))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "dreamd.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(file)


def test_the_page_of_presets_names_every_one_and_its_example_is_followed(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "presets.md").read_text()
    stages = stages_of(load(write(tmp_path, page.partition("```toml")[2].partition("```")[0])).store.search)
    assert stages.names() == (
        *PRESETS["aleph"].without("time_decay", "near_duplicates").names(),
        "mmr",
        "near_duplicates",
    )
    assert all(f"| `{name}` |" in page for name in (*PRESETS, *get_args(StageName)))


def test_a_preset_of_the_environment_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_STORE__SEARCH__PRESET", "jcode")
    monkeypatch.setenv("DREAMD_STORE__SEARCH__WITHOUT", '["cascade"]')
    assert stages_of(load().store.search) == PRESETS["jcode"].without("cascade")
    monkeypatch.setenv("DREAMD_STORE__SEARCH__PRESET", "jcod")
    with pytest.raises(SettingsError, match="'jcode'"):
        load()


def test_every_key_is_known() -> None:
    keys = set(known_keys(Settings))
    assert {"data_dir", "store.embedding.model", "pipelines.schedule.daily_at", "llm.base_url"} <= keys


def test_the_model_s_daily_bounds_are_read_under_their_former_names_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DREAMD_LLM__TOKENS_A_NIGHT", "7")
    settings = load(write(tmp_path, "[llm]\ncalls_a_night = 5\n"))
    assert (settings.llm.calls_per_day, settings.llm.tokens_per_day) == (5, 7)
    with pytest.raises(SettingsError, match="calls_a_night: input should be"):
        load(write(tmp_path, "[llm]\ncalls_a_night = -1\n"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[store]\nbackend = "files"\n'),
        ("[log]\nlevel = 'INFO'\n", "[log]\nlevel = 'INFO'\n\n[store]\nbackend = \"files\"\n"),
        ('[store] # mine\nbackend="qdrant"  # x\n[log]\n', '[store] # mine\nbackend = "files"\n[log]\n'),
        ("[store.search]\nreach = 60\n", '[store.search]\nreach = 60\n\n[store]\nbackend = "files"\n'),
    ],
)
def test_another_engine_is_one_line_of_the_file(before: str, after: str) -> None:
    assert with_backend(before, "files") == after


@pytest.mark.parametrize("text", ['store = {backend = "files"}\n', 'store.backend = "files"\n'])
def test_a_file_that_no_line_can_change_is_left_alone(text: str) -> None:
    with pytest.raises(SettingsError, match="cannot be changed"):
        with_backend(text, "qdrant")
