from __future__ import annotations

import zlib
from pathlib import Path

from dreamd.store import okf
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.okf import session
from dreamd.store.okf.memory_file import BY_HAND, body_hash
from dreamd.store.purge import prove
from dreamd.store.purge.erase import Intent
from dreamd.store.purge.prove import ErasedWords, traces_among
from dreamd.store.purge.scrub import Erasure
from dreamd.store.vault.disk import Disk
from hypothesis import given
from hypothesis import strategies as st

from tests.store.purge.purging import fact, page

SALT = bytes(range(16))
SAID = "Quasarine postgres holds the zephyrhall orders"


def erasure(turns: frozenset[str] = frozenset(), gone: frozenset[str] = frozenset()) -> Erasure:
    return Erasure(ErasedWords.of(SALT, ["quasarine", "zephyrhall"], [SAID]), turns=turns, gone=gone)


def test_words_are_recognised_and_not_kept() -> None:
    words = ErasedWords.of(SALT, ["quasarine"], [SAID], ["every friday"])
    assert words.mentions("They said QUASARINE.")
    assert words.mentions("It is due every Friday")
    assert not words.mentions("It is due on every second Friday")
    assert words.overlaps("it holds the zephyrhall orders, too")
    assert not words.overlaps("postgres holds")
    assert "quasarine" not in str(words.to_json())
    assert ErasedWords.from_json(words.to_json()) == words


def test_a_word_that_is_kept_elsewhere_is_no_trace() -> None:
    assert traces_among(["quasarine", "postgres", "of", "tablet"], ["postgres", "tablets"]) == {"quasarine"}


def test_what_dreamd_writes_by_itself_is_no_trace() -> None:
    assert traces_among(["consolidate", "fingerprint"], []) == set()


TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), min_size=1, max_size=6)


@given(texts=TEXTS, data=st.data())
def test_every_other_turn_of_a_session_stays_byte_for_byte(texts: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.integers(1, len(texts)))
    head = SessionHead("s1", "shop")
    turns = [NewTurn("user", text, None, f"x{n}") for n, text in enumerate(texts, 1)]
    whole = session.open_file(head) + session.encode_turns(turns, 1)
    kept = erasure(turns=frozenset({f"s1#{gone}"})).scrubbed("sessions/undated/s1.md", whole)
    turns[gone - 1] = NewTurn("user", session.ERASED, None, f"x{gone}")
    assert kept == session.open_file(head) + session.encode_turns(turns, 1)


def test_scrubbing_twice_is_scrubbing_once() -> None:
    first, second = fact(SAID, "s1#1"), fact("Deploys wait for Marbelline", "s1#2")
    made = page("What holds now", [first, second])
    whole = okf.from_memory(made, {each.node_id: each.path for each in (first, second)})
    gone = erasure(turns=frozenset({"s1#1"}), gone=frozenset({first.node_id}))
    once = gone.scrubbed(made.path, whole)
    assert once is not None
    assert gone.scrubbed(made.path, once) == once
    document = okf.parse(once)
    assert [entry["title"] for entry in document.meta["sources"]] == [second.node_id]
    assert "Marbelline" in document.body
    assert "uasarine" not in document.body
    assert document.meta[BY_HAND] == body_hash(document.body)


def test_a_fact_that_rests_on_another_turn_too_loses_the_citation_alone() -> None:
    kept = fact("Orders are in a database now", "s1#1", "s1#2")
    left = erasure(turns=frozenset({"s1#1"})).scrubbed(kept.path, okf.from_memory(kept))
    assert left is not None
    assert okf.to_memory(kept.path, okf.parse(left)).sources == ("s1#2",)


def test_a_page_goes_with_its_sources_unless_a_person_wrote_into_it() -> None:
    only = fact(SAID, "s1#1")
    made = page("What holds now", [only])
    whole = okf.from_memory(made)
    gone = erasure(gone=frozenset({only.node_id}))
    assert gone.scrubbed(made.path, whole) is None
    left = gone.scrubbed(made.path, whole + b"\n- and a line of mine\n")
    assert left is not None
    assert okf.parse(left).body.split("\n\n") == ["\n## Now", "- and a line of mine\n"]


