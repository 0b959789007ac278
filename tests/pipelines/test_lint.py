from __future__ import annotations

from dreamd.pipelines import consolidate, lint
from dreamd.store.keep import okf
from dreamd.store.model import ActionKind

from .fakes import NOW, FakeSource


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


def test_what_is_wrong_is_named() -> None:
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
    assert repair.pre_sha256 == view.pre_sha256(path)
    assert [finding.path for finding in planned.findings if finding.check == "secrets"] == ["notes/mine.md"]
    assert secret not in str(planned.findings) + repair.reason


def test_sources_follow_a_session_that_moved() -> None:
    source = _dreamt()
    (path,) = source.files
    source.files[path] = source.files[path].replace(b"/sessions/2023/05/08/s1.md", b"/sessions/old/s1.md")
    (repair,) = lint.plan(source.view(), NOW).actions
    assert okf.parse(repair.content or b"").meta["sources"][0]["resource"] == "/sessions/2023/05/08/s1.md"
