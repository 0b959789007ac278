"""What another took the place of is hidden, in whatever order files come, change and go: as a rebuild has it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.open_index import OpenIndex
from dreamd.store.settings import StoreSettings
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NAMES = "abcde"

said = st.tuples(st.sampled_from([*NAMES, "x", ""]), st.booleans())
steps = st.lists(st.tuples(st.sampled_from(NAMES), st.none() | said), max_size=14)


def is_live(name: str, files: Mapping[str, tuple[str, bool]]) -> bool:
    """As the words have it: neither put away, nor with a successor that is there and does not lead back."""
    successor, is_archived = files[name]
    here, seen = successor, set[str]()
    while here in files and here not in seen:
        seen.add(here)
        here = files[here][0]
    return not is_archived and (successor not in files or name in seen)


@settings(max_examples=examples(60), deadline=None)
@given(steps=steps)
def test_what_is_live_is_what_the_files_say(steps: list[tuple[str, tuple[str, bool] | None]]) -> None:
    with tempfile.TemporaryDirectory(prefix="dreamd-successors-") as folder:
        vault = Vault(Path(folder) / "vault", Disk())
        vault.mark("0" * 16)
        opened = OpenIndex(Path(folder) / "i.db", vault, StubEmbedder(), StoreSettings(), lambda: NOW)
        try:
            files: dict[str, tuple[str, bool]] = {}
            for name, said in steps:
                path = vault.root / f"{name}.md"
                if said is None:
                    files.pop(name, None)
                    path.unlink(missing_ok=True)
                else:
                    files[name] = said
                    path.write_bytes(written(name, *said))
                opened.index.apply(f"{name}.md")
            expected = {name: is_live(name, files) for name in files}
            assert {node.node_id: node.live for node in opened.catalog.listing()} == expected
            opened.rebuild()
            assert {node.node_id: node.live for node in opened.catalog.listing()} == expected
        finally:
            opened.close()


def written(name: str, successor: str, is_archived: bool) -> bytes:
    meta = {"type": "Fact", "node_id": name, "level": "L1", "channel": "shop"}
    meta |= {"superseded_by": successor} if successor else {}
    meta |= {"archived_at": NOW.isoformat()} if is_archived else {}
    return okf.render(meta, f"\nThe {name} is here.\n")