def test_a_memory_whose_successor_is_purged_holds_again() -> None:
    older = okf.edit(okf.from_memory(fact("Tabs, not spaces", "s1#2")), {"superseded_by": "newer", "valid_to": "2026"})
    left = erasure(gone=frozenset({"newer"})).scrubbed("facts/tabs--x.md", older)
    assert left is not None
    assert not {"superseded_by", "valid_to"} & okf.parse(left).meta.keys()


def test_of_a_digest_the_entries_go_and_the_sentences_are_masked() -> None:
    digest = "\n".join(
        (
            "2 pages, “Quasarine and more” and “What the workshop taught” among them.",
            "- [Quasarine holds](/facts/quasarine--abc.md)",
            "- [Spaces](/facts/spaces--def.md)",
            '<li><a href="../facts/x--gonefact.md">said</a></li>',
        )
    )
    left = erasure(gone=frozenset({"gonefact"})).scrubbed("digests/2026-11-21.md", digest.encode())
    assert left is not None
    assert left.decode().split("\n") == [
        "2 pages, “[erased]” and “What the workshop taught” among them.",
        "- [Spaces](/facts/spaces--def.md)",
    ]


def test_a_digest_loses_a_quote_of_words_that_stand_elsewhere_too() -> None:
    long = "We said that the build of the shop is run by nobody on the days before a feast."
    words = ErasedWords.of(SALT, (), ["Ben's team lead is Bob.", long])
    left = Erasure(words, gone=frozenset({"gonefact"})).scrubbed(
        "digests/2026-11-21.html",
        b"<li>21 November: Ben&#x27;s team lead is Bob.</li>\n"
        b"<li>The team lead is Bob since May, and Tom is the team lead of the shop.</li>\n"
        b'<svg aria-label="Faded: Ben&#x27;s team lead is Bob., old"><text>Ben&#x27;s team lead is Bob.</text></svg>\n'
        b"<li>It is said that the build of the shop is run by nobody.</li>\n"
        b"<li>The build of the shop is green.</li>\n",
    )
    assert left == (
        b"<li>The team lead is Bob since May, and Tom is the team lead of the shop.</li>\n"
        + '<svg aria-label="Faded: …&#x27;… … … … …., old"><text>…&#x27;… … … … ….</text></svg>\n'.encode()
        + b"<li>The build of the shop is green.</li>\n"
    )
    assert ErasedWords.from_json(words.to_json()) == words


def test_traces_are_found_in_plain_and_in_compressed_bytes(tmp_path: Path) -> None:
    words = ErasedWords.of(SALT, ["quasarine"], [])
    for name, data in {
        "plain.db": b"\x00\x07Xquasarine\x00",
        "packed.db": b"\x01\x02" + zlib.compress(b"so Quasarine it is " * 9, 1)[:60] + b"\x00" * 9,
        "note.md": b"the Quasarine",
        "clean.db": zlib.compress(b"nothing here", 1),
    }.items():
        (tmp_path / name).write_bytes(data)
    found = prove.search(sorted(tmp_path.iterdir()), words.is_trace, lambda: None).traces
    assert [path.name for path in found] == ["note.md", "packed.db", "plain.db"]


def test_a_word_that_lies_across_two_pieces_is_found(tmp_path: Path) -> None:
    path = tmp_path / "large.log"
    path.write_bytes(b"." * (prove.READ_BYTES - 4) + b"quasarine" + b"." * 100)
    assert prove.search([path], ErasedWords.of(SALT, ["quasarine"], []).is_trace, lambda: None).traces


def test_an_intent_is_there_until_it_is_removed(tmp_path: Path) -> None:
    intent = Intent(tmp_path / "purge.json", Disk())
    assert (intent.is_there, intent.read()) == (False, None)
    intent.write({"a": [1]})
    assert (intent.is_there, intent.read()) == (True, {"a": [1]})
    intent.remove()
    assert list(tmp_path.iterdir()) == []
