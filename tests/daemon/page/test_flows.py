"""Ways of a person through the page, in a browser, against one real daemon: what they see, judge and mend.

The browser is Debian's Chromium; without one these tests are skipped. No flow asks anything but the page.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.daemon.page.test_door import HOSTILE
from tests.system.waiting import until

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt-get install chromium"),
]
SHOP = "shop-0a1b2c"
TALK = (
    ("2026-09-07", "Bookings are kept in SQLite."),
    ("2026-09-08", "We chose PostgreSQL for the orders service because of its constraints."),
    ("2026-09-09", "Please answer in English, always, also where I write German."),
    ("2026-09-10", "Bookings are now kept in Postgres 16, not in SQLite."),
    ("2026-09-11", "The port of the shop is 8443."),
    ("2026-09-14", "Ines takes the on-call rota from Monday on."),
)
PLACES: tuple[str, ...] = ("/", "/search?q=bookings", "/projects", f"/project/{SHOP}", f"/timeline?channel={SHOP}")
PLACES += ("/memories", "/sessions", "/session/talk-2", "/review", "/runs", "/digest", "/told", "/purge")
PLACES += ("/health?check=1", "/things", "/thing/Mirela%20Costa")


@pytest.fixture(scope="module", autouse=True)
def shop(daemon: DaemonUnderTest) -> DaemonUnderTest:
    """Give the daemon some sessions, a dream over them, and hostile texts among them."""
    for number, (day, text) in enumerate(TALK):
        at = f"{day}T10:00:00+00:00"
        turns = [
            {"role": "user", "text": text, "at": at},
            {"role": "assistant", "text": "[Bash: make test]", "at": at},
            {"role": "tool", "text": "[Bash result]\n3 passed", "at": at},
            {"role": "assistant", "text": "Noted: **three** tests pass in `make test`.", "at": at},
        ]
        session = {"session_id": f"talk-{number}", "channel": SHOP, "title": text, "started_at": at}
        daemon.call("observe", session=session, turns=turns)
    hostile = [{"role": "user", "text": text, "at": "2026-09-15T10:00:00+00:00"} for text in HOSTILE]
    daemon.call("observe", session={"session_id": "hostile", "channel": "evil", "title": HOSTILE[0]}, turns=hostile)
    for text in HOSTILE:
        daemon.call("remember", text=text, channel="evil")
    for name, other in (("Mirela Costa", "Label Kiosk"), ("Label Kiosk", "Depot Nord"), ("Mirchen", "Depot Nord")):
        write_page(daemon, name, "person" if "Mir" in name else "service", other)
    write_page(daemon, "Depot Nord", "place", "")
    daemon.call("list")
    daemon.call("dream", wait=True)
    daemon.call("list")
    return daemon


def write_page(daemon: DaemonUnderTest, name: str, kind: str, uses: str) -> None:
    """Write the page of a person or a thing by hand, as a dream would."""
    file = daemon.folder / "data" / "vault" / "people" / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    uses_it = {"title": "talk-0#1", "subject": name, "relation": "USES", "object": uses, "words": "It was said so."}
    keys: dict[str, Any] = {"title": name, "type": "Entity", "kind": "entity", "level": "L3", "channel": SHOP}
    keys |= {"node_id": f"page-{name.replace(' ', '-').lower()}", "entity": kind, "aliases": []}
    keys |= {"relations": [uses_it] if uses else []}
    lines = [f"{key}: {json.dumps(value)}" for key, value in keys.items()]
    file.write_text("\n".join(["---", *lines, "---", "", f"# {name}", ""]))
    until(lambda: daemon.call("about", name=name, channel=SHOP)["entities"])


@pytest.fixture(scope="module")
def elsewhere() -> list[str]:
    """Give the addresses that the browser asked for beside the page's own, and what ran that should not."""
    return []


