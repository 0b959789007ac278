"""Installing where no service manager is: what a person reads, and what goes on all the same."""

from __future__ import annotations

import sys

import pytest
from dreamd.daemon.cli import service_commands as installation
from dreamd.daemon.cli.main import main


def test_without_a_service_manager_it_fails_with_the_way_to_start_and_offers_to_connect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offered: list[object] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(installation, "offer", offered.append)
    assert main(["install"]) == 1
    said = capsys.readouterr().err
    assert "no systemd" in said
    assert "`dreamd`" in said
    assert f"@reboot {sys.executable} -P -m dreamd.daemon" in said
    assert len(offered) == 1
