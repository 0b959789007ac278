"""A daemon beside a second package with an extension: its format, its model, its engine, and its name in `doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import extension_package
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import plain, typed

pytestmark = pytest.mark.system


def test_an_extension_adds_a_format_a_model_and_an_engine_and_is_named(tmp_path: Path) -> None:
    extension_package.install(tmp_path / "packages")
    notes, diary = tmp_path / "notes", tmp_path / "summer.diary"
    notes.touch()
    diary.write_text("We saw a kingfisher at the weir, and we always take the canoe there in July.\n", encoding="utf-8")
    environ = {
        "PYTHONPATH": str(tmp_path / "packages"),
        "ACME_NOTES": str(notes),
        "DREAMD_STORE__BACKEND": "acme.words",
        "DREAMD_STORE__EMBEDDING__MODEL": "stub",
        "DREAMD_LLM__PROVIDER": "acme.echo",
    }
    with DaemonUnderTest(tmp_path / "home", environ) as daemon:
        assert typed(daemon, "import", "--format", "acme.diary", diary).returncode == 0
        assert daemon.call("import", paths=[str(diary)])["turns_known"] == 1  # recognised without its name
        assert "kingfisher" in daemon.call("recall", query="the kingfisher at the weir")["hits"][0]["text"]
        assert typed(daemon, "dream", "daily", "--wait").returncode == 0
        (one,) = daemon.call("status")["extensions"]
        assert (one["name"], one["package"], one["version"], one["problem"]) == ("acme", "acme-memory", "1.2", "")
        assert "acme (acme-memory)" in plain(typed(daemon, "status").stdout)
        assert "Acme (acme-memory 1.2) is loaded: backends, importers," in plain(typed(daemon, "doctor").stdout)
    assert '["asked"]' in notes.read_text(encoding="utf-8")  # and what it raised cost the dream nothing
