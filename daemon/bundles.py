"""The bundles by which other programs install our tools, built from the tables that describe them.

`python -m dreamd.daemon.bundles FOLDER` writes a plugin of Claude Code, an `.mcpb` file, and a `server.json` for the
registry of MCP servers. All three start `dreamctl mcp` of the machine that they are installed on, which needs a running
dreamd; none holds the program itself, so that there is one memory however many of them are installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from .. import __version__
from ..ipc.mcp.tools import INSTRUCTIONS, TOOLS
from .agents.programs import DESCRIPTION, LICENSE, SERVER, Command, plugin_files

# Reserved for examples by RFC 2606: whoever publishes names a domain, or an account, of their own.
NAMESPACE = "com.example"
MANIFEST_VERSION = "0.3"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
LAUNCHER = "server/dreamctl"

# Programs with windows are started without a person's own folders in PATH.
_LAUNCHER = """#!/bin/sh
for found in "$(command -v dreamctl)" "$HOME/.local/bin/dreamctl" /opt/homebrew/bin/dreamctl /usr/local/bin/dreamctl; do
    if [ -x "$found" ]; then exec "$found" "$@"; fi
done
echo "There is no dreamctl here. Install it with: pipx install dreamd && dreamctl install" >&2
exit 127
"""
# The same bytes whenever it is built: the registry's entry holds their hash.
_BUILT_AT = (1980, 1, 1, 0, 0, 0)
_PROGRAM, _FILE = 0o100755, 0o100644


@dataclass(frozen=True, slots=True)
class Release:
    """The publisher's choices: a namespace of their own, and the address at which the files are published."""

    namespace: str = NAMESPACE
    address: str = ""


def plugin(release: Release) -> Mapping[str, bytes]:
    """Return the files of a plugin of Claude Code, which finds `dreamctl` by the shell's PATH."""
    files = plugin_files(Command("dreamctl", {}))
    return {f"claude-plugin/{name}": text.encode() for name, text in files.items()}


def mcpb(release: Release) -> Mapping[str, bytes]:
    """Return the `.mcpb` file: an archive of its manifest and of a program that starts `dreamctl`."""
    contents = {
        "manifest.json": (_json(manifest()), _FILE),
        LAUNCHER: (_LAUNCHER.encode(), _PROGRAM),
    }
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, (content, mode) in contents.items():
            entry = zipfile.ZipInfo(name, _BUILT_AT)
            entry.external_attr, entry.compress_type, entry.create_system = mode << 16, zipfile.ZIP_DEFLATED, 3
            packed.writestr(entry, content)
    return {f"{SERVER}-{__version__}.mcpb": archive.getvalue()}


def manifest() -> dict[str, Any]:
    """Return the manifest of the `.mcpb` file."""
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": SERVER,
        "version": __version__,
        "description": DESCRIPTION,
        "long_description": INSTRUCTIONS,
        "author": {"name": SERVER},
        "license": LICENSE,
        "server": {
            "type": "binary",
            "entry_point": LAUNCHER,
            "mcp_config": {"command": f"${{__dirname}}/{LAUNCHER}", "args": ["mcp"]},
        },
        "tools": [{"name": tool.name, "description": tool.description} for tool in TOOLS.values()],
        "compatibility": {"platforms": ["darwin", "linux"]},
    }


def server(release: Release) -> Mapping[str, bytes]:
    """Return the entry of the registry: the Python package, and the `.mcpb` file where it is published somewhere."""
    started: dict[str, Any] = {"version": __version__, "transport": {"type": "stdio"}}
    packages = [
        {"registryType": "pypi", "identifier": SERVER, **started, "runtimeHint": "uvx"}
        | {"packageArguments": [{"type": "positional", "value": "mcp"}]}
    ]
    for name, content in mcpb(release).items() if release.address else ():
        address, digest = f"{release.address.rstrip('/')}/{name}", hashlib.sha256(content).hexdigest()
        packages.append({"registryType": "mcpb", "identifier": address, "fileSha256": digest, **started})
    entry = {
        "$schema": SCHEMA,
        "name": f"{release.namespace}/{SERVER}",
        "description": DESCRIPTION,
        "version": __version__,
        "packages": packages,
    }
    return {"server.json": _json(entry)}


BUNDLES: tuple[Callable[[Release], Mapping[str, bytes]], ...] = (plugin, mcpb, server)


def build(folder: Path, release: Release) -> list[Path]:
    """Write every bundle into a folder; return the paths of the files."""
    files = {name: content for bundle in BUNDLES for name, content in bundle(release).items()}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def main(argv: list[str] | None = None) -> int:
    """Build the bundles, and print the paths of their files."""
    parser = argparse.ArgumentParser(prog="python -m dreamd.daemon.bundles", description="Build the bundles.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--namespace", default=NAMESPACE, help="a namespace that the publisher owns: io.github.NAME")
    parser.add_argument("--address", default="", help="where the .mcpb file is published, without its name")
    options = parser.parse_args(argv)
    for path in build(options.folder, Release(options.namespace, options.address)):
        print(path)
    if options.namespace == NAMESPACE:
        print(f"server.json is {NAMESPACE}'s, nobody's: choose your --namespace before you publish it")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
