"""The catalogue: every file is listed, on pages of a bounded length, and no title is a link of its own."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from zoneinfo import ZoneInfo

from dreamd.pipelines.report.catalogue import MOST_PER_PAGE, NEWEST, pages
from dreamd.store.changes import document_file
from dreamd.store.channel import team_of
from dreamd.store.index.catalog import Content
from dreamd.store.ledger.records import Run
from dreamd.store.model import Level, SessionHead
from dreamd.store.okf import session
from dreamd.store.okf.file import conformance
from dreamd.store.redaction import places_of_secrets
from dreamd.store.upkeep.file_copies import SPACE
from dreamd.store.vault.layout import project_folder
from dreamd.store.writer.derived import marked

AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")


def fact(number: int, path: str = "", title: str = "", *, is_live: bool = True) -> Content:
    at = AT - timedelta(days=number)
    return Content(path or f"facts/f{number}.md", title or f"Fact {number}", "shop", Level.FACT, is_live, at)


def listed(found: dict[str, str]) -> list[str]:
    paths = [path for text in found.values() for path in re.findall(r"\]\(/([^)]+\.md)\)", text)]
    return [path for path in paths if not path.endswith("index.md")]


def made(contents: Sequence[Content], digests: Sequence[str] = (), runs: Sequence[Run] = ()) -> dict[str, str]:
    found = pages(contents, digests, runs, ZONE, lambda path: "about it")
    for path, text in found.items():
        assert conformance(path, text.encode()) == []
        for page in re.findall(r"\]\(/([^)]*index\.md)\)", text):
            assert page in found, text
    return found


def test_every_file_is_listed_archived_ones_and_those_of_other_folders_too() -> None:
    contents = [
        fact(1),
        fact(2, is_live=False),
        Content("scenarios/s.md", "S", "shop", Level.SCENARIO, True, AT),
        Content("profiles/shop/how.md", "How", "shop", Level.PROFILE, False, None),
        Content("sessions/2026/11/21/x.md", "x", "shop", Level.SESSION, True, AT),
        fact(3, "Daily Notes/tea (new).md", "Tea"),
    ]
    found = made(contents, ["digests/2026-11-21.md", "digests/2026-11-21.html"])
    wanted = [content.path.replace(" ", "%20").replace("(", "%28").replace(")", "%29") for content in contents]
    assert set(listed(found)) == {*wanted, "digests/2026-11-21.md", "log.md"}
    assert found.keys() == {
        *("index.md", "log.md", "facts/index.md", "scenarios/index.md"),
        *("profiles/index.md", "sessions/index.md", "digests/index.md"),
    }
    assert "* [Fact 2](/facts/f2.md) - 2026-11-19, shop, archived\n" in found["facts/index.md"]
    assert "* [S](/scenarios/s.md) - about it\n" in found["index.md"]
    assert "[How]" not in found["index.md"]


def test_a_project_has_a_page_that_leads_to_all_that_is_of_it() -> None:
    decisions = [fact(n, f"projects/shop/decisions/d{n}.md") for n in range(NEWEST + 2)]
    contents = [
        *decisions,
        fact(1, "projects/shop/values/v.md", "The port", is_live=False),
        Content("projects/shop/what-holds-now.md", "What holds now", "shop", Level.PROFILE, True, AT),
        Content("projects/shop/episodes/e.md", "The outage", "shop", Level.SCENARIO, True, AT),
        Content("sessions/2026/11/21/x.md", "Why it went down", "shop", Level.SESSION, True, AT),
        Content("general/preferences/p.md", "Metric units", "_global", Level.FACT, True, AT),
    ]
    found = made(contents)
    assert set(listed(found)) == {*(content.path for content in contents), "log.md"}
    page = found["projects/shop/index.md"]
    assert "# shop\n\n* [What holds now](/projects/shop/what-holds-now.md) - about it\n" in page
    assert page.count("/decisions/d") == NEWEST
    assert f"* [all {NEWEST + 2}](/projects/shop/decisions/index.md)\n" in page
    assert "## Sessions\n\n* [Why it went down](/sessions/2026/11/21/x.md) - 2026-11-21\n" in page
    assert f"* [shop](/projects/shop/index.md) - {NEWEST + 5}\n" in found["projects/index.md"]
    assert "## Preferences" in found["general/index.md"]
    assert "* [The outage](/projects/shop/episodes/e.md)" in found["index.md"]
    assert "* [What belongs to no project](/general/index.md)\n" in found["index.md"]


def test_what_a_colleague_shared_is_listed_with_the_project_once_it_is_accepted() -> None:
    folder = project_folder(team_of("shop"))
    accepted = fact(1, f"{folder}/facts/port.md", "The port is 8080")
    waiting = fact(2, f"{folder}/facts/day.md", "We deploy on Fridays")._replace(channel=team_of("shop"))
    found = made([fact(3, "projects/shop/facts/own.md"), accepted, waiting])
    assert "[The port is 8080](/" + accepted.path in found["projects/shop/index.md"]
    assert "[The port is 8080](/" + accepted.path in found["projects/shop/facts/index.md"]
    assert "[We deploy on Fridays](/" + waiting.path in found[f"{folder}/index.md"]
    assert "8080" not in found[f"{folder}/index.md"]
    assert "* [shop](/projects/shop/index.md) - 2\n" in found["projects/index.md"]


def test_a_large_folder_has_a_page_for_each_month() -> None:
    contents = [fact(number) for number in range(MOST_PER_PAGE + 200)]
    found = made([*contents, contents[0]._replace(path="facts/undated.md", at=None)])
    assert sorted(listed(found)) == sorted([*(content.path for content in contents), "facts/undated.md", "log.md"])
    assert (
        "* [2026-11](/facts/2026/11/index.md) - 21\n* [2026-10](/facts/2026/10/index.md) - 31\n"
        in found["facts/index.md"]
    )
    assert max(text.count("\n") for text in found.values()) < 40


def test_markup_in_a_title_is_escaped() -> None:
    found = made([fact(1, title="a\n](http://x) [b]\x1b[2J\u202e <i>")])
    (line,) = found["facts/index.md"].splitlines()[2:]
    assert line == "* [a &#93;(http://x) &#91;b&#93; \\<i>](/facts/f1.md) - 2026-11-20, shop"


def test_an_empty_memory_has_its_pages() -> None:
    assert made([]).keys() == {"index.md", "log.md"}


def test_the_log_is_by_the_persons_own_days() -> None:
    runs = [Run("r2", "daily", "undone", AT.replace(hour=23)), Run("r1", "forget", "applied", AT)]
    log = made([], runs=runs)["log.md"]
    days = (
        "# Log",
        "## 2026-11-22",
        "* **00:00** daily, undone (r2)",
        "## 2026-11-21",
        "* **04:00** forget, applied (r1)",
    )
    assert log == "\n\n".join(days) + "\n"


def test_a_files_name_brings_no_controls_into_the_catalogue() -> None:
    found = made([fact(1, title="")._replace(path="facts/bad\x1b]0;PWN\x07\u202e.md")])
    assert not any(mark in text for text in found.values() for mark in "\x1b\x07\u202e")
    assert "facts/bad%1B]0;PWN%07%E2%80%AE.md" in found["facts/index.md"]


def test_no_name_that_is_ours_is_taken_for_a_secret() -> None:
    names = (".cursor/rules/auth.mdc", "docs/password-rules.md", "auth/CLAUDE.md", "token.md", "CLAUDE.md")
    channels = [f"{name}-{digest[:6]}" for name in ("pwwevv", "orders") for digest in map(_digest, range(20))]
    copies = [
        Content(document_file.path_of((SPACE, channel), name), name, channel, Level.FACT, True, AT)
        for channel in channels
        for name in names
    ]
    ids = [f"{prefix}{_digest(number)[:24]}" for number in range(40) for prefix in ("thread_", "toolu_01", "")]
    heads = [SessionHead(name, "orders", started_at=AT) for name in ids]
    sessions = [Content(session.path_of(head), head.session_id, "orders", Level.SESSION, True, AT) for head in heads]
    found = made([*copies, *sessions])
    assert {path: places_of_secrets(marked(text.encode())) for path, text in found.items()} == {
        path: [] for path in found
    }
    key = "AKIAQ7SJ2XWPL5" + "NHT3VG"
    listing = made([Content(f"sessions/2026/11/21/{key}.md", "x", key, Level.SESSION, True, AT)])
    assert len(places_of_secrets(listing["sessions/index.md"].encode())) == 1


def test_the_name_of_a_project_over_its_memories_is_no_secret() -> None:
    key = "AKIAQ7SJ2XWPL5" + "NHT3VG"
    titles = ("API", "The API key and endpoint", "Password", "Token", "Secrets of the deployment")
    names = [f"{words}-{_hex(words)}" for words in ("improve-status-cmd-output", "rotate-x9-keys", "auth_2.0")]
    for name in names:
        contents = [
            Content(f"projects/{name}/{n}.md", title, name, level, True, AT)
            for n, title in enumerate(titles)
            for level in (Level.PROFILE, Level.FACT)
        ]
        found = made(contents)
        assert f"\n## {name}\n\n### Profile\n" in found["index.md"]
        for path, text in found.items():
            for listing in (text, *(text.replace(f"[{title}]", "[x]") for title in titles)):
                assert places_of_secrets(marked(listing.encode())) == [], path
            leaky = re.sub(rf"^(##? ){name}$", rf"\g<1>{key}-{_hex(name)}", text, flags=re.MULTILINE)
            assert bool(places_of_secrets(leaky.encode())) == (leaky != text), path


def _hex(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:6]


def _digest(number: int) -> str:
    return base64.b32encode(sha256(b"%d" % number).digest()).decode()
