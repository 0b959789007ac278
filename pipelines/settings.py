"""Settings of the dreams: their schedule, their limits, the stages and the dreams in which they run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time
from enum import StrEnum
from importlib import import_module
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

RETIRED_STAGE = "ranking"
"""A switch of earlier versions; a settings file that still has it is read without it."""


class ScheduleSettings(BaseModel):
    """When dreams become due, in local time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    daily_at: time = time(3, 0)
    weekly_on: int = Field(6, ge=0, le=6, description="0 is Monday")
    allowed_hours: tuple[int, int] = Field((0, 24), description="[first, last): may wrap, as (22, 6)")
    overdue_h: float = Field(36, gt=0, description="this late, idleness is relaxed")
    compaction_turns: int = Field(50, ge=0, description="so many waiting turns make a small dream due; 0: never")
    compaction_gap_h: float = Field(3, gt=0, description="at least so long after any other dream")
    session_quiet_min: float = Field(10, gt=0, description="a session without a turn for so long has ended")
    session_gap_min: float = Field(
        30, ge=0, description="one that no dream has read makes a small dream due, so long after any other; 0: never"
    )
    first_backoff_s: float = Field(900, gt=0)
    longest_backoff_s: float = Field(6 * 3600, gt=0)

    @field_validator("daily_at", mode="before")
    @classmethod
    def _is_a_time(cls, given: object) -> object:
        try:
            return given if isinstance(given, time) else time.fromisoformat(str(given))
        except ValueError:
            raise PydanticCustomError("time", 'it takes a local time of the day, such as "03:00"') from None

    @field_validator("allowed_hours", mode="before")
    @classmethod
    def _are_hours(cls, given: object) -> object:
        hours = list(given) if isinstance(given, list | tuple) else []
        if len(hours) != 2 or not all(type(hour) is int and 0 <= hour <= 24 for hour in hours):
            raise PydanticCustomError(
                "hours", "it takes two whole hours from 0 to 24, the first and that which ends it, such as [22, 8]"
            )
        return given


class IdleSettings(BaseModel):
    """Conditions under which the person counts as away."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    quiet_s: float = Field(600, ge=0)
    quiet_when_overdue_s: float = Field(60, ge=0)
    load_per_core: float = Field(0.5, gt=0)
    battery_percent: float = Field(50, ge=0, le=100)
    ask_desktop: bool = Field(True, description="where the desktop reports it, wait until the person has left")
    away_s: float = Field(300, ge=0, description="so long without a touch is away (macOS; elsewhere the desktop says)")
    resume_quiet_s: float = Field(120, ge=0, description="a dream that gave way goes on after so much quiet")
    resume_quiet_by_hand_s: float = Field(2, ge=0, description="the same for one that a person asked for")


class PreemptionSettings(BaseModel):
    """Bounds of a pause, when a request or the person comes back while a dream runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    stop_after_ms: float = Field(150, ge=0, le=10_000, description="for it to call off a model before it is stopped")
    give_up_after_s: float = Field(1800, gt=0, description="paused this long it is ended, and begun again another time")


class LimitSettings(BaseModel):
    """Limits of one dream, and of all dreams of 24 hours.

    Work is counted in seconds of a processor and of a language model, since the wall clock of a busy machine measures
    other programs too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    time_s: float = Field(1800, gt=0, description="of work, for one dream")
    per_day_s: float = Field(
        7200,
        gt=0,
        validation_alias=AliasChoices("per_day_s", "night_s"),
        description="of work, for all that begin by themselves within 24 hours",
    )
    memory_mib: int = Field(1536, ge=128, description="resident, of the child")
    changeset_mib: int = Field(256, ge=1)
    silence_s: float = Field(300, gt=0, description="a child that works this long and says nothing is ended")
    stall_s: float = Field(
        1800, gt=0, description="by the wall clock: one that neither works nor says anything is ended"
    )


class TauSettings(BaseModel):
    """Days after which the confidence of an untouched memory has fallen to 37 %."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    correction: float = Field(365, gt=0)
    preference: float = Field(90, gt=0, description="and decisions")
    procedure: float = Field(60, gt=0, description="and what does not work")
    fact: float = Field(30, gt=0, description="and whatever else is stated")
    inferred: float = Field(7, gt=0, description="whatever its kind")


class DecaySettings(BaseModel):
    """Conditions under which a memory is archived; its file stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tau_days: TauSettings = TauSettings()
    archive_below: float = Field(0.05, gt=0, lt=1)
    least_age_days: float = Field(30, ge=0)
    unused_days: float = Field(30, ge=0)
    session_days: float = Field(1, ge=0, description="after the last turn of its session, of a memory of that alone")
    share_per_run: float = Field(0.01, ge=0, le=1, validation_alias=AliasChoices("share_per_run", "share_a_night"))
    least_per_run: int = Field(10, ge=0, validation_alias=AliasChoices("least_per_run", "least_a_night"))


class PromotionSettings(BaseModel):
    """Conditions under which a rule of a project is proposed for all projects."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    review: bool = Field(True, description="it waits until its person accepts it")
    certainty: float = Field(0.85, ge=0, le=1)
    uses: int = Field(5, ge=0, description="of a rule of one project; one that was said in two needs none")
    conversations: int = Field(2, ge=2, description="in which a rule of one project was said")
    cosine: float = Field(0.85, ge=0.8, le=1, description="from which two may say the same, where their words do")
    corrections: int = Field(3, ge=2, description="the same one in so many conversations is offered for `always`")
    private: tuple[str, ...] = Field((), description="channels from which nothing is proposed")


