"""Logging: one voice, and nobody's words in it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.daemon.host import logs
from dreamd.daemon.methods.table import METHODS
from dreamd.daemon.settings import LogSettings
from loguru import logger
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:], logging.root.level = before
    logger.remove()


def test_logs_of_libraries_end_up_in_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "dreamd.log"
    logs.set_up(LogSettings(file=file))
    logging.getLogger("somebody").warning("from %s", "logging")
    logging.getLogger("apscheduler.executors").info("Running job")
    logger.info("from loguru")
    logger.debug("too quiet")
    text = file.read_text()
    assert "test_logs: from logging" in text
    assert "from loguru" in text
    assert "Running job" not in text
    assert "too quiet" not in text


def test_a_traceback_shows_no_values(tmp_path: Path) -> None:
    file = tmp_path / "dreamd.log"
    logs.set_up(LogSettings(file=file))

    def fail(private: str) -> None:
        raise ValueError(len(private))

    try:
        fail("my diary")
    except ValueError:
        logger.exception("it failed")
    text = file.read_text()
    assert "ValueError" in text
    assert "'my diary'" not in text


def test_the_journal_adds_its_own_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    logs.set_up(LogSettings())
    logger.info("hello")
    assert capsys.readouterr().err.startswith("INFO ")


def test_a_memory_operation_is_a_span_without_any_text() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    record = logs.memory_spans("0123456789abcdef", provider)
    record("recall", 0.25, "ok")
    record("forget", 0.01, "-32001")
    record("status", 0.01, "ok")
    found, refused = exporter.get_finished_spans()
    assert found.attributes == {
        "gen_ai.operation.name": "search_memory",
        "gen_ai.memory.store.id": "0123456789abcdef",
        "dreamd.method": "recall",
    }
    assert found.start_time is not None
    assert found.end_time is not None
    assert abs(found.end_time - found.start_time - 250_000_000) < 1000
    assert (refused.name, refused.attributes and refused.attributes["error.type"]) == ("delete_memory", "-32001")
    assert refused.status.status_code is StatusCode.ERROR


def test_every_operation_is_a_method() -> None:
    assert set(logs.OPERATIONS) <= {method.name for method in METHODS}


def test_nothing_of_opentelemetry_s_sdk_is_imported_without_the_setting() -> None:
    source = "import sys, dreamd.daemon.app; print([name for name in sys.modules if 'opentelemetry.sdk' in name])"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
