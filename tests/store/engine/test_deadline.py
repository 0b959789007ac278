from __future__ import annotations

import threading
import time

import apsw
import pytest
from dreamd.store.engine.database import STEPS, lifted, obey, within
from dreamd.store.model import StoreBusy

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
LONG = f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {2 * STEPS}) SELECT max(x) FROM n"
"""Some ten looks at the clock."""


@pytest.fixture
def connection() -> apsw.Connection:
    return obey(apsw.Connection(":memory:"))


def test_a_statement_is_ended_at_its_deadline_and_the_connection_lives(connection: apsw.Connection) -> None:
    with pytest.raises(StoreBusy, match="too long") as caught, within(0.01):
        connection.execute(ENDLESS).fetchall()
    assert caught.value.hint
    assert connection.execute(LONG).fetchall() == [(2 * STEPS,)]


def test_a_transaction_that_ran_out_of_time_can_be_rolled_back(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE kept (x)")
    connection.execute("BEGIN")
    with pytest.raises(StoreBusy), within(0.01):
        connection.execute(ENDLESS).fetchall()
    connection.execute("ROLLBACK")
    assert not connection.in_transaction


@pytest.mark.parametrize(("outer_s", "inner_s"), [(0.01, 60.0), (60.0, 0.01)])
def test_the_nearer_of_two_deadlines_counts(connection: apsw.Connection, outer_s: float, inner_s: float) -> None:
    began = time.monotonic()
    with pytest.raises(StoreBusy), within(outer_s), within(inner_s):
        connection.execute(ENDLESS).fetchall()
    assert time.monotonic() - began < 30


def test_what_has_its_deadline_lifted_finishes(connection: apsw.Connection) -> None:
    with within(0.0):
        with lifted():
            assert connection.execute(LONG).fetchall() == [(2 * STEPS,)]
        with pytest.raises(apsw.InterruptError):
            connection.execute(LONG).fetchall()


def test_each_thread_has_a_deadline_of_its_own(connection: apsw.Connection) -> None:
    found: list[object] = []

    def ask() -> None:
        found.append(obey(apsw.Connection(":memory:")).execute(LONG).fetchall())

    with within(0.0):
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join()
    assert found == [[(2 * STEPS,)]]
