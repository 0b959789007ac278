"""The memories that an act recalls, over a real store: its sessions are observed as programs write them."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from dreamd.store.memory import MemoryStore
from dreamd.store.model import Kind, NewTurn, SessionHead
from dreamd.store.results import ToldText

from tests.store.conftest import NOW
from tests.system.waiting import until

CHANNEL = "waybill"
ERROR = 'Exit code 1\nerror: prepared statement "sqlx_s_4" already exists\n  code: 42P05'
AGAIN = 'Exit code 1\nerror: prepared statement "sqlx_s_11" already exists\n  code: 42P05'
CAUSE = "That is pgbouncer in transaction mode: sqlx caches prepared statements per connection, which it swaps."
FIXED = [
    ("assistant", "[Bash: cargo run]"),
    ("tool", f"[Bash failed]\n{ERROR}"),
    ("assistant", CAUSE),
    ("user", "right, chidi put it in front of dev. whats the fix"),
    ("assistant", "Switch off the statement cache: `statement_cache_capacity(0)`."),
    ("assistant", "[Edit /home/t/waybill/src/db.rs]"),
    ("assistant", "[Bash: cargo run]"),
    ("tool", "[Bash result]\nlistening on 8087"),
]


def observe(store: MemoryStore, turns: list[tuple[str, str]], session: str = "first", channel: str = CHANNEL) -> None:
    head = SessionHead(session_id=session, channel=channel)
    said = [NewTurn(role, text, NOW + timedelta(seconds=n), f"{n}") for n, (role, text) in enumerate(turns)]
    store.observe(head, said).result()
    store.settle()


def is_answered(store: MemoryStore, session: str) -> bool:
    return store.told.since(NOW, session)[0].answered


def test_a_known_failure_recalls_its_cause_and_what_helped(store: MemoryStore) -> None:
    observe(store, FIXED)
    cause, end = store.after_failure(CHANNEL, "second", "cargo run --release", AGAIN)
    assert "pgbouncer in transaction mode" in cause.text
    assert cause.node_id == "first#3"
    assert "whats the fix" in end.text
    assert "statement_cache_capacity(0)" in end.text
    assert "gone after the edit of src/db.rs" in end.text


def test_neither_its_own_session_nor_another_project_is_recalled(store: MemoryStore) -> None:
    observe(store, FIXED)
    assert store.after_failure(CHANNEL, "first", "cargo run", AGAIN) == []
    assert store.after_failure("wayfinder", "second", "cargo run", AGAIN) == []


def test_a_failure_without_an_explanation_recalls_nothing(store: MemoryStore) -> None:
    observe(store, [*FIXED[:2], ("assistant", "Let me look at it:"), *FIXED[5:]])
    assert store.after_failure(CHANNEL, "second", "cargo run", AGAIN) == []


WRAPPED = (
    "[Bash failed]\nExit code 1\na.go:9: error returned from external package is unwrapped (wrapcheck)\n\treturn err"
)
EDITED = '[Edit /x/cli/a.go\n- return err\n+ return fmt.Errorf("cannot read: %w", err)]'


def test_the_edit_that_ended_an_error_is_recalled_where_nobody_explained_it(store: MemoryStore) -> None:
    lint = "[Bash: mise run lint]"
    other = "[Edit /x/cli/b.go\n- // old words\n+ // new words]"
    edits = [("assistant", one) for one in (other, EDITED, lint)]
    observe(store, [("assistant", lint), ("tool", WRAPPED), *edits, ("tool", "[Bash result]\n0 issues")])
    [line] = store.after_failure(CHANNEL, "second", "mise run lint", WRAPPED)
    assert line.node_id == "first#4"
    assert "gone after the edit of cli/a.go: “return err” became “return fmt.Errorf" in line.text


def test_the_command_that_was_put_right_is_recalled_for_the_same_program(store: MemoryStore) -> None:
    failed, ran = "[Bash: gh pr diff 88 --stat]", "[Bash: gh pr diff 88 --name-only]"
    error = "[Bash failed]\nExit code 1\nunknown flag: --stat"
    observe(store, [("assistant", failed), ("tool", error), ("assistant", ran), ("tool", "[Bash result]\na.go")])
    [line] = store.after_failure(CHANNEL, "second", "gh pr diff 104 --stat", error)
    assert "`gh pr diff 88 --name-only` worked" in line.text
    assert store.after_failure(CHANNEL, "second", "git log --stat", error) == []


def test_a_known_error_among_new_ones_says_nothing(store: MemoryStore) -> None:
    observe(store, FIXED)
    new = "\nerror: relation depots does not exist\nerror: cannot connect to the broker"
    assert store.after_failure(CHANNEL, "second", "cargo run", AGAIN + new) == []


def test_an_error_of_many_sessions_says_nothing(store: MemoryStore) -> None:
    for number in range(7):
        observe(store, FIXED, session=f"s{number}")
    assert store.after_failure(CHANNEL, "second", "cargo run", AGAIN) == []


def test_a_forgotten_explanation_is_not_recalled(store: MemoryStore) -> None:
    observe(store, FIXED)
    store.forget("first#3")
    store.settle()
    assert not any("pgbouncer" in line.text for line in store.after_failure(CHANNEL, "second", "cargo run", AGAIN))


def test_a_file_recalls_the_decisions_that_name_it(store: MemoryStore) -> None:
    rule = "Never edit .sqlx/ by hand: those files are generated."
    store.remember(rule, kind=Kind.NEGATIVE, channel=CHANNEL, created_at=NOW).result()
    store.remember("The logo lies in web/logo.svg.", kind=Kind.NOTE, channel=CHANNEL, created_at=NOW).result()
    store.settle()
    [line] = store.before_edit(CHANNEL, "second", "/home/t/waybill/.sqlx/query-1f.json", "{}")
    assert rule in line.text
    assert store.before_edit(CHANNEL, "second", "/home/t/waybill/web/logo.svg", "<svg>") == []  # no kind that guides
    assert store.before_edit(CHANNEL, "second", "/home/t/waybill/src/db.rs", "") == []


def test_a_line_that_never_helped_loses_its_right_to_appear(store: MemoryStore) -> None:
    observe(store, FIXED)
    for number in range(3):
        session = f"other-{number}"
        lines = store.after_failure(CHANNEL, session, "cargo run", AGAIN)
        assert lines
        text = "\n".join(line.text for line in lines)
        named = [(line.text, line.node_id) for line in lines]
        store.told.note(ToldText(NOW, session, CHANNEL, "claude-code", "after", 60), text, nodes=named)
        observe(store, [("assistant", "I look for the logo in the web folder.")], session=session)
        until(partial(is_answered, store, session))
    assert store.after_failure(CHANNEL, "last", "cargo run", AGAIN) == []


def test_a_value_that_was_just_asked_to_change_recalls_its_old_decision_no_more(store: MemoryStore) -> None:
    told = "make it 8 attempts in webhooks.md, 5 is over in ten minutes"
    store.remember(told, kind=Kind.DECISION, channel=CHANNEL, created_at=NOW).result()
    store.settle()
    edit = CHANNEL, "second", "/home/t/waybill/docs/webhooks.md", "Delivery is attempted 8 times.\nattempted 6 times"
    assert store.before_edit(*edit)
    assert store.before_edit(*edit, "chidi cut the attempts down to 6") == []
    assert store.before_edit(*edit, "tidy the docs, 3 people asked")
