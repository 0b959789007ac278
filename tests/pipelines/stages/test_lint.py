from __future__ import annotations

from dreamd.pipelines.stages import consolidate, lint
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.ledger.journal import sha256
from dreamd.store.model import ActionKind, Kind
from dreamd.store.okf.memory_file import body_hash

from tests.pipelines.fakes import NOW, FakeSource


def _dreamt() -> FakeSource:
    source = FakeSource()
    source.add("s1", ("Ann", "I moved to Oslo in 2019."))
    view = source.view()
    planned = consolidate.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    source.take(view)
    return source


def _problems(source: FakeSource) -> dict[str, list[str]]:
    view = source.view()
    view.cursors["consolidate", "s1"] = 1
    found: dict[str, list[str]] = {}
    for finding in lint.plan(view, NOW).findings:
        found.setdefault(finding.check, []).append(finding.path)
    return found


def test_a_healthy_vault_has_no_findings() -> None:
    assert _problems(_dreamt()) == {}


def test_every_kind_of_problem_is_reported() -> None:
    source = _dreamt()
    source.files["facts/broken.md"] = b"---\ntype: [\n---\n\ntext\n"
    source.files["notes/links.md"] = b"---\ntype: Note\n---\n\n[gone](/facts/none.md) [there](/facts/broken.md)\n"
    source.problems["facts/deleted.md"] = None
    source.said["s2"] = source.said["s1"]
    source.channels["s2"] = "proj"
    found = _problems(source)
    assert found["conformance"] == ["facts/broken.md"]
    assert found["links"] == ["notes/links.md"]
    assert found["index"] == ["facts/deleted.md"]
    assert found["sessions"] == ["sessions/2023/05/08/s2.md"]


def test_a_document_is_looked_through_for_secrets_alone() -> None:
    source = _dreamt()
    head = (
        b"---\ntype: Document\nnode_id: doc-a\nlevel: L0\nkind: document\ntags: [a, a]\n---\n\n[gone](/facts/none.md)\n"
    )
    source.files["documents/notes/a--doc-a.md"] = head
    source.files["documents/notes/b--doc-b.md"] = head + b"ghp_" + b"a1B2" * 9 + b"\n"
    assert _problems(source) == {"secrets": ["documents/notes/b--doc-b.md"]}


def test_a_fact_without_evidence_is_an_orphan() -> None:
    source = _dreamt()
    (path,) = source.files
    source.said.clear()
    assert _problems(source)["orphans"] == [path]


def test_a_secret_is_taken_out_of_what_a_dream_wrote() -> None:
    source = _dreamt()
    (path,) = source.files
    secret = "ghp_" + "a1B2" * 9
    source.files[path] = source.files[path].replace(b"Oslo", f"Oslo {secret}".encode())
    source.files["notes/mine.md"] = f"---\ntype: Note\n---\n\n{secret}\n".encode()
    view = source.view()
    planned = lint.plan(view, NOW)
    (repair,) = planned.actions
    assert (repair.kind, repair.path) == (ActionKind.REPLACE, path)
    assert secret.encode() not in (repair.content or b"")
    assert repair.pre_sha256 == sha256(view.read(path) or b"")
    assert [finding.path for finding in planned.findings if finding.check == "secrets"] == ["notes/mine.md"]
    assert secret not in str(planned.findings) + repair.reason


def test_sources_follow_a_session_that_moved() -> None:
    source = _dreamt()
    (path,) = source.files
    source.files[path] = source.files[path].replace(b"/sessions/2023/05/08/s1.md", b"/sessions/old/s1.md")
    (repair,) = lint.plan(source.view(), NOW).actions
    assert okf.parse(repair.content or b"").meta["sources"][0]["resource"] == "/sessions/2023/05/08/s1.md"


PAGE = """---
type: Scenario
node_id: page
level: L2
kind: scenario
run: run-1
{more}sources:
  - id: m1
    resource: /{path}
    title: {node}
---

{body}
"""


def _with_page(body: str, more: str = "") -> tuple[FakeSource, str]:
    """A vault with one fact and a page of a dream's that cites it; where the fact lies."""
    source = _dreamt()
    (path,) = source.files
    node_id = str(okf.parse(source.files[path]).meta["node_id"])
    text = body.format(node=node_id, path=path)
    mark = f"body_sha256: {body_hash(text)}\n"
    page = PAGE.format(more=mark + more, path=path, node=node_id, body=text)
    source.files["scenarios/page--page.md"] = page.encode()
    return source, path


