"""Installed for real: a user's own systemd manager starts the daemon, watches it, restarts it, forgets it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.user_manager import command, why_not

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]


@pytest.fixture
def home() -> Iterator[Path]:
    """Make a home that is short enough for a socket, and stays while the manager comes and goes."""
    with tempfile.TemporaryDirectory(prefix="home-") as folder:
        yield Path(folder)


def under_a_manager(home: Path, script: str) -> str:
    """Run a shell script under a user manager of its own; its output, or a failure with it."""
    environ = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | {
        "HOME": str(home),
        "DREAMD_DATA_DIR": str(home / "data"),
        "DREAMD_STORE__EMBEDDING__MODEL": "stub",
        "PYTHON": sys.executable,
        "DREAMCTL": str(Path(sys.executable).with_name("dreamctl")),
    }
    done = subprocess.run(
        command(["bash", "-eu", "-c", HELPERS + script]),
        env=environ,
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


HELPERS = """
pid() { systemctl --user show -P MainPID dreamd.service; }
state() { systemctl --user is-active "$1" || true; }
until_() { for _ in $(seq 300); do if "$@"; then return 0; fi; sleep 0.1; done; echo "never: $*" >&2; return 1; }
fail() { echo "$*" >&2; systemctl --user status dreamd.service >&2 || true; exit 1; }
"""


def test_install_first_question_kill_9_uninstall(home: Path) -> None:
    said = under_a_manager(
        home,
        """
        "$DREAMCTL" install
        [ "$(state dreamd.socket)" = active ] || fail "the socket is not listening"
        [ "$(state dreamd.service)" = inactive ] || fail "the daemon runs before the first question"
        [ "$(stat -c %a "$XDG_RUNTIME_DIR/dreamd/dreamd.sock")" = 600 ] || fail "socket mode"
        [ "$(stat -c %a "$XDG_RUNTIME_DIR/dreamd")" = 700 ] || fail "folder mode"

        "$DREAMCTL" remember "The spare key hangs behind the clock."
        [ "$(state dreamd.service)" = active ] || fail "the first question did not start it"
        first=$(pid)

        "$DREAMCTL" install | grep -q "Nothing" || fail "installing again did something"
        [ "$(pid)" = "$first" ] || fail "installing again restarted it"

        kill -9 "$first"
        restarted() { [ "$(state dreamd.service)" = active ] && [ "$(pid)" != "$first" ] && [ "$(pid)" != 0 ]; }
        until_ restarted
        "$DREAMCTL" recall "where is the spare key?" | grep "behind the clock"

        systemctl --user stop dreamd.service
        [ "$(systemctl --user show -P Result dreamd.service)" = success ] || fail "it did not stop well"
        "$DREAMCTL" recall "where is the spare key?" | grep "behind the clock"

        "$DREAMCTL" uninstall
        [ "$(state dreamd.service)" = inactive ] && [ "$(state dreamd.socket)" = inactive ] || fail "still there"
        [ ! -e "$HOME/.config/systemd/user/dreamd.service" ] && [ ! -e "$HOME/.config/systemd/user/dreamd.socket" ]
        [ -z "$(find "$HOME/.config/systemd" -name 'dreamd*')" ] || fail "links are left"
        "$DREAMCTL" uninstall | grep -q "Nothing"
        """,
    )
    assert said.count("behind the clock") >= 2
    vault = home / "data" / "vault"
    assert any("behind the clock" in path.read_text() for path in vault.rglob("*.md"))


def test_the_watchdog_is_fed_and_bites_when_it_is_not(home: Path) -> None:
    under_a_manager(
        home,
        """
        "$DREAMCTL" install
        mkdir -p "$HOME/.config/systemd/user/dreamd.service.d"
        printf '[Service]\\nWatchdogSec=2\\n' >"$HOME/.config/systemd/user/dreamd.service.d/short.conf"
        systemctl --user daemon-reload
        "$DREAMCTL" status >/dev/null
        first=$(pid)

        stamp() { systemctl --user show -P WatchdogTimestampMonotonic dreamd.service; }
        begun=$(stamp)
        fed_twice() { [ "$(stamp)" -gt "$((begun + 2500000))" ]; }
        until_ fed_twice
        [ "$(pid)" = "$first" ] || fail "it was fed and bit all the same"

        kill -STOP "$first"
        bitten() { [ "$(state dreamd.service)" = active ] && [ "$(pid)" != "$first" ] && [ "$(pid)" != 0 ]; }
        until_ bitten
        "$DREAMCTL" status >/dev/null
        """,
    )


def test_a_daemon_started_by_hand_is_not_robbed_of_its_socket(home: Path) -> None:
    said = under_a_manager(
        home,
        """
        "$PYTHON" -P -m dreamd.daemon & byhand=$!
        answers() { "$DREAMCTL" status >/dev/null 2>&1; }
        until_ answers
        if "$DREAMCTL" install; then fail "it was installed over a living daemon"; fi
        [ ! -e "$HOME/.config/systemd/user/dreamd.service" ] || fail "a unit was written"
        "$DREAMCTL" stop
        wait $byhand
        "$DREAMCTL" install
        "$DREAMCTL" status >/dev/null
        [ "$(state dreamd.service)" = active ] || fail "not active"
        """,
    )
    assert "login" in said


def test_settings_that_are_wrong_are_not_tried_again_and_again(home: Path) -> None:
    (home / ".config" / "dreamd").mkdir(parents=True)
    (home / ".config" / "dreamd" / "dreamd.toml").write_text("nonsense = 1\n")
    under_a_manager(
        home,
        """
        "$DREAMCTL" install
        systemctl --user start dreamd.service && fail "it started"
        [ "$(systemctl --user show -P NRestarts dreamd.service)" = 0 ] || fail "it was restarted"
        [ "$(systemctl --user show -P ExecMainStatus dreamd.service)" = 78 ] || fail "another exit code"
        """,
    )


def test_clients_get_the_error_of_bad_settings_until_they_are_repaired(home: Path) -> None:
    config = home / ".config" / "dreamd" / "dreamd.toml"
    config.parent.mkdir(parents=True)
    config.write_text("nonsense = 1\n")
    under_a_manager(
        home,
        """
        "$DREAMCTL" install
        said() { "$DREAMCTL" status 2>&1 || true; }
        for _ in $(seq 8); do
            said | grep -q "dreamd could not start: .*nonsense is no setting" || fail "not told: $(said)"
            systemctl --user stop dreamd.service  # so that the next question starts it again
        done
        [ "$(state dreamd.socket)" = active ] || fail "the socket gave up"

        systemctl --user stop dreamd.socket
        said | grep -q "Its settings cannot be followed: .*nonsense is no setting" || fail "not told: $(said)"
        systemctl --user start dreamd.service && fail "it started"
        systemctl --user stop dreamd.socket
        mv "$HOME/.config/dreamd/dreamd.toml" "$HOME/aside"
        said | grep -q "systemd could not start it: .*nonsense is no setting" || fail "not told: $(said)"
        said | grep -q "systemctl --user restart dreamd.socket" || fail "no remedy: $(said)"

        mv "$HOME/aside" "$HOME/.config/dreamd/dreamd.toml"
        systemctl --user start dreamd.socket
        said | grep -q "nonsense is no setting" || fail "not told: $(said)"
        rm "$HOME/.config/dreamd/dreamd.toml"
        "$DREAMCTL" status >/dev/null || fail "mended, and it does not start"
        [ "$(state dreamd.service)" = active ] || fail "not active"
        """,
    )


def test_the_doctor_repairs_a_service_of_another_installation(home: Path) -> None:
    under_a_manager(
        home,
        """
        "$DREAMCTL" install
        unit="$HOME/.config/systemd/user/dreamd.service"
        sed -i 's#^ExecStart=.*#ExecStart=/gone/python -m dreamd.daemon#' "$unit"
        systemctl --user daemon-reload
        "$DREAMCTL" doctor --json > "$HOME/first" && fail "a dead unit is well"
        grep -q '"check": "service", "severity": "warning"' "$HOME/first" || fail "$(cat "$HOME/first")"
        "$DREAMCTL" doctor --fix > "$HOME/second" || fail "$(cat "$HOME/second")"
        grep -q "^ExecStart=\\"$PYTHON\\"" "$unit" || fail "the unit is as it was"
        "$DREAMCTL" remember "The spare key hangs behind the clock."
        [ "$(state dreamd.service)" = active ] || fail "it is not the service that runs"
        "$DREAMCTL" doctor || fail "something is wrong still"
        """,
    )
