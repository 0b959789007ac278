"""A real `systemd --user` for one command, on a machine that was not booted with systemd: `user_manager.py COMMAND…`.

The command runs as the first process but one of a namespace of its own, with an own /run, an own control group and a
manager that is ready; its exit code is ours. Nothing that it starts outlives it. Needs root, util-linux and systemd.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

MANAGER = next(
    (path for path in (Path("/lib/systemd/systemd"), Path("/usr/lib/systemd/systemd")) if path.exists()), None
)
READY_WITHIN_S = 60.0
RUNTIME = Path("/run/user/0")
GROUPS = Path("/run/groups")
HOUSE = ("--mount", "--propagation", "private")
ROOM = ("--mount", "--propagation", "private", "--cgroup", "--pid", "--fork", "--kill-child", "--mount-proc")


def why_not() -> str:
    """Say what is missing for it, or nothing."""
    if MANAGER is None or shutil.which("systemctl") is None:
        return "no systemd here (Debian: apt-get install systemd)"
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "a namespace of one's own needs root and unshare"
    tried = subprocess.run(["unshare", *ROOM, "mount", "-t", "cgroup2", "none", "/sys/fs/cgroup"], capture_output=True)
    return "" if tried.returncode == 0 else f"no namespace may be made here: {tried.stderr.decode().strip()}"


def command(script: Sequence[str]) -> list[str]:
    """Make the command line that runs another under a manager."""
    return ["unshare", *HOUSE, sys.executable, "-P", __file__, "house", *script]


def house(script: Sequence[str]) -> int:
    """Give the manager a control group that nobody else is in, and take it away afterwards."""
    _mount("tmpfs", "/run")
    GROUPS.mkdir()
    _mount("cgroup2", str(GROUPS))
    ours = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    group = GROUPS / ours.lstrip("/") / f"dreamd-tests-{os.getpid()}"
    group.mkdir()
    try:
        inside = ["unshare", *ROOM, sys.executable, "-P", __file__, "room", *script]
        (group / "cgroup.procs").write_text("0")
        try:
            return subprocess.run(inside).returncode
        finally:
            (group.parent / "cgroup.procs").write_text("0")
    finally:
        _remove(group)


def room(script: Sequence[str]) -> int:
    """Be the first process: start the manager, run the command when it is ready."""
    _mount("cgroup2", "/sys/fs/cgroup")
    Path("/run/systemd/system").mkdir(parents=True)  # what tells systemd's programs that it is the one who booted
    RUNTIME.mkdir(parents=True, mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(RUNTIME)
    with _manager():
        return subprocess.run(list(script)).returncode


@contextlib.contextmanager
def _manager() -> Iterator[None]:
    log = RUNTIME / "manager.log"
    with log.open("wb") as out, subprocess.Popen([str(MANAGER), "--user"], stdout=out, stderr=out) as manager:
        try:
            deadline = time.monotonic() + READY_WITHIN_S
            while not _is_ready():
                if manager.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"the user manager did not get ready:\n{log.read_text(errors='replace')}")
                time.sleep(0.05)
            yield
        finally:
            manager.kill()


def _is_ready() -> bool:
    asked = subprocess.run(["systemctl", "--user", "is-system-running"], capture_output=True, text=True)
    return asked.stdout.strip() in {"running", "degraded"}


def _mount(kind: str, where: str) -> None:
    subprocess.run(["mount", "-t", kind, "none", where], check=True)


def _remove(group: Path) -> None:
    """Remove a control group with those in it, as soon as the kernel has reaped who was there."""
    deadline = time.monotonic() + 10
    inner = sorted((path for path in group.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    for folder in [*inner, group]:
        while folder.exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)


if __name__ == "__main__":
    if sys.argv[1:2] not in (["house"], ["room"]):
        os.execvp("unshare", command(sys.argv[1:]))
    sys.exit({"house": house, "room": room}[sys.argv[1]](sys.argv[2:]))