def test_a_link_follows_a_memory_that_moved_and_is_mended_once() -> None:
    source, path = _with_page("- [see](/old/name--{node}.md) [^m1]")
    view = source.view()
    (repair,) = lint.plan(view, NOW).actions
    assert f"[see](/{path})".encode() in (repair.content or b"")
    view.apply([repair])
    source.take(view)
    assert lint.plan(source.view(), NOW).actions == []


def test_a_link_on_a_persons_page_is_named_not_mended() -> None:
    source, path = _with_page("nothing")
    node_id = str(okf.parse(source.files[path]).meta["node_id"])
    source.files["notes/mine.md"] = f"---\ntype: Note\n---\n\n[see](/old/name--{node_id}.md)\n".encode()
    planned = lint.plan(source.view(), NOW)
    assert planned.actions == []
    (found,) = [finding for finding in planned.findings if finding.check == "links"]
    assert f"lies at /{path} now" in found.problem


def test_links_and_footnotes_without_a_target_are_reported() -> None:
    source, _ = _with_page("- a claim [^m1] [^m7]", "supersedes:\n- nobody\n")
    told = [finding.problem for finding in lint.plan(source.view(), NOW).findings if finding.check == "links"]
    assert told == ["its footnote m7 has no source", "it supersedes nobody, which is not there"]


def test_a_one_sided_supersession_is_reported() -> None:
    source, path = _with_page("nothing")
    node_id = str(okf.parse(source.files[path]).meta["node_id"])
    page = "scenarios/page--page.md"
    source.files[page] = okf.edit(source.files[page], {"supersedes": [node_id]})
    told = [finding.problem for finding in lint.plan(source.view(), NOW).findings if finding.check == "links"]
    assert told == [f"it supersedes {node_id}, which does not name it as its successor"]


def test_all_repairs_of_a_file_are_one_action() -> None:
    source = _dreamt()
    (path,) = source.files
    source.files[path] = okf.edit(source.files[path], {"tags": ["Ann", "ann", " "], "type": None})
    (repair,) = lint.plan(source.view(), NOW).actions
    meta = okf.parse(repair.content or b"").meta
    assert meta["tags"] == ["Ann"]
    assert meta["type"] == okf.type_of(Kind(meta["kind"]))
    assert repair.reason == "its type was missing; its tags were cleaned up"


def test_a_file_that_a_person_edited_is_not_repaired() -> None:
    source = _dreamt()
    (path,) = source.files
    source.files[path] = okf.edit(source.files[path].replace(b"Oslo", b"Bergen"), {"tags": ["a", "A"]})
    planned = lint.plan(source.view(), NOW)
    assert planned.actions == []
    assert [finding.check for finding in planned.findings if finding.path == path] == ["tags"]


def test_a_repair_that_was_undone_is_not_made_again() -> None:
    source = _dreamt()
    (path,) = source.files
    source.files[path] = okf.edit(source.files[path], {"tags": ["a", "A"]})
    (repair,) = lint.plan(source.view(), NOW).actions
    assert repair.fingerprint
    assert lint.plan(source.view(History(tombstones=frozenset({repair.fingerprint}))), NOW).actions == []


def test_unread_turns_and_missing_vectors_are_reported() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "one"), ("Ann", "two"), ("Ann", "three"))
    source.add("s2", ("Ann", "one"))
    source.waiting = 7
    view = source.view(History(cursors={("consolidate", "s1"): 1}))
    told = {finding.check + finding.path: finding.problem for finding in lint.plan(view, NOW).findings}
    assert "last 2 of its 3 turns" in told["sessionssessions/2023/05/08/s1.md"]
    assert "none of its 1 turns" in told["sessionssessions/2023/05/08/s2.md"]
    assert told["embeddings"].startswith("7 pieces")


def test_a_memory_lives_again_only_if_its_successor_is_gone() -> None:
    source = _dreamt()
    (path,) = source.files
    node_id = str(okf.parse(source.files[path]).meta["node_id"])
    note = "---\ntype: Note\nnode_id: {0}\nlevel: L1\nsuperseded_by: {1}\nvalid_to: 2026-01-01\n---\n\nWords.\n"
    source.files["facts/a.md"] = note.format("a", "nobody").encode()
    source.files["facts/b.md"] = note.format("b", node_id).encode()
    (repair,) = lint.plan(source.view(), NOW).actions
    assert (repair.path, repair.reason) == ("facts/a.md", "its successor is gone")
    assert okf.parse(repair.content or b"").meta.keys() == {"type", "node_id", "level"}
    assert "links" not in _problems(source)