class GateSettings(BaseModel):
    """The number of probes that test a dream before it is applied."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    probes: int = Field(200, ge=20, le=2000)
    time_s: float = Field(180, gt=0, description="for the probes of a run, about; the first twenty are always asked")


class PipelineSettings(BaseModel):
    """All settings of dreams."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stages: dict[Stage, bool] = Field(default_factory=lambda: dict.fromkeys(Stage, True))
    schedule: ScheduleSettings = ScheduleSettings()
    idle: IdleSettings = IdleSettings()
    preemption: PreemptionSettings = PreemptionSettings()
    limits: LimitSettings = LimitSettings()
    gate: GateSettings = GateSettings()
    decay: DecaySettings = DecaySettings()
    promotion: PromotionSettings = PromotionSettings()

    @field_validator("stages", mode="before")
    @classmethod
    def _without_retired(cls, given: object) -> object:
        return {name: on for name, on in given.items() if name != RETIRED_STAGE} if isinstance(given, dict) else given


# Cosine from which two facts may have the same subject; random facts of one conversation lie around .2 (LoCoMo).
#
# Drift supersedes no fact below it, and the gate refuses to.
SAME_SUBJECT = 0.3

# The share of the known facts that a run may supersede, and the number that it always may.
#
# A person changes their mind about a few things a day; an imported archive holds the changes of months at once.
SUPERSEDED_SHARE, SUPERSEDED_AT_LEAST = 0.1, 20

# The largest share of scenarios and profiles that a run may remove: they can be made again from their sources.
PAGES_SHARE, PAGES_AT_LEAST = 0.2, 10

# Pages that one step archives, below the number that the gate allows a run.
MOST_PAGES_ARCHIVED = PAGES_AT_LEAST - 2

# Smallest worth of a turn that only a language model may keep, and of a further passage of a kept reply: the judge
# alone keeps turns from .5 (`extract.facts`).
NEARLY_WORTH = 0.2


def most_superseded(known: int) -> int:
    """Return the number of facts that a run may supersede of those known before it."""
    return max(SUPERSEDED_AT_LEAST, int(SUPERSEDED_SHARE * known))


class Stage(StrEnum):
    """The switches in the settings; related steps share one."""

    CONSOLIDATE = "consolidate"
    DRIFT = "drift"
    SYNTHESIS = "synthesis"
    LINT = "lint"
    DECAY = "decay"


COMPACTION = frozenset({Stage.CONSOLIDATE, Stage.DRIFT})
"""The switches whose steps also run in a compaction: they read only new turns and facts."""

LEARNING = frozenset({"consolidate", "drift"})
"""The steps of a run over chosen sessions: facts and their effects on others. Their pages follow in the next dream."""


@dataclass(frozen=True, slots=True)
class DreamStep:
    """A function of a module of `stages`. Its actions, reports and cursors bear `name`."""

    switch: Stage
    module: str
    name: str
    weekly_only: bool = False
    function: str = "plan"
    words: str = ""

    def load(self) -> Any:
        """Import the module and return the function: `(view, now) -> workspace.proposals.Proposals`."""
        return getattr(import_module(f".stages.{self.module}", __package__), self.function)


# Facts come first, then what they change, then the pages made of them. Repairs and fading come last, because they
# concern whatever the steps before have left.
STEPS: tuple[DreamStep, ...] = (
    DreamStep(Stage.CONSOLIDATE, "consolidate", "consolidate", words="new facts"),
    DreamStep(Stage.DRIFT, "drift", "drift", words="what changed"),
    DreamStep(Stage.CONSOLIDATE, "scenarios", "scenarios"),
    DreamStep(Stage.CONSOLIDATE, "profiles", "profiles"),
    DreamStep(Stage.CONSOLIDATE, "know_how", "know_how", words="how things are done"),
    DreamStep(Stage.CONSOLIDATE, "entities", "entities", words="people and things"),
    DreamStep(Stage.DRIFT, "staleness", "staleness", words="what is out of date"),
    DreamStep(Stage.DRIFT, "profiles", "refresh", function="refresh", words="pages brought up to date"),
    DreamStep(Stage.DRIFT, "file_lines", "file_lines", words="files of your programs"),
    DreamStep(Stage.SYNTHESIS, "synthesis", "tag", function="tag", words="tags"),
    DreamStep(
        Stage.SYNTHESIS, "synthesis", "relate", function="relate", weekly_only=True, words="links between memories"
    ),
    DreamStep(Stage.SYNTHESIS, "synthesis", "synthesis", weekly_only=True, words="patterns"),
    DreamStep(Stage.SYNTHESIS, "promotion", "promotion", weekly_only=True, words="facts for every project"),
    DreamStep(
        Stage.SYNTHESIS,
        "know_how",
        "worked_with",
        weekly_only=True,
        function="worked_with",
        words="languages and tools of people",
    ),
    DreamStep(Stage.LINT, "lint", "lint", words="a look at every file"),
    DreamStep(Stage.DECAY, "decay", "decay", words="what fades"),
    DreamStep(Stage.DECAY, "profiles", "refresh after decay", function="refresh", words="pages after fading"),
)
