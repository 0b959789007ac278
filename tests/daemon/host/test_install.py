"""Units and the launch agent as text; what they do for real is in tests/system."""

from __future__ import annotations

import configparser
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from dreamd.daemon.host import installed_service as install
from dreamd.daemon.host.installed_service import SERVICE, SOCKET, InstallError, launch_agent, units


def service(environ: dict[str, str], python: str = "/opt/venv/bin/python") -> str:
    return units(environ, python)[SERVICE]


def test_the_units_are_for_this_interpreter_and_this_users_folder() -> None:
    made = units({}, "/opt/venv/bin/python")
    assert 'ExecStart="/opt/venv/bin/python" -P -m dreamd.daemon' in made[SERVICE]
    assert "Type=notify" in made[SERVICE]
    assert "ListenStream=%t/dreamd/dreamd.sock" in made[SOCKET]
    assert "SocketMode=0600" in made[SOCKET]
    assert "DirectoryMode=0700" in made[SOCKET]
    assert not [line for text in made.values() for line in text.splitlines() if "@" in line]


def test_settings_of_the_shell_are_taken_along_and_nothing_else() -> None:
    environ = {"DREAMD_DATA_DIR": "/d", "PATH": "/bin", "HOME": "/h", "SECRET": "s"}
    assert [line for line in service(environ).splitlines() if line.startswith("Environment")] == [
        'Environment="DREAMD_DATA_DIR=/d"'
    ]
    assert "Environment" not in service({})


def test_a_socket_of_ones_own_is_systemds_to_make() -> None:
    made = units({"DREAMD_SOCKET": "/run/my 100%/s"}, "/p")
    assert "ListenStream=/run/my 100%%/s" in made[SOCKET]
    assert "DREAMD_SOCKET" not in made[SERVICE]


def test_whatever_is_in_a_path_is_quoted() -> None:
    text = service({"DREAMD_DATA_DIR": 'a "b" \\ 100% $HOME'}, '/odd $dir/py"thon%h')
    assert 'ExecStart="/odd $$dir/py\\"thon%%h" -P' in text
    assert 'Environment="DREAMD_DATA_DIR=a \\"b\\" \\\\ 100%% $HOME"' in text
    with pytest.raises(InstallError):
        service({"DREAMD_DATA_DIR": "a\nExecStartPre=/bin/evil"})


def test_the_units_are_well_formed() -> None:
    for text in units({"DREAMD_DATA_DIR": "/d"}, "/p").values():
        parser = configparser.RawConfigParser(strict=True)
        parser.read_string(text)
        assert "Unit" in parser.sections()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_itself_finds_no_fault(tmp_path: Path) -> None:
    for name, text in units({"DREAMD_DATA_DIR": "/d"}, "/bin/true").items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", *map(str, tmp_path.iterdir())],
        capture_output=True,
        text=True,
        timeout=60,
        env={"XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert str(tmp_path) not in done.stderr, done.stderr


def test_the_launch_agent_is_a_property_list_of_the_right_shape() -> None:
    agent = launch_agent({"DREAMD_DATA_DIR": "/d & <e>"}, "/opt/py", Path("/Users/a/Library/Logs/dreamd.log"))
    assert plistlib.loads(plistlib.dumps(agent)) == agent
    assert agent["ProgramArguments"] == ["/opt/py", "-P", "-m", "dreamd.daemon"]
    assert agent["EnvironmentVariables"] == {"DREAMD_DATA_DIR": "/d & <e>"}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["Umask"] == 0o077
    assert not [value for value in agent.values() if "@" in str(value)]


# launchd.plist(5), the keys that we use: their types, and the values or keys that are allowed within.
KEYS: dict[str, tuple[type, frozenset[str] | None]] = {
    "Label": (str, None),
    "ProgramArguments": (list, None),
    "EnvironmentVariables": (dict, None),
    "RunAtLoad": (bool, None),
    "KeepAlive": (dict, frozenset({"SuccessfulExit", "NetworkState", "PathState", "OtherJobEnabled", "Crashed"})),
    "ThrottleInterval": (int, None),
    "ProcessType": (str, frozenset({"Background", "Standard", "Adaptive", "Interactive"})),
    "Umask": (int, None),
    "StandardErrorPath": (str, None),
}


def test_the_launch_agent_has_the_keys_and_types_that_launchd_reads() -> None:
    log = Path("/Users/a/Library/Logs/dreamd.log")
    agent = plistlib.loads(plistlib.dumps(launch_agent({"DREAMD_DATA_DIR": "/d"}, "/opt/py", log)))
    assert set(agent) == set(KEYS)
    for key, (kind, allowed) in KEYS.items():
        assert type(agent[key]) is kind, key
        if allowed is not None:
            assert {agent[key]} <= allowed if kind is str else set(agent[key]) <= allowed, key
    assert all(type(word) is str for word in agent["ProgramArguments"])
    assert all(type(value) is str for value in agent["EnvironmentVariables"].values())
    # launchd knows an agent by its label; a file of another name would be a second one.
    assert install.agent_path({"HOME": "/Users/a"}).name == f"{agent['Label']}.plist"
    assert Path(agent["StandardErrorPath"]).is_absolute()


def test_without_systemd_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InstallError, match="no systemd") as raised:
        install.install()
    assert raised.value.hint


