"""Logging: one voice, and nobody's words in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.daemon.host import logs
from dreamd.daemon.settings import LogSettings
from loguru import logger


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
