"""The way in of `dreamctl`: a command that an agent waits for goes past everything that a person's commands need."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from ..terminal import Terminal


def main() -> int:
    """Run one command and return its exit code."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & {*sys.argv[2:3]}:
        from .hook import answer_hook

        return answer_hook(sys.argv[2:])
    if sys.argv[1:2] == ["mcp"]:
        from ....ipc.mcp.relay import main as relay

        return relay(sys.argv[2:])
    from ..main import main as run

    return run()


def mcp_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of mcp."""
    parser.add_argument("--agent", default="", metavar="NAME", help="the agent's name, where it does not say it")


def mcp(options: Namespace, terminal: Terminal) -> int:
    """Relay MCP between stdio and the daemon."""
    from ....ipc.mcp.relay import main as relay

    return relay(["--agent", options.agent] if options.agent else [])


if __name__ == "__main__":
    sys.exit(main())
