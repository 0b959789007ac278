"""Build the sdist and the wheel, install the wheel where its namesakes live, and run it as a person would.

Run by `make wheel-check` with the development environment's Python. Everything happens in a temporary folder; the
working tree is copied, so that a stale `build/` or egg-info can neither hide nor cause a mistake.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST_MIB = 340
"""Installed, bytecode included, in units of 2^20 bytes as of `du -m`: onnxruntime 67, numpy 71, ours 33, the model 22.
Never imported here are cryptography (15), which the MCP SDK requires, and Pillow (21), hf_xet (11) and huggingface_hub
(8), which fastembed does; without them it would be below the 300 of the design."""
SDIST_FILES = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs/architecture.md",
    "docs/importing.md",
    "docs/protocol.md",
    "pyproject.toml",
    "requirements.lock",
    "store/model.py",
}
PACKAGE_DATA = (
    r"dreamd/py\.typed",
    r"dreamd/ipc/mcp/opening\.json",
    r"dreamd/store/text/data/minilm/tokenizer\.json",
    r"dreamd/store/text/data/minilm/config\.json",
    r"dreamd/store/text/data/languages/.+\.toml",
    r"dreamd/pipelines/grounding/templates/.+\.md",
    r"dreamd/pipelines/report/page\.css",
    r"dreamd-[^/]+\.dist-info/licenses/LICENSE",
    r"dreamd/systemd/.+",
    r"dreamd/launchd/.+",
)
NAMESAKES = """
import daemon, llm, dreamd.daemon, dreamd.llm, pathlib, sys
for module in (daemon, llm, dreamd):
    assert pathlib.Path(module.__file__).is_relative_to(sys.prefix), module.__file__
assert hasattr(daemon, "DaemonContext"), "python-daemon was overwritten"
assert hasattr(llm, "get_model"), "llm was overwritten"
"""


def main() -> None:
    """Run each step and stop at the first that fails."""
    with tempfile.TemporaryDirectory(prefix="dreamd-wheel-") as folder:
        work = Path(folder)
        sdist, wheel = build(copy_of_the_tree(work / "tree"), work / "dist")
        check_sdist(sdist)
        check_wheel(wheel)
        environment = install(wheel, work / "venv")
        say("the namesakes are still themselves")
        run(environment / "python", "-c", NAMESAKES, cwd=work)
        run(environment / "python", "-m", "pip", "--disable-pip-version-check", "check", cwd=work)
        use(environment, work)
    say("the wheel is sound")


def copy_of_the_tree(target: Path) -> Path:
    """Copy what git knows or would add; the links stay links."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, copy = ROOT / name, target / name
        if source.exists() or source.is_symlink():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)
    return target


def build(tree: Path, dist: Path) -> tuple[Path, Path]:
    """Build the sdist from the tree, and the wheel from the unpacked sdist."""
    say("building the sdist, and the wheel from it")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, tree, cwd=tree)
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    """Check that the sdist holds what is needed to build, and neither tests nor an environment."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    fail_if(SDIST_FILES - names, "the sdist lacks")
    fail_if({name for name in names if name.startswith(("tests/", ".venv/", "build/"))}, "the sdist should not hold")


def check_wheel(wheel: Path) -> None:
    """Check that the wheel has every module, under `dreamd/` alone, and the data of each package."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    fail_if({name for name in names if not re.match(r"dreamd(-[^/]+\.dist-info)?/", name)}, "outside of dreamd/")
    fail_if({name for name in names if re.match(r"dreamd/(tests|examples|docs)/", name)}, "no part of the package")
    fail_if({data for data in PACKAGE_DATA if not any(re.fullmatch(data, name) for name in names)}, "the wheel lacks")
    tracked = {path.relative_to(ROOT).as_posix() for room in rooms() for path in (ROOT / room).rglob("*.py")}
    fail_if({f"dreamd/{name}" for name in tracked} - names, "modules that the wheel lacks")


def rooms() -> tuple[str, ...]:
    """Name the five folders of modules."""
    return ("daemon", "ipc", "llm", "pipelines", "store")


