"""Logging by loguru, into which the messages of libraries that use `logging` are forwarded."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from types import FrameType

from loguru import logger

from ..settings import LogSettings

WITH_TIME = "{time:YYYY-MM-DD HH:mm:ss.SSS} {level: <7} {name}: {message}"
JOURNAL_ADDS_TIME = "{level: <7} {name}: {message}"
CHATTY = ("apscheduler", "httpx", "httpcore", "watchfiles", "asyncio")


def set_up(settings: LogSettings) -> None:
    """Log to stderr, and to a file if one is named.

    `diagnose` stays off: it prints the values of variables, which hold a person's texts.
    """
    logger.remove()
    style = JOURNAL_ADDS_TIME if "JOURNAL_STREAM" in os.environ else WITH_TIME
    logger.add(sys.stderr, level=settings.level, format=style, backtrace=False, diagnose=False)
    if settings.file is not None:
        logger.add(
            settings.file,
            level=settings.level,
            format=WITH_TIME,
            rotation="5 MB",
            retention=3,
            backtrace=False,
            diagnose=False,
        )
    logging.basicConfig(handlers=[_ToLoguru()], level=logging.INFO, force=True)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class _ToLoguru(logging.Handler):
    """Forwards with level and caller, as loguru's documentation shows."""

    def emit(self, record: logging.LogRecord) -> None:
        """Forward one record."""
        try:
            level: str | int = logger.level(record.levelname).name
        except ValueError:
            level = record.levelno
        frame: FrameType | None = inspect.currentframe()
        depth = 0
        while frame is not None and (depth == 0 or frame.f_code.co_filename == logging.__file__):
            frame, depth = frame.f_back, depth + 1
        logger.opt(depth=depth, exception=record.exc_info).log(level, record.getMessage())