def test_uninstalling_what_is_not_there_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert install.uninstall({"HOME": str(tmp_path)}).notes == ["Nothing was installed."]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DREAMD_LLM__API_KEY", "sk-live-THEKEY123"),
        ("DREAMD_llm__api_key", "sk-live-THEKEY123"),
        ("DREAMD_LLM", '{"provider": "none", "api_key": "sk-live-THEKEY123"}'),
    ],
)
def test_a_secret_is_refused_and_never_printed(name: str, value: str) -> None:
    for make in (lambda: units({name: value}, "/p"), lambda: launch_agent({name: value}, "/p", Path("/l"))):
        with pytest.raises(InstallError, match="secret") as raised:
            make()
        said = f"{raised.value} {raised.value.hint}"
        assert "THEKEY" not in said
        assert "DREAMD_LLM__API_KEY_FILE" in said
        assert name in said


def test_settings_beside_a_secret_are_no_secrets() -> None:
    environ = {"DREAMD_LLM__API_KEY": "", "DREAMD_LLM__API_KEY_FILE": "/k", "DREAMD_LLM": '{"provider": "none"}'}
    assert "DREAMD_LLM__API_KEY_FILE=/k" in service(environ)


@pytest.fixture
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return an environment in which systemctl agrees to everything."""
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return {"HOME": str(tmp_path), "DREAMD_CONFIG": str(tmp_path / "dreamd.toml")}


def test_what_is_written_is_for_its_owner_alone(managed: dict[str, str]) -> None:
    first = install.install(managed, "/opt/py")
    assert len(first.files) == 2
    for path in map(Path, first.files):
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)  # as an older version wrote it
    assert install.install(managed, "/opt/py").files == first.files
    assert all(Path(path).stat().st_mode & 0o777 == 0o600 for path in first.files)
    assert install.install(managed, "/opt/py").files == []


def test_a_configuration_with_a_key_that_others_may_read_is_warned_of(managed: dict[str, str]) -> None:
    config = Path(managed["DREAMD_CONFIG"])
    config.write_text('[llm]\napi_key = "sk-live-THEKEY123"\n')
    config.chmod(0o644)
    (warning,) = [note for note in install.install(managed, "/opt/py").notes if "others may read" in note]
    assert "chmod 600" in warning
    assert "llm.api_key_file" in warning
    assert "THEKEY" not in warning
    config.chmod(0o600)
    assert not any("others may read" in note for note in install.install(managed, "/opt/py").notes)
