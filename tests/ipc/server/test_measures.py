"""The measures of answers: counted by method, step and outcome, and written as Prometheus reads them."""

from __future__ import annotations

import re

from dreamd.ipc.server.measures import BOUNDS_S, Family, Measures, Sample, exposition, gauge

LINE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+')


def lines(measures: Measures) -> list[str]:
    return exposition(measures.families()).splitlines()


def test_an_answer_is_in_its_bucket_and_every_wider_one() -> None:
    measures = Measures()
    measures.answered("recall", "ok", 1.0, 1.004, 1.015)
    measures.answered("recall", "-32002", 1.0, 0.0, 99.0)
    measures.refused(-32601)
    told = lines(measures)
    assert 'dreamd_answers_total{method="recall",outcome="ok"} 1' in told
    assert 'dreamd_answers_total{method="",outcome="-32601"} 1' in told
    all_ = [line for line in told if 'method="recall",step="all"' in line and "_bucket" in line]
    assert [int(line.rpartition(" ")[2]) for line in all_] == [0, 0, 1, 1, 1, 1, 1, 2]
    assert len(all_) == len(BOUNDS_S) + 1
    assert 'dreamd_answer_seconds_count{method="recall",step="wait"} 1' in told
    assert 'dreamd_answer_seconds_sum{method="recall",step="work"} 0.011' in told


def test_every_line_is_one_that_prometheus_reads() -> None:
    measures = Measures()
    measures.answered("recall", "ok", 0.0, 0.0, 0.5)
    text = exposition([*measures.families(), gauge("process_cpu_seconds_total", "Time.", 0.25, "counter")])
    assert text.endswith("\n")
    assert all(line.startswith(("# HELP ", "# TYPE ")) or LINE.fullmatch(line) for line in text.splitlines())
    odd = Family("dreamd_info", "gauge", "A version.", [Sample({"version": 'a"b\\c\nd'}, 1)])
    assert exposition([odd]).splitlines()[-1] == 'dreamd_info{version="a\\"b\\\\c\\nd"} 1'


def test_a_listener_hears_of_every_answer() -> None:
    measures, heard = Measures(), []
    measures.on_answered = lambda method, seconds, outcome: heard.append((method, seconds, outcome))
    measures.answered("recall", "ok", 1.0, 0.0, 1.5)
    assert heard == [("recall", 0.5, "ok")]
