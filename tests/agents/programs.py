"""The real agent programs: where npm has put them, and how each is run in the environment of a login under systemd."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code@2.1.332",
    "claude-code-2.1.197": "@anthropic-ai/claude-code@2.1.197",  # the last with the older protocol of tools
    "codex": "@openai/codex@0.169.0",
    "gemini": "@google/gemini-cli@0.61.0",
    "opencode": "opencode-ai@1.18.33",
    "mcpb": "@anthropic-ai/mcpb@2.1.2",  # which checks our bundle for programs with windows
    "node": "node@24.21.0",  # which the ones below ask for
    "copilot": "@github/copilot@1.0.102",
    "qwen": "@qwen-code/qwen-code@0.24.4",
    "cline": "cline@3.0.65",
    "goose": "@aaif/goose@0.20.1",  # whose program is 1.34.0
    "openclaw": "openclaw@2026.9.6",
}
"""By the folder into which `make test-agents` installs each; named by number: an old node silently gets others."""

INSTALLED = Path(os.environ.get("AGENTS_INSTALLED", "nowhere"))
TIMEOUT_S = 180
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}


@dataclass(frozen=True, slots=True)
class Agent:
    """A program: its name for `connect`, its command, and the model's name of our tool `recall`.

    `environment` and `settings` (files by their paths in the home folder) point it to a model's address. `asked` are
    the arguments that have it answer one prompt and end, and `resumed` those by which it does so in its last session.
    """

    name: str
    folder: str
    command: str
    tool: str
    asked: tuple[str, ...]
    resumed: tuple[str, ...]
    environment: Callable[[Path, str], Mapping[str, str]]
    settings: Callable[[str], Mapping[str, str]]

    @property
    def executable(self) -> Path:
        """Where npm has put it."""
        return INSTALLED / self.folder / "node_modules" / ".bin" / self.command

    def prepare(self, home: Path, url: str) -> None:
        """Write the settings of a person who uses it with this model."""
        home.mkdir(parents=True)
        for name, text in self.settings(url).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)

    def environ(self, home: Path, url: str, runtime: str) -> dict[str, str]:
        """Return the environment of a person's login: the socket is in `$XDG_RUNTIME_DIR`, and nothing names it."""
        login = {
            "PATH": f"{self.executable.parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": runtime,
        }
        return {**login, **self.environment(home, url)}

    def say(
        self, prompt: str, home: Path, project: Path, url: str, runtime: str, *, resume: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Have it answer one prompt, in a session of its own or in the last one."""
        return subprocess.run(
            [str(self.executable), *(self.resumed if resume else self.asked), prompt],
            env=self.environ(home, url, runtime),
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )


def _claude(folder: str) -> Agent:
    return Agent(
        name="claude-code",
        folder=folder,
        command="claude",
        tool="mcp__dreamd__recall",
        asked=("--dangerously-skip-permissions", "-p"),
        resumed=("--dangerously-skip-permissions", "-c", "-p"),
        environment=lambda home, url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-fake-local",
            "TMPDIR": str(home),
            "IS_SANDBOX": "1",
            **QUIET,
        },
        settings=lambda url: {
            ".claude/settings.json": '{\n  "cleanupPeriodDays": 30 // mine\n}\n'.replace(" // mine", "")
        },
    )


CODEX_CONFIG = """# mine
model = "scripted"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
"""

CODEX_OPTIONS = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")

AGENTS = (
    _claude("claude-code"),
    _claude("claude-code-2.1.197"),
    Agent(
        name="codex",
        folder="codex",
        command="codex",
        tool="mcp__dreamd.recall",
        asked=("exec", *CODEX_OPTIONS),
        resumed=("exec", "resume", *CODEX_OPTIONS, "--last"),
        environment=lambda home, url: {"FAKE_KEY": "x"},
        settings=lambda url: {".codex/config.toml": CODEX_CONFIG.format(url=url)},
    ),
    Agent(
        name="gemini",
        folder="gemini",
        command="gemini",
        tool="mcp_dreamd_recall",
        asked=("--approval-mode", "yolo", "-p"),
        resumed=("--approval-mode", "yolo", "--resume", "latest", "-p"),
        environment=lambda home, url: {
            "GEMINI_API_KEY": "fake",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "NO_BROWSER": "1",
        },
        settings=lambda url: {
            ".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}, indent=4)
        },
    ),
    Agent(
        name="opencode",
        folder="opencode",
        command="opencode",
        tool="dreamd_recall",
        asked=("run", "--model", "scripted/scripted"),
        resumed=("run", "--model", "scripted/scripted", "-c"),
        environment=lambda home, url: {
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        settings=lambda url: {
            ".config/opencode/opencode.json": json.dumps(
                {
                    "$schema": "https://opencode.ai/config.json",  # which it adds itself where it is missing
                    "provider": {
                        "scripted": {
                            "npm": "@ai-sdk/openai-compatible",
                            "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
                            "models": {"scripted": {"name": "scripted"}},
                        }
                    },
                },
                indent=2,
            )
        },
    ),
)


if __name__ == "__main__":
    for folder, package in PACKAGES.items():
        print(folder, package)
