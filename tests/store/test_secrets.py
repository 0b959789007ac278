"""No secret comes in by any door; a person's own file keeps its bytes, and nothing else has them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from dreamd.store import MemoryStore, StorePaths, door
from dreamd.store.changes.run_kinds import UNSAFE
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import Action, Changeset, InvalidInput, NewTurn, SessionHead
from dreamd.store.okf.session import session_id
from dreamd.store.purge.plan import Selection
from dreamd.store.redaction import masked, places_of_secrets
from dreamd.store.settings import StoreSettings
from dreamd.store.upkeep import health

KEY = "gh" + "p_" + "aB3dE5fG7h" * 4
PASSWORD = "lantern!walnut42"
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


def held(paths: StorePaths, *, but: str = "") -> Iterator[bytes]:
    """Yield the bytes of everything on the disk, and what ledger and index hold packed."""
    for file in sorted(paths.ledger.parent.rglob("*")):
        if file.is_file() and not (but and file.name == but):
            yield file.read_bytes().lower()


def is_held(store: MemoryStore, paths: StorePaths, text: str, *, but: str = "") -> bool:
    """Return True if a text is anywhere on the disk, packed or not."""
    assert store.settle()
    images = [data for _, data in store.ledger.images()]
    packed = store.core.opened.images
    images += [packed.of(stamp.path) or b"" for stamp in store.vault.walk()]
    wanted = text.lower().encode()
    return any(wanted in data for data in held(paths, but=but)) or any(wanted in data.lower() for data in images)


def test_no_field_lets_a_secret_in(store: MemoryStore, paths: StorePaths) -> None:
    head = SessionHead(f"s-{KEY}", "shop", f"t {KEY}", NOW, f"a-{KEY}", f"k-{KEY}", f"u-{KEY}", f"/home/{KEY}")
    store.observe(head, [NewTurn(f"Ines {KEY}", "hello there", NOW, f"e-{KEY}")]).result()
    node_id = store.remember("the shop opens at nine", tags=[KEY], agent_id=KEY, title=f"about {KEY}").result()
    store.forget(node_id, reason=f"it held {KEY}")
    with pytest.raises(InvalidInput, match="secret"):
        store.remember("never kept", channel=KEY)
    assert not is_held(store, paths, KEY)
    assert len([one for one in store.list(channel="shop") if one.kind == "session"]) == 1


def test_names_that_differ_in_their_secrets_alone_stay_two(store: MemoryStore) -> None:
    for key in (KEY, KEY[:-4] + "9z9z"):
        store.observe(SessionHead(f"s-{key}", "shop"), [NewTurn("user", "hello", NOW)]).result()
    assert store.settle()
    assert len([one for one in store.list(channel="shop") if one.kind == "session"]) == 2


def test_a_question_is_kept_without_its_secret(store: MemoryStore, paths: StorePaths) -> None:
    store.remember("the deploy tokens of the shop are in the safe").result()
    assert store.settle()
    store.recall(f"where is the deploy token {KEY} of the shop kept", channel="shop")
    store.context(f"where is the deploy token {KEY} of the shop kept", channel=None)
    store.operations.feedback.settle(10)
    assert not is_held(store, paths, KEY)
    store.close()
    assert b"[redacted:github] of the shop" in b"".join(held(paths))


def test_a_person_s_file_keeps_its_bytes_and_nothing_else_has_them(store: MemoryStore, paths: StorePaths) -> None:
    said = f"The shop is deployed by hand.\nDB_PASSWORD={PASSWORD}\ntoken {KEY}\n"
    text = f"---\ntype: Note\ntitle: Deploying\n---\n\n{said}"
    file = paths.vault / "deploying.md"
    file.write_text(text)
    store.reconcile()
    assert file.read_text() == text
    for secret in (PASSWORD, KEY):
        assert not is_held(store, paths, secret, but="deploying.md")
    (hit, *_) = store.recall("how is the shop deployed").hits
    assert KEY not in hit.text + store.show(hit.node_id).text + store.context("how is the shop deployed").text
    (problem,) = [one for one in store.check() if one.path == "deploying.md"]
    assert "line 7 (password), line 8 (github)" in problem.problem
    assert [one.severity for one in store.check() if "purge --secrets" in one.problem] == ["note"]  # said once
    forgotten = store.forget(hit.node_id)
    assert not is_held(store, paths, KEY)
    store.undo(forgotten.run_id)
    assert file.read_text() == text.replace(PASSWORD, "x" * len(PASSWORD)).replace(KEY, "x" * len(KEY))


def test_no_run_writes_a_secret_into_the_history(store: MemoryStore, paths: StorePaths) -> None:
    file = paths.vault / "mine.md"
    file.write_text(f"---\ntype: Note\ntitle: Mine\n---\n\n{KEY}\n")
    store.reconcile()
    before = file.read_bytes()
    action = Action.replacing("mine.md", "mine", before, before + b"more\n", stage="link", reason="a test")
    applied = store.apply(Changeset(run_id="r1", actions=(action,)), kind="daily")
    assert [skipped.reason for skipped in applied.skipped] == [UNSAFE]
    assert file.read_bytes() == before
    assert not is_held(store, paths, KEY, but="mine.md")


def test_a_session_edited_by_hand_is_looked_at_too(store: MemoryStore, paths: StorePaths) -> None:
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", f"turn {n}", NOW) for n in range(3)]).result()
    assert store.settle()
    (session,) = paths.vault.glob("sessions/**/s1.md")
    session.write_text(session.read_text().replace("turn 1", f"turn 1 {KEY}"))
    store.reconcile()
    assert not is_held(store, paths, KEY, but="s1.md")
    assert [one.path for one in store.check() if "github" in one.problem] == [str(session.relative_to(paths.vault))]
    store.observe(SessionHead("s1", "shop"), [NewTurn("user", "and one more", NOW)]).result()
    assert store.settle()
    assert store.show("s1#4").text == "and one more"


def test_a_masked_file_is_as_long_and_as_well_formed() -> None:
    data = f"---\ntoken: {KEY}\ntitle: Größe\n---\n\nü {KEY} ä\r\n".encode() + b"\xff\n"
    assert len(masked(data)) == len(data)
    assert masked(data) == data.replace(KEY.encode(), b"x" * len(KEY))
    assert zlib.crc32(masked(masked(data))) == zlib.crc32(masked(data))


def test_marks_of_direction_and_control_stay_outside(store: MemoryStore) -> None:
    node_id = store.remember("the shop \u202eopens\u202c at\x1b]0;x\x07 nine\u2066").result()
    assert store.settle()
    assert store.show(node_id).text == "the shop opens at nine"


def test_people_are_named_unless_the_settings_say_otherwise(store: MemoryStore, paths: StorePaths) -> None:
    said = (
        "write to ines@shop.dev or call +44 20 7946 0958 about card 4111 1111 1111 1111 and DE89 3704 0044 0532 0130 00"
    )
    assert "ines@shop.dev" in store.show(kept(store, said)).text
    store.close()
    settings = StoreSettings(redact_personal=True)
    with closing(MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)) as private:
        text = private.show(kept(private, f"{said}, please")).text
    assert text == (
        "write to [redacted:email] or call [redacted:phone] about card [redacted:card] and [redacted:iban], please"
    )


def kept(store: MemoryStore, text: str) -> str:
    """Remember a text, and return its id when it can be found."""
    node_id = store.remember(text).result()
    assert store.settle()
    return node_id


def test_a_reason_and_a_decisions_text_are_without_identifiers_where_a_setting_asks(
    store: MemoryStore, paths: StorePaths
) -> None:
    store.close()
    settings = StoreSettings(redact_personal=True)
    with closing(MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)) as private:
        older, newer = kept(private, "The port of the shop is 8080"), kept(private, "The port of the shop is 9090")
        private.link(newer, older, "Contradicts")
        (decision,) = private.decisions()
        private.decide(decision.decision_id, "edit", "ines", "The port is 9090, ask ines@shop.dev")
        private.forget(kept(private, "The lamp of the shop is blue"), "says ines@shop.dev")
        assert not is_held(private, paths, "ines@shop.dev")


def test_check_names_a_file_whose_name_holds_a_secret(store: MemoryStore, paths: StorePaths) -> None:
    (paths.vault / f"{KEY}.md").write_text("---\ntype: Note\n---\n\nhello\n")
    store.reconcile()
    (problem,) = (each for each in store.check() if "its name (github)" in each.problem)
    assert problem.path == "[redacted:github].md"
    assert KEY not in str(store.check())


def test_check_searches_a_file_again_only_after_a_change_of_it_or_of_the_rules(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    searched: list[str] = []

    def search(data: bytes, path: str = "") -> list[str]:
        searched.append(path)
        return places_of_secrets(data, path)

    monkeypatch.setattr(health, "places_of_secrets", search)
    with closing(MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW + timedelta(days=9999))) as later:
        kept = [later.remember(f"The shop opens at {hour}.", channel="shop").result() for hour in (8, 9)]
        assert later.settle()
        one, other = (later.core.catalog.path_of(node_id) or "" for node_id in kept)
        assert later.check() == []
        assert {one, other} <= set(searched)
        searched.clear()
        assert later.check() == []
        assert not {one, other} & set(searched)
        with (paths.vault / one).open("a") as file:
            file.write(f"\nThe key is {KEY}.\n")
        for _ in range(2):  # what holds a secret is never noted
            assert any(problem.path == one and "github" in problem.problem for problem in later.check())
        assert (searched.count(one), searched.count(other)) == (2, 0)
        monkeypatch.setattr(health, "version_of_rules", lambda: "other rules")
        later.check()
        assert other in searched


PEOPLE = ("ines@shop.dev", "+44 20 7946 0958", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00")


@pytest.mark.parametrize("person", PEOPLE)
def test_no_field_lets_a_persons_identifier_in_where_a_setting_asks(
    store: MemoryStore, paths: StorePaths, person: str
) -> None:
    store.close()
    settings = StoreSettings(redact_personal=True)
    with closing(MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)) as private:
        head = SessionHead(f"s {person}", "shop", person, NOW, person, person, person, f"/home/shop of {person}")
        private.observe(head, [NewTurn(person, "hello there", NOW, person)]).result()
        node_id = private.remember("the shop opens at nine", tags=[person], agent_id=person, title=person).result()
        private.tag(node_id, [f"also {person}"])
        private.set_anchor(f"s {person}", "shop", task=person)
        private.set_goal(f"s {person}", "shop", text=f"call {person}")
        private.operations.documents.put([f"of {person}"], f"key {person}", {"who": person}, channel="shop")
        assert private.operations.documents.get([f"of {person}"], f"key {person}") is not None
        older, newer = kept(private, "The port of the shop is 8080"), kept(private, "The port of the shop is 9090")
        private.link(newer, older, "Contradicts")
        private.decide(private.decisions()[0].decision_id, "newer", person)
        private.recall("when does the shop open at nine", channel=person)
        private.operations.feedback.settle(10)
        with pytest.raises(InvalidInput, match="secret"):
            private.remember("never kept", channel=person)
        for piece in (person, session_id(person)):
            assert not is_held(private, paths, piece)
        assert private.anchor_of_session(f"s {person}").anchor is not None


def test_the_setting_reaches_what_was_indexed_before_it(store: MemoryStore, paths: StorePaths) -> None:
    (paths.vault / "mine.md").write_text("---\ntype: Note\ntitle: Mine\nnode_id: mine\n---\n\nask ines@shop.dev\n")
    store.reconcile()
    assert store.show("mine").text == "ask ines@shop.dev"
    store.close()
    settings = StoreSettings(redact_personal=True)
    with closing(MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)) as private:
        assert private.settle()
        assert private.show("mine").text == "ask xxxxxxxxxxxxx"
        assert list(private.check()) == []
        assert private.preview_purge(Selection(secrets=True)).secrets == 0
        assert not is_held(private, paths, "ines@shop.dev", but="mine.md")


def test_names_of_people_stay_without_the_setting(store: MemoryStore) -> None:
    node_id = store.remember("the shop opens at nine", tags=["ines@shop.dev"]).result()
    assert store.settle()
    assert store.show(node_id).tags == ("ines@shop.dev",)


def test_what_goes_out_passes_todays_rules(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an older version let in is known by a rule of today."""
    older, newer = kept(store, "The lamp of the heronry is red"), kept(store, "The lamp of the heronry is blue")
    store.link(newer, older, "Contradicts")
    store.set_anchor("s1", "shop", task="paint the heronry", decisions=["the heronry is first"])
    store.set_goal("s1", "shop", text="the heronry is painted")
    store.write_derived({"digests/2026-11-22.md": "# The heronry\n"})

    def answers() -> str:
        found = [store.recall("lamp red").hits, store.context("lamp red").text, store.show(older), store.decisions()]
        return str([*found, store.anchor_of_session("s1"), store.goals("s1"), store.pages.digest(None)])

    assert answers().count("heronry") > 10

    def redact(text: str, personal: bool = False) -> SimpleNamespace:
        return SimpleNamespace(text=text.replace("heronry", "[redacted:x]"), found=())

    monkeypatch.setattr(door, "redact", redact)
    door._shown.cache_clear()  # what it holds was clean by the rules of before
    left = re.sub(r"[\w/.-]*heronry[\w.-]*(?:md|html)", "", answers())  # of a path a dreamd of today keeps the words
    assert "heronry" not in left
    assert left.count("[redacted:x]") > 10


def test_a_digest_quotes_no_secret_and_keeps_its_links(store: MemoryStore, paths: StorePaths) -> None:
    link = "/facts/rotate-the-token--aaaaaaaaaaaaa.md"
    page = f"- [The deploy token is {KEY}]({link}) faded\n"
    html = f'<li><a href="{link}">The deploy token is {KEY}</a></li>'
    store.write_derived({"digests/2026-11-22.md": page, "digests/2026-11-22.html": html})
    assert not is_held(store, paths, KEY)
    for suffix in (".md", ".html"):
        written = (paths.vault / "digests" / f"2026-11-22{suffix}").read_text()
        assert "token is [redacted:github]" in written
        assert link in written
