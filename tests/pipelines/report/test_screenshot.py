"""The page as a browser shows it: pictures in build/pages, light, dark and narrow, for a person to look at."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from dreamd.pipelines.report import html

from tests.pipelines.report.reports import full_report

ROOT = Path(__file__).resolve().parents[3]
BROWSER = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)
LOOKS = {
    "light": ["--window-size=900,2400"],
    "dark": ["--window-size=900,2400", "--force-dark-mode"],
    "narrow": ["--window-size=500,3200"],
}
PLAIN_BYTES = 20_000
"""A picture of an empty page is smaller."""


@pytest.mark.skipif(BROWSER is None, reason="no browser is here; test_html.py reads the page's structure")
@pytest.mark.parametrize("look", LOOKS)
def test_a_browser_shows_the_page(look: str, tmp_path: Path) -> None:
    page, pictures = tmp_path / "page.html", ROOT / "build" / "pages"
    page.write_text(html.render(full_report("We take plain SQL, because we want to read what is asked")))
    pictures.mkdir(parents=True, exist_ok=True)
    picture = pictures / f"{look}.png"
    picture.unlink(missing_ok=True)
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    subprocess.run(
        [*command, profile, *LOOKS[look], f"--screenshot={picture}", page.as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    data = picture.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG")
    assert f"{width},{height}" in LOOKS[look][0]
    assert len(data) > PLAIN_BYTES
