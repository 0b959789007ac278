"""Run a scorer of a data set on a vault of today: `python -m tests.bench.flat_scorer SCORE.py ARGUMENT …`.

The scorers know vaults of before, with every fact in `facts/` and every key on a line of its own. They are shown such
copies of the facts; all else they read as it is.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dreamd.store import okf
from dreamd.store.model import Level

OF_FACTS = frozenset(("facts/*.md", "facts/**/*.md"))


def flat_copies(vault: Path, into: Path) -> Iterator[Path]:
    """Yield a copy of every fact of a vault, as vaults of before have it."""
    for file in vault.rglob("*.md"):
        document = okf.parse(file.read_bytes())
        if document.meta.get("level") == Level.FACT:
            copy = into / file.name
            copy.write_bytes(okf.render(document.meta, document.body, is_flat=True))
            yield copy


def main() -> None:
    """Run the scorer that the first argument names, with the others."""
    as_it_is = Path.glob
    with TemporaryDirectory() as folder:

        def glob(self: Path, pattern: str, **given: Any) -> Iterator[Path]:
            return flat_copies(self, Path(folder)) if pattern in OF_FACTS else as_it_is(self, pattern, **given)

        Path.glob = glob  # type: ignore[method-assign, assignment]
        sys.argv = sys.argv[1:]
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
