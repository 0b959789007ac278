"""The environments of the peers: where they lie, which version is there, and how large it is."""

from __future__ import annotations

import os
import re
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from ..daemon_under_test import MIB
from ..options import ROOT
from .roster import Peer

INSTALLED = Path(os.environ.get("PEERS_INSTALLED", ROOT / ".peers"))


def python_of(peer: Peer) -> Path:
    """Return the peer's interpreter, installed or not."""
    return INSTALLED / peer.package / "bin" / "python"


def version_of(peer: Peer) -> str:
    """Return the installed version; empty where it is not installed."""
    found = (one.version for one in _distributions(peer) if _name(one) == peer.package)
    return next(found, "")


def installed_mib(peer: Peer) -> float:
    """Return the size of what is installed with it, compiled files left out, in MiB."""
    return sum(_bytes(one) for one in _distributions(peer)) / MIB


def our_installed_mib() -> float:
    """Return the same of the packages of requirements.lock and of our own rooms."""
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    there = {_name(one) for one in distributions()}
    size = sum(_bytes(distribution(name)) for name in locked if name in there)
    rooms = ("daemon", "ipc", "llm", "pipelines", "store")
    files = (file for room in rooms for file in (ROOT / room).rglob("*") if file.is_file())
    return (size + sum(file.stat().st_size for file in files if "__pycache__" not in file.parts)) / MIB


def _distributions(peer: Peer) -> list[Distribution]:
    (*packages,) = (INSTALLED / peer.package / "lib").glob("python*/site-packages")
    return list(distributions(path=[str(path) for path in packages]))


def _name(one: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()


def _bytes(one: Distribution) -> int:
    paths = (Path(str(one.locate_file(file))) for file in one.files or () if not str(file).endswith(".pyc"))
    return sum(path.stat().st_size for path in paths if path.is_file())
