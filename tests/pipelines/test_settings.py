"""Settings of dreams: keys of earlier versions are still read."""

from __future__ import annotations

from typing import Any

import pytest
from dreamd.daemon.settings import Settings
from dreamd.llm.settings import LlmSettings
from dreamd.pipelines.settings import DecaySettings, LimitSettings, PipelineSettings, Stage
from pydantic import BaseModel, ValidationError

RENAMED: list[tuple[type[BaseModel], str, str, float]] = [
    (LimitSettings, "night_s", "per_day_s", 60.0),
    (DecaySettings, "share_a_night", "share_per_run", 0.5),
    (DecaySettings, "least_a_night", "least_per_run", 3),
    (LlmSettings, "calls_a_night", "calls_per_day", 7),
    (LlmSettings, "tokens_a_night", "tokens_per_day", 8),
]


@pytest.mark.parametrize(("model", "old", "new", "value"), RENAMED, ids=lambda value: str(value))
def test_the_old_name_of_a_setting_is_still_read(model: type[BaseModel], old: str, new: str, value: Any) -> None:
    assert getattr(model(**{old: value}), new) == value
    assert model(**{old: value}) == model(**{new: value})
    with pytest.raises(ValidationError):
        model(**{old: value, new: value})


def test_the_old_name_of_a_setting_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_PIPELINES__LIMITS__NIGHT_S", "60")
    monkeypatch.setenv("DREAMD_PIPELINES__DECAY__LEAST_PER_RUN", "3")
    pipelines = Settings().pipelines
    assert (pipelines.limits.per_day_s, pipelines.decay.least_per_run) == (60.0, 3)


def test_a_switch_of_an_earlier_version_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PipelineSettings.model_validate({"stages": {"ranking": True, "lint": False}}).stages == {Stage.LINT: False}
    monkeypatch.setenv("DREAMD_PIPELINES__STAGES__RANKING", "true")
    assert "ranking" not in Settings().pipelines.stages


def test_settings_reach_the_child_as_they_are() -> None:
    settings = PipelineSettings(limits=LimitSettings(per_day_s=60), decay=DecaySettings(share_per_run=0.5))
    assert PipelineSettings.model_validate_json(settings.model_dump_json()) == settings
