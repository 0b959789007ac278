"""The command that an agent starts: mcp."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ..terminal import Terminal


def mcp_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of mcp."""
    parser.add_argument("--agent", default="", metavar="NAME", help="the agent's name, where it does not say it")


def mcp(options: Namespace, terminal: Terminal) -> int:
    """Relay MCP between stdio and the daemon."""
    from ....ipc.mcp.relay import main

    return main(["--agent", options.agent] if options.agent else [])
