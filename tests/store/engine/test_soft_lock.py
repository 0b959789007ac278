"""A lock that is waited for only so long."""

from __future__ import annotations

import threading

from dreamd.store.engine.database import SoftLock

LONG_S = 30.0


def enter(lock: SoftLock) -> threading.Event:
    """Have another thread go in and out again; return what is set when it was inside."""
    entered = threading.Event()

    def go() -> None:
        with lock.held():
            entered.set()

    threading.Thread(target=go, daemon=True).start()
    return entered


def test_threads_go_through_one_at_a_time() -> None:
    lock = SoftLock(LONG_S)
    with lock.held():
        entered = enter(lock)
        assert not entered.wait(0.05)
    assert entered.wait(LONG_S)


def test_who_has_waited_long_enough_goes_in_and_lets_go_of_nothing() -> None:
    lock = SoftLock(0.01)
    with lock.held():
        assert enter(lock).wait(LONG_S)
        assert enter(lock).wait(LONG_S)


def test_a_thread_may_enter_again_and_a_failure_lets_go() -> None:
    lock = SoftLock(LONG_S)
    try:
        with lock.held(), lock.held():
            raise KeyError
    except KeyError:
        pass
    assert enter(lock).wait(LONG_S)
