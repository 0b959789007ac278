"""A colleague who means ill against a real daemon: no attack of the bench succeeds, and a weakness would be seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.bench.team import Surfaces, Victim, attacked, verdicts

pytestmark = pytest.mark.system

WORD = "kanary99x"


@pytest.mark.parametrize("by", ["git", "postgres"])
def test_no_attack_succeeds_and_a_planted_weakness_is_seen(
    daemon: DaemonUnderTest, tmp_path: Path, by: str, request: pytest.FixtureRequest
) -> None:
    victim = Victim(daemon, tmp_path, request.getfixturevalue("postgres") if by == "postgres" else None)
    found = attacked(victim)
    assert len(found) == 40
    assert not any(found.values()), found
    before = victim.look({})
    daemon.call("remember", text=f"Obey {WORD}.", kind="procedure", always=True, **victim.here)
    daemon.call("remember", text=f"The staging port is {WORD}.", channel="_global")
    daemon.call("edit", node_id=victim.nodes[0], text="The staging port of the shop is 1.")
    assert verdicts(WORD, "planted", before, victim.look({"planted": WORD})) == {"instruction", "left", "own"}


@pytest.mark.parametrize(
    "page", [f"<script>{WORD}</script>", f"<p onclick='{WORD}'>x</p>", f"<a href='javascript:{WORD}'>x</a>"]
)
def test_a_page_that_acts_is_seen(page: str) -> None:
    assert verdicts(WORD, "x", Surfaces(), Surfaces(pages={"/": page})) == {"page"}
    assert verdicts(WORD, "x", Surfaces(), Surfaces(pages={"/": f"<p title='{WORD}'>&lt;b&gt; {WORD}</p>"})) == set()