@pytest.fixture(scope="module")
def browser_page(daemon: DaemonUnderTest, elsewhere: list[str]) -> Iterator[Page]:
    """Give a browser that is in."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        own = enter(daemon).partition("/?")[0]
        context = browser.new_context(viewport={"width": 1200, "height": 900}, base_url=own)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("request", lambda asked: None if asked.url.startswith(f"{own}/") else elsewhere.append(asked.url))
        page.on("pageerror", lambda error: elsewhere.append(f"error: {error}"))
        page.on("dialog", lambda dialog: elsewhere.append(f"dialog: {dialog.message}"))
        page.on("console", lambda line: elsewhere.append(line.text) if "Content Security" in line.text else None)
        page.goto(enter(daemon))
        yield page
        browser.close()


@pytest.fixture
def page(browser_page: Page) -> Page:
    """Give the page as a new flow finds it."""
    browser_page.set_viewport_size({"width": 1200, "height": 900})
    browser_page.goto("/told")  # the place that costs least
    return browser_page


def enter(daemon: DaemonUnderTest, at: str = "/") -> str:
    url: str = daemon.call("page_open", at=at)["url"]
    return url


def kept(daemon: DaemonUnderTest, text: str, **more: Any) -> str:
    node_id: str = daemon.call("remember", text=text, channel=SHOP, **more)["node_id"]
    daemon.call("list")
    return node_id


def said(page: Page, words: str | re.Pattern[str]) -> None:
    """Wait for the message after an act, which a screen reader hears and the focus is on."""
    message = page.locator("#said")
    expect(message).to_have_attribute("role", "status")
    expect(message.locator(".said")).to_contain_text(words)


def heading(page: Page) -> str:
    return page.locator("main h1").inner_text()


# ---- see it


def test_it_opens_at_today(page: Page) -> None:
    page.goto("/")
    expect(page).to_have_title("Today · dreamd")
    assert "token" not in page.url
    for name in ("To decide", "Dates ahead", "Last sessions", "Learned last", "What agents were given"):
        expect(page.get_by_role("heading", name=name)).to_be_visible()


def test_the_digest_is_read_whole(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="The whole digest").click()
    expect(page.locator("main")).to_contain_text("new turns became")
    expect(page.get_by_role("heading", name="Numbers")).to_be_visible()
    page.locator("main .body a", has_text="Postgres 16").first.click()
    expect(page.locator("article .body")).to_contain_text("Bookings are now kept in Postgres 16")


def test_a_search_answers_while_it_is_typed(page: Page) -> None:
    page.goto("/search")
    page.keyboard.type("port of the shop", delay=5)
    expect(page.locator(".hit").first).to_contain_text("8443")
    page.wait_for_url(re.compile(r"q=port\+of\+the\+shop"))
    page.keyboard.press("ArrowDown")  # out of the box, to the first hit
    assert page.evaluate("document.activeElement.closest('.hit') !== null")
    page.keyboard.press("j")
    expect(page.locator(".hit.here")).to_have_count(1)


def test_a_search_says_why_each_was_found(page: Page) -> None:
    page.goto("/search?q=bookings")
    first = page.locator(".hit").first
    first.get_by_text("Why it was found").click()
    expect(first.locator(".why p").first).to_contain_text("By the words you used it is hit number")


def test_a_search_is_narrowed_by_kind_and_project(page: Page) -> None:
    page.goto("/search?q=bookings")
    page.get_by_label("Kind").select_option("turn")
    expect(page.locator(".hit .kind").first).to_have_text("said")
    expect(page.locator(".hit .kind").first).to_have_attribute("title", re.compile("as it was said"))
    page.get_by_label("Project").select_option("evil")
    expect(page.locator("#hits")).not_to_contain_text("SQLite")


def test_a_search_goes_back_in_time(page: Page) -> None:
    page.goto("/search?q=bookings")
    expect(page.locator("#hits")).to_contain_text("Postgres 16")
    page.get_by_label("What held on").fill("2026-09-08")
    expect(page.locator("#hits")).not_to_contain_text("Postgres 16")
    expect(page.locator("#hits")).to_contain_text("SQLite")


def test_a_search_without_an_answer_says_so(page: Page) -> None:
    page.goto("/search?q=zxqv")
    expect(page.locator("#hits")).to_contain_text("Nothing that is remembered answers this")


def test_weak_hits_are_folded_below_the_word_that_nothing_answers(page: Page) -> None:
    page.goto("/search?q=" + "how+warm+is+the+greenhouse+in+winter")
    expect(page.locator("#hits")).to_contain_text("Nothing that is remembered answers this")
    expect(page.locator(".hit:visible")).to_have_count(0)
    page.get_by_text("hardly an answer").click()
    expect(page.locator(".hit").first).to_be_visible()


def test_the_search_of_every_page_leads_to_the_same(page: Page) -> None:
    page.get_by_role("searchbox").fill("on-call rota")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_contain_text("Ines")


def test_a_project_in_a_few_lines(page: Page) -> None:
    page.get_by_role("link", name="Projects", exact=True).click()
    page.get_by_role("link", name="shop", exact=True).click()
    assert heading(page) == "shop"
    for name in ("Decided", "Open threads", "Last sessions"):
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.locator("main")).to_contain_text("Postgres 16")


def test_a_project_shows_what_its_agents_start_with_and_nothing_that_is_only_asked(
    page: Page, daemon: DaemonUnderTest
) -> None:
    kept(daemon, "Do we need the note in the read-me at all then?", kind="decision")
    kept(daemon, "can you review the added tests?", kind="preference")
    kept(daemon, "Labels are always printed in English.", kind="preference")
    page.goto(f"/project/{SHOP}")
    lines = page.locator("[data-load] ul.lines li")
    expect(lines.filter(has_text="Labels are always printed")).to_have_count(1)
    brief = daemon.call("brief", channel=SHOP)
    assert lines.count() == sum(len(section["lines"]) for section in brief["sections"])
    for asked in ("Do we need the note", "review the added tests"):
        assert asked not in brief["text"]
        expect(page.locator("main")).not_to_contain_text(asked)
    lines.filter(has_text="Labels are always printed").get_by_role("link").click()
    expect(page.locator("article .body")).to_have_text("Labels are always printed in English.")


def test_the_slider_of_the_timeline_shows_what_held_then(page: Page) -> None:
    page.goto(f"/timeline?channel={SHOP}")
    expect(page.locator("#held")).to_contain_text("Postgres 16")
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator("#held")).not_to_contain_text("Postgres 16")
    expect(page.locator("#held")).to_contain_text("Bookings are kept in SQLite.")
    assert "at=2026-09-07" in page.url


def test_the_timeline_says_until_when_a_thing_held(page: Page) -> None:
    page.goto(f"/timeline?channel={SHOP}&at=2026-09-08")
    expect(page.locator(".row", has_text="Bookings are kept in SQLite.")).to_contain_text("until 10 Sep")


def test_memories_are_listed_by_kind(page: Page) -> None:
    page.goto("/memories")
    page.get_by_label("Project").first.select_option(SHOP)
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main .row").first).to_be_visible()
    assert "evil" not in page.locator("main ul.rows").inner_text()


def test_a_fact_leads_to_where_it_was_said(page: Page) -> None:
    page.goto(f"/memories?channel={SHOP}")
    page.get_by_role("link", name="The port of the shop is 8443.").click()
    page.get_by_role("heading", name="Where it was said").scroll_into_view_if_needed()
    page.locator("section", has_text="Where it was said").locator("a.what").first.click()
    expect(page.locator(".turn.wanted")).to_contain_text("8443")


def test_a_session_is_read_as_a_conversation(page: Page) -> None:
    page.goto("/sessions")
    page.get_by_role("link", name="The port of the shop is 8443.").click()
    expect(page.locator(".turn.mine")).to_contain_text("8443")
    expect(page.locator(".turn.theirs strong")).to_have_text("three")
    step = page.locator(".steps details")
    expect(step.locator("pre").first).to_be_hidden()
    step.locator("summary").click()
    expect(step.locator("pre").last).to_contain_text("3 passed")


def test_a_turn_leads_to_what_is_known_from_it_and_is_taken_back_by_itself(page: Page) -> None:
    page.goto("/session/talk-4?turn=1#t1")
    turn = page.locator("#t1")
    expect(turn).to_contain_text("Known from it")
    turn.get_by_role("button", name="Forget this turn").click()
    said(page, "It is forgotten.")
    page.locator("#said").get_by_role("button", name="Undo").click()
    said(page, "Undone")
    page.goto("/search?q=port+of+the+shop")
    expect(page.locator(".hit").first).to_contain_text("8443")


def test_what_agents_were_told(page: Page, daemon: DaemonUnderTest) -> None:
    daemon.call("context", query="which port has the shop?", channel=SHOP, agent_id="claude-code", session="asking")
    page.goto("/told")
    expect(page.locator("main")).to_contain_text("claude-code")
    expect(page.locator("main")).to_contain_text("8443")


def test_health_tells_the_state_and_looks_at_every_file(page: Page) -> None:
    page.goto("/health")
    expect(page.locator("main")).to_contain_text("stub")
    expect(page.locator("main")).to_contain_text("Looked at and well: settings")
    page.get_by_role("link", name="Look at every file").click()
    expect(page.locator("main")).to_contain_text("Every file was looked at just now")


# ---- mend it


def test_something_is_remembered(page: Page, daemon: DaemonUnderTest) -> None:
    page.goto("/memories")
    page.get_by_text("Remember something").click()
    page.get_by_label("What is to be remembered").fill("The marmalade recipe needs nine lemons.")
    page.locator(".keep").get_by_label("Project").select_option("_global")
    page.get_by_role("button", name="Remember").click()
    said(page, "Remembered, in everywhere.")
    page.get_by_role("link", name="Show it").click()
    expect(page.locator("article")).to_contain_text("nine lemons")


def test_a_secret_is_left_out_of_what_is_remembered(page: Page) -> None:
    page.goto("/memories")
    page.get_by_text("Remember something").click()
    page.get_by_label("What is to be remembered").fill("The old key was AKIAIOSFODNN7EXAMPLE, of the AWS account.")
    page.get_by_role("button", name="Remember").click()
    said(page, "1 secret left out of it")


def test_a_value_is_corrected(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The warehouse has 12 docks.")
    page.goto(f"/memory/{node_id}")
    page.get_by_text("Change it").click()
    page.get_by_label("Text").fill("The warehouse has 14 docks.")
    page.get_by_label("Kind").select_option("fact")
    page.get_by_role("button", name="Save").click()
    said(page, "It is changed.")
    expect(page.locator("article .body")).to_have_text("The warehouse has 14 docks.")
    page.locator("#said").get_by_role("button", name="Undo").click()
    expect(page.locator("article .body")).to_have_text("The warehouse has 12 docks.")


def test_a_change_that_somebody_else_made_meanwhile_is_not_overwritten(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The lift carries 400 kg.")
    page.goto(f"/memory/{node_id}")
    page.get_by_text("Change it").click()
    daemon.call("edit", node_id=node_id, text="The lift carries 500 kg.")
    page.get_by_label("Text").fill("The lift carries 600 kg.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".said.bad")).to_be_visible()
    expect(page.locator("article .body")).to_have_text("The lift carries 500 kg.")


def test_a_memory_is_told_always_and_no_longer(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "Never deploy on a Friday.", kind="preference")
    page.goto(f"/memory/{node_id}")
    page.get_by_role("button", name="Pin it").click()
    expect(page.locator("article .pin")).to_have_text("pinned: agents always get it")
    page.goto("/told")
    expect(page.locator("section", has_text="What you pinned")).to_contain_text("Never deploy on a Friday.")
    page.goto(f"/project/{SHOP}")
    expect(page.locator("section", has_text="Always").locator(".row", has_text="Friday")).to_contain_text("pinned")
    page.goto("/memories?always=1")
    expect(page.locator("main ul.rows")).to_contain_text("Never deploy on a Friday.")
    page.goto(f"/memory/{node_id}")
    page.get_by_role("button", name="Unpin it").click()
    expect(page.locator("article .pin")).to_have_count(0)


def test_tags_come_and_go(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The gate code changes on Mondays.")
    page.goto(f"/memory/{node_id}")
    page.locator("summary", has_text="Tags").click()
    page.get_by_label("Add, between commas").fill("gate, weekly")
    page.get_by_role("button", name="Change tags").click()
    expect(page.locator(".tags")).to_have_text(re.compile(r"#gate\s*#weekly"))
    page.locator("summary", has_text="Tags").click()
    page.get_by_label("take #gate away").check()
    page.get_by_role("button", name="Change tags").click()
    expect(page.locator(".tags")).to_have_text("#weekly")


def test_a_memory_is_forgotten_and_comes_back_by_undo(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The alarm is tested at nine.")
    page.goto(f"/memory/{node_id}")
    page.get_by_role("button", name="Forget").click()
    said(page, "It is forgotten.")
    page.locator("#said").get_by_role("button", name="Undo").click()
    said(page, "Undone")
    page.goto(f"/memory/{node_id}")
    expect(page.locator("article .body")).to_have_text("The alarm is tested at nine.")


def test_a_memory_tells_its_history_and_one_change_of_it_is_undone(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The bell rings at seven.")
    daemon.call("edit", node_id=node_id, text="The bell rings at eight.")
    daemon.call("list")
    page.goto(f"/memory/{node_id}")
    change = page.locator("section", has_text="Its history").locator(".row", has_text="edited")
    change.get_by_role("button", name="Undo only this").click()
    said(page, "Undone")
    expect(page.locator("article .body")).to_have_text("The bell rings at seven.")


def test_a_project_is_handed_over(page: Page, tmp_path: Path) -> None:
    page.goto(f"/project/{SHOP}")
    page.get_by_label("New file on this machine").fill(str(tmp_path / "shop.html"))
    page.get_by_role("button", name="Write it").click()
    said(page, "Written:")
    assert "PostgreSQL for the orders service" in (tmp_path / "shop.html").read_text()
    page.locator("#said").get_by_role("link", name="Show it").click()
    assert heading(page) == "shop.html"
    expect(page.locator("article")).to_contain_text("PostgreSQL for the orders service")


def test_the_memory_is_backed_up(page: Page, tmp_path: Path) -> None:
    page.goto("/health")
    page.get_by_label("New file, or a folder").fill(str(tmp_path / "memory.dreamd"))
    page.get_by_role("button", name="Back up").click()
    said(page, "and read back")
    assert (tmp_path / "memory.dreamd").stat().st_size > 1000


def test_a_message_is_not_said_twice(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The roof was mended in May.")
    page.goto(f"/memory/{node_id}")
    page.get_by_role("button", name="A good answer", exact=True).click()
    said(page, "Noted.")
    assert page.evaluate("document.activeElement.className") == "said"
    assert "said=" not in page.url
    page.reload()
    expect(page.locator(".said")).to_have_count(0)


def test_a_thread_is_closed(page: Page, daemon: DaemonUnderTest) -> None:
    daemon.call("goal_set", session="threads", text="the labels are printed", channel=SHOP)
    daemon.call("session_end", session="threads")
    page.goto(f"/project/{SHOP}")
    row = page.locator(".row", has_text="the labels are printed")
    row.get_by_role("button", name="Done").click()
    said(page, "Closed: the labels are printed")
    expect(page.locator(".row", has_text="the labels are printed")).to_have_count(0)


# ---- judge it


def dispute(daemon: DaemonUnderTest, older: str, newer: str) -> str:
    """Have two memories contradict each other, and return the id of the decision."""
    one, other = kept(daemon, older), kept(daemon, newer)
    daemon.call("link", **{"from": other, "to": one, "relation": "Contradicts"})
    waiting = until(
        lambda: [
            each
            for each in daemon.call("review_list")["decisions"]
            if {each["older"]["node_id"], each["newer"]["node_id"]} == {one, other}
        ]
    )
    decision: str = waiting[0]["decision_id"]
    return decision


def test_two_that_disagree_stand_side_by_side_and_the_newer_is_chosen_by_a_key(
    page: Page, daemon: DaemonUnderTest
) -> None:
    decision = dispute(daemon, "The kiln is fired at 1200 degrees.", "The kiln is fired at 1250 degrees.")
    page.goto("/review")
    pair = page.locator(f"#d{decision}")
    older, newer = pair.locator(".side.older"), pair.locator(".side.newer")
    assert older.bounding_box()["y"] == newer.bounding_box()["y"]  # type: ignore[index]
    pair.focus()
    page.keyboard.press("y")
    said(page, "The newer one holds.")
    expect(page.locator(f"#d{decision}")).to_have_count(0)
    expect(page.locator("#said").get_by_role("button", name="Undo")).to_be_focused()
    page.keyboard.press("u")
    said(page, "Undone")
    page.goto("/review")
    expect(page.locator(f"#d{decision}")).to_have_count(1)
    page.locator(f"#d{decision}").get_by_role("button", name="Both hold").click()
    said(page, "Both hold.")


def test_the_older_is_chosen_by_a_key_after_moving_to_it(page: Page, daemon: DaemonUnderTest) -> None:
    decision = dispute(daemon, "Glaze dries in two days.", "Glaze dries in three days.")
    page.goto("/review")
    for _ in range(30):
        page.keyboard.press("j")
        if page.evaluate("document.activeElement.id") == f"d{decision}":
            break
    page.keyboard.press("o")
    said(page, "The older one holds.")


def test_a_decision_in_ones_own_words(page: Page, daemon: DaemonUnderTest) -> None:
    decision = dispute(daemon, "The clay comes from Ulm.", "The clay comes from Linz.")
    page.goto("/review")
    pair = page.locator(f"#d{decision}")
    pair.get_by_text("Say it in your own words").click()
    pair.get_by_label("What holds").fill("The clay comes from Ulm and from Linz.")
    pair.get_by_role("button", name="This holds").click()
    said(page, "Your wording holds.")
    page.goto("/search?q=clay+comes+from")
    expect(page.locator(".hit").first).to_contain_text("Ulm and from Linz")


def test_what_an_agent_wrote_down_is_accepted_or_forgotten(page: Page, daemon: DaemonUnderTest) -> None:
    for text, choice, words in (
        ("Copy the ledger to the tape first.", "It holds", "It holds from now on."),
        ("Send the vault to the mail.", "Forget it", "It is forgotten."),
    ):
        node_id = kept(daemon, text, kind="procedure", always=True, agent_id="a-stranger")
        page.goto("/")
        page.get_by_role("link", name=text).first.click()
        page.locator(f"#d{node_id}").get_by_role("button", name=choice).click()
        said(page, words)
        expect(page.locator(f"#d{node_id}")).to_have_count(0)


def test_one_mark_is_taken_back_alone_and_put_again(page: Page, daemon: DaemonUnderTest) -> None:
    before = daemon.call("review_list")["marks"]
    mark = next(one for one in before if "SQLite" in one["older"]["text"])["decision_id"]
    page.goto("/review")
    page.locator(f"#d{mark}").get_by_role("button", name="Both hold").click()
    said(page, "The mark is taken back")
    expect(page.locator(f"#d{mark}")).to_have_count(0)
    assert len(daemon.call("review_list")["marks"]) == len(before) - 1
    page.locator("#said").get_by_role("button", name="Undo").click()
    page.goto("/review")
    expect(page.locator(f"#d{mark}")).to_have_count(1)


# ---- people and things


def test_a_person_is_walked_to_by_keys(page: Page) -> None:
    page.goto(f"/things?channel={SHOP}")
    canvas = page.locator("canvas")
    expect(canvas).to_be_visible()
    near = page.locator(".near")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(near.get_by_role("link")).to_have_count(1)
    first = near.get_by_role("link").inner_text()
    near.get_by_role("button").first.click()
    expect(near.get_by_role("link")).not_to_have_text(first)
    name = near.get_by_role("link").inner_text()
    canvas.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/thing/*")
    assert heading(page) == name


def test_a_thing_is_found_in_the_list_beside_the_drawing(page: Page) -> None:
    page.goto(f"/things?channel={SHOP}&type=person")
    page.locator("ul.rows").get_by_role("link", name="Mirela Costa").click()
    assert heading(page) == "Mirela Costa"
    expect(page.get_by_role("heading", name="Relations")).to_be_visible()
    page.get_by_role("link", name="Label Kiosk").first.click()
    assert heading(page) == "Label Kiosk"


def test_a_name_without_a_page_is_shown_by_what_was_said_of_it(page: Page, daemon: DaemonUnderTest) -> None:
    turns = [{"role": "user", "text": "Ottokar rents us the hall by the harbour."}]
    daemon.call("observe", session={"session_id": "talk-hall", "channel": SHOP}, turns=turns)
    daemon.call("list")
    page.goto("/thing/Ottokar")
    assert heading(page) == "Ottokar"
    expect(page.locator("main")).to_contain_text("rents us the hall")
    expect(page.get_by_role("heading", name="Mend it")).to_have_count(0)


def test_two_pages_of_one_person_become_one(page: Page) -> None:
    page.goto("/thing/Mirela%20Costa")
    page.get_by_text("Names, and the file of the page, in shop").click()
    page.get_by_label("Is the same person or thing as").fill("Mirchen")
    page.get_by_role("button", name="Join the two").click()
    said(page, "Mirchen is Mirela Costa from now on.")
    expect(page.locator("main")).to_contain_text("also Mirchen")
    page.get_by_text("Names, and the file of the page, in shop").click()
    page.get_by_role("checkbox", name="Mirchen").check()
    page.get_by_role("button", name="These names are of someone").click()
    said(page, "Mirchen is another now.")
    assert heading(page) == "Mirela Costa"


def test_a_relation_that_is_not_so_goes_and_comes_back(page: Page) -> None:
    page.goto("/thing/Mirela%20Costa")
    page.get_by_role("button", name="Not so: Mirela Costa uses Label Kiosk").click()
    said(page, "Taken off: Mirela Costa uses Label Kiosk.")
    expect(page.locator("main")).not_to_contain_text("It was said so.")
    page.locator("#said").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="Relations")).to_be_visible()


# ---- runs


def test_a_run_is_undone_whole(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The cellar is damp.")
    gone = daemon.call("forget", node_id=node_id)["run_id"]
    page.goto("/runs")
    page.locator(f"[id='r{gone}']").get_by_role("link", name="Undo: Forgot “The cellar is damp").click()
    expect(page.locator(".card", has_text="Undo it?")).to_contain_text("This takes back 1 change")
    page.get_by_role("button", name="Undo", exact=True).click()
    said(page, "Undone: Forgot “The cellar is damp")
    expect(page.locator("main")).to_contain_text("Undone")
    assert daemon.call("show", node_id=node_id)["live"]


def test_a_run_is_named_by_what_it_did_and_shows_the_words_that_changed(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The night watch has the key of the north door and looks at it every hour.")
    run_id = daemon.call("edit", node_id=node_id, text="The night watch has the key of the south door.")["run_id"]
    page.goto("/runs")
    page.locator(f"[id='r{run_id}'] a.what").click()
    assert heading(page) == "Changed “The night watch has the key of the south door”"
    change = page.locator(".difference").first
    expect(change.locator("del").first).to_have_text("north")
    expect(change.locator("ins").first).to_have_text("south")
    expect(page.locator("main")).not_to_contain_text(node_id)


def test_what_a_dream_did_is_undone_in_part_and_done_again(page: Page, daemon: DaemonUnderTest) -> None:
    dream = daemon.call("runs", kind="daily")["runs"][-1]["run_id"]
    page.goto("/runs")
    page.locator(f"[id='r{dream}'] a.what").click()
    for group in page.locator("details.group summary").all():
        group.click()
    change = page.locator(".change", has_text="Ines takes the on-call rota").first
    change.get_by_role("button", name="Undo only this change").click()
    said(page, "Undone: “Ines takes the on-call rota")
    change = page.locator(".change.over", has_text="Ines takes the on-call rota").first
    expect(change).to_be_in_viewport()
    expect(change).to_contain_text("undone")
    expect(page.locator(".change:not(.over)", has_text="The port of the shop").first).to_be_visible()
    change.get_by_role("button", name="Apply this change again").click()
    said(page, "Applied again: “Ines takes")


def test_an_undo_is_taken_back_from_its_message(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The boiler is checked in October.")
    gone = daemon.call("forget", node_id=node_id)["run_id"]
    page.goto(f"/run/{gone}")
    page.get_by_role("link", name="Undo it …").click()
    page.get_by_role("button", name="Undo", exact=True).click()
    said(page, "Undone")
    page.keyboard.press("u")
    said(page, "Applied again")
    page.goto(f"/memory/{node_id}")
    assert "Take the undo back" not in page.locator("main").inner_text()


def test_a_dream_is_begun_and_cancelled(page: Page, daemon: DaemonUnderTest) -> None:
    page.goto("/runs")
    page.get_by_role("button", name="Dream now").click()
    said(page, "A dream has begun.")
    expect(page.get_by_role("heading", name="A daily dream is under way")).to_be_visible()
    assert "<p>" in page.evaluate("fetch('/dream').then((answer) => answer.text())")  # what the page follows
    page.get_by_role("button", name="Cancel it").click()
    said(page, "The dream is cancelled; nothing was changed.")
    assert daemon.call("status")["dream"] is None


def test_learning_is_paused_and_goes_on(page: Page) -> None:
    page.goto("/health")
    page.get_by_role("button", name="Pause all learning").click()
    said(page, "Learning is paused.")
    page.get_by_role("button", name="Learn again").first.click()
    said(page, "Learning goes on.")


def test_learning_is_off_in_one_project(page: Page, daemon: DaemonUnderTest) -> None:
    page.goto("/health")
    page.get_by_role("button", name="Stop learning in shop").click()
    said(page, "Learning in shop is off.")
    assert daemon.call("status")["channels_off"] == [SHOP]
    page.get_by_role("button", name="Learn again in shop").click()
    said(page, "Learning in shop is on.")


# ---- erase it


def test_a_purge_shows_what_it_takes_and_waits_for_a_tick(page: Page, daemon: DaemonUnderTest) -> None:
    node_id = kept(daemon, "The locker holds the quixotic zebra.")
    page.goto(f"/memory/{node_id}")
    page.get_by_role("link", name="Erase for good").click()
    expect(page.locator("main")).to_contain_text("1 memory")
    expect(page.locator("main")).to_contain_text("quixotic zebra")
    page.get_by_role("button", name="Erase for good").click()  # the browser asks for the tick
    assert "/purge" in page.url
    assert daemon.call("show", node_id=node_id)["live"]
    page.get_by_role("link", name="Keep it").click()
    assert f"/memory/{node_id}" in page.url
    page.get_by_role("link", name="Erase for good").click()
    page.get_by_label("I have read what goes").check()
    page.get_by_role("button", name="Erase for good").click()
    said(page, "Erased for good: “The locker holds the quixotic zebra.” (1 memory).")
    page.goto("/search?q=quixotic+zebra")
    expect(page.locator("#hits")).not_to_contain_text("quixotic")


def test_a_hit_is_erased_from_where_it_was_found(page: Page, daemon: DaemonUnderTest) -> None:
    kept(daemon, "The tangerine crate is kept below the stairs.")
    page.goto("/search?q=tangerine+crate+below+the+stairs")
    hit = page.locator(".hit", has_text="tangerine")
    hit.get_by_text("Why it was found").click()
    hit.get_by_role("link", name="Erase it for good").click()
    goes = page.locator(".card", has_text="This would go")
    expect(goes.locator(".row", has_text="tangerine")).to_contain_text("shop")
    page.get_by_label("I have read what goes").check()
    page.get_by_role("button", name="Erase for good").click()
    said(page, "Erased for good")
    assert "/search?q=tangerine" in page.url


def test_all_texts_with_some_words_are_erased(page: Page, daemon: DaemonUnderTest) -> None:
    kept(daemon, "The flibbertigibbet lives next door.")
    page.goto("/health")
    page.get_by_role("link", name="Erase texts for good").click()
    page.get_by_label("Erase every text with these words").fill("flibbertigibbet")
    page.get_by_role("button", name="Show what would go").click()
    page.get_by_label("I have read what goes").check()
    page.get_by_role("button", name="Erase for good").click()
    said(page, "Erased for good")
    assert not daemon.call("recall", query="flibbertigibbet", channel="*")["hits"]


# ---- every hand and eye


def test_the_keys_lead_everywhere(page: Page) -> None:
    for key, path in (("r", "/review"), ("h", "/health"), ("p", "/projects"), ("t", "/")):
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(re.compile(rf"127\.0\.0\.1:\d+{path}$"))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_list_is_walked_and_opened_by_keys(page: Page) -> None:
    page.goto("/sessions")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url("**/session/*")


def test_the_content_is_one_key_away(page: Page) -> None:
    page.keyboard.press("Tab")
    # By the element: a browser in the background says of none that it is focused.
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


@pytest.mark.parametrize("place", PLACES)
def test_it_fits_a_phone_and_breaks_no_rule_of_accessibility(page: Page, place: str) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(place)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    # Only the colours differ in the dark.
    rules: dict[Literal["light", "dark"], dict[str, Any]] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
    for scheme, options in rules.items():
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in serious] == []
    page.emulate_media(color_scheme="light")


def test_it_works_without_scripts(daemon: DaemonUnderTest, browser_page: Page) -> None:
    browser = browser_page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(enter(daemon, "/search"))
    page.get_by_role("searchbox").fill("port of the shop")
    page.keyboard.press("Enter")
    expect(page.locator(".hit").first).to_contain_text("8443")
    context.close()


def test_a_link_of_a_file_brings_the_browser_in(daemon: DaemonUnderTest, browser_page: Page, tmp_path: Path) -> None:
    browser = browser_page.context.browser
    assert browser is not None
    context = browser.new_context()
    page = context.new_page()
    file = tmp_path / "digest.html"
    file.write_text(f'<a href="{enter(daemon, "/review")}">review</a>')
    page.goto(file.as_uri())
    page.get_by_role("link").click()
    page.wait_for_url("**/review")
    assert heading(page) == "Review"
    context.close()


def test_a_closed_page_says_so(daemon: DaemonUnderTest, browser_page: Page) -> None:
    browser = browser_page.context.browser
    assert browser is not None
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    page.goto(enter(daemon))
    page.route("**/alive", lambda route: route.abort())
    page.clock.fast_forward("11:00")
    expect(page.locator("#gone")).to_be_visible()
    context.close()


def test_nothing_ran_and_nothing_was_asked_elsewhere(page: Page, elsewhere: list[str]) -> None:
    for place in (
        "/project/evil",
        "/memories?channel=evil",
        "/search?q=script",
        "/session/hostile",
        "/timeline?channel=evil",
    ):
        page.goto(place)
        assert "run" not in page.title().split()
        page.mouse.move(400, 400)
    assert elsewhere == []