def install(wheel: Path, venv: Path) -> Path:
    """Make a fresh environment of the locked dependencies, the wheel and its namesakes; return its bin folder."""
    say("installing the wheel")
    run(sys.executable, "-m", "venv", venv, cwd=ROOT)
    pip = (venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements.lock", cwd=ROOT)
    run(*pip, "--no-deps", wheel, cwd=ROOT)
    check_size(venv)
    say("installing llm and python-daemon beside it")
    run(*pip, "--require-hashes", "-r", ROOT / "tests" / "wheel" / "neighbours.lock", cwd=ROOT)
    return venv / "bin"


def check_size(venv: Path) -> None:
    """Check that a fresh installation is small; pip, which comes with the environment, does not count."""
    size_bytes = sum(disk_usage(path) for path in venv.rglob("*") if not is_of_pip(path))
    size_mib = round(size_bytes / 2**20)
    say(f"installed, it takes {round(size_bytes / 1e6)} MB ({size_mib} MiB)")
    fail_if({size_mib} if size_mib > LARGEST_MIB else set(), f"more than {LARGEST_MIB} MiB")


def disk_usage(path: Path) -> int:
    """Return the bytes that a file takes on the disk, as `du` counts; 0 for a link or a folder."""
    return path.stat().st_blocks * 512 if path.is_file() and not path.is_symlink() else 0


def is_of_pip(path: Path) -> bool:
    """Return whether a path belongs to pip or setuptools."""
    return any(re.match(r"(pip|setuptools|pkg_resources)(-|$)", part) for part in path.parts)


def use(environment: Path, work: Path) -> None:
    """Start the daemon, remember, recall, stop: with the embedded model, for it is package data that is on trial."""
    home = work / "home"
    home.mkdir()
    environ = clean_environment(home)
    say("dreamd --version, dreamctl --help")
    run(environment / "dreamd", "--version", cwd=work, environ=environ)
    run(environment / "dreamctl", "--help", cwd=work, environ=environ)
    with daemon(environment, work, environ):
        say("remember and recall")
        text = "Deployments of the billing service happen on Thursdays."
        run(environment / "dreamctl", "remember", text, cwd=work, environ=environ)
        found = run(environment / "dreamctl", "recall", "When is billing deployed?", cwd=work, environ=environ)
        fail_if(set() if "Thursdays" in found else {found}, "recall did not find what was remembered, but")


def clean_environment(home: Path) -> dict[str, str]:
    """Leave only what a login shell of a person without our settings has."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | {
        "HOME": str(home),
        "DREAMD_DATA_DIR": str(home / "data"),
        "DREAMD_SOCKET": str(home / "dreamd.sock"),
        "XDG_CONFIG_HOME": str(home / "config"),
    }


@contextmanager
def daemon(environment: Path, work: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Run the installed daemon for a while; it must end by itself and without complaint on SIGTERM."""
    say("starting the daemon")
    log = work / "daemon.log"
    with log.open("wb") as output:
        process = subprocess.Popen([environment / "dreamd"], cwd=work, env=environ, stdout=output, stderr=output)
    try:
        wait_until_it_answers(environment, work, environ, process)
        yield
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=30)
        fail_if({code} - {0}, f"the daemon ended badly:\n{log.read_text()}\nexit code")
    except BaseException:
        sys.stderr.write(log.read_text())
        raise
    finally:
        process.kill()
        process.wait()


def wait_until_it_answers(
    environment: Path, work: Path, environ: Mapping[str, str], process: subprocess.Popen[bytes], timeout_s: float = 30
) -> None:
    """Ask for the status until there is one."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        asked = subprocess.run([environment / "dreamctl", "status"], cwd=work, env=environ, capture_output=True)
        if asked.returncode == 0:
            return
        time.sleep(0.1)
    raise SystemExit("the installed daemon never answered `dreamctl status`")


def run(*command: str | Path, cwd: Path, environ: Mapping[str, str] | None = None) -> str:
    """Run a command to its end; its output is shown if it fails."""
    done = subprocess.run(command, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def fail_if(found: set[str] | set[int], complaint: str) -> None:
    """End with the complaint if anything was found."""
    if found:
        raise SystemExit(f"{complaint}: {', '.join(map(str, sorted(found)))}")


def say(step: str) -> None:
    """Show where we are."""
    sys.stdout.write(f"wheel check: {step}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
