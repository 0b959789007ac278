"""Progress within a step is reported at intervals; steps themselves always."""

from __future__ import annotations

from dreamd.pipelines.messages import Progress
from dreamd.pipelines.pipe import DETAIL_EVERY_S, StepProgress


def test_details_are_reported_at_intervals_and_name_their_step() -> None:
    reported: list[Progress] = []
    clock = [100.0]
    steps = StepProgress(reported.append, lambda: clock[0])
    steps.at("drift", 1, 9)
    for item in steps.counted(range(4), "facts"):
        clock[0] += DETAIL_EVERY_S / 2 if item else 0
    assert [(each.stage, each.done, each.total, each.note) for each in reported] == [
        ("drift", 1, 9, ""),
        ("drift", 1, 9, "facts 3 of 4"),
    ]
    steps.at("drift", 2, 9, "5 facts")
    assert reported[-1].note == "5 facts"
