"""Where the data lies that tests read: small stand-ins of our own, and the real sets beside the project."""

from __future__ import annotations

import os
from pathlib import Path

STAND_INS = Path(__file__).resolve().parent / "data"
REAL = Path(os.environ.get("SHARED_DATA_DIR", Path(__file__).resolve().parents[2] / "shared" / "data"))

PLACES = {"stand-ins": STAND_INS} | ({"real": REAL} if REAL.is_dir() else {})
"""By name; with both there, every test of data runs on both."""
