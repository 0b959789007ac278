"""Loading the shipped model leaves nothing behind but its own folder, and so gives ONNX Runtime nothing to send."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_LOAD = """
import sys
from pathlib import Path
from dreamd.store.embedding.embedding import FastembedEmbedder
from dreamd.store.settings import EmbeddingSettings

embedder = FastembedEmbedder(EmbeddingSettings(), Path(sys.argv[1]))
assert embedder.wait(60)
embedder.embed_query("hello")
"""


def test_no_telemetry(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "CI", "XDG_"))}
    environment |= {"HOME": str(outside), "TMPDIR": str(outside)}
    subprocess.run([sys.executable, "-c", _LOAD, str(tmp_path / "cache")], env=environment, check=True, timeout=100)
    assert not [str(path) for path in outside.rglob("*") if path.is_file()]
