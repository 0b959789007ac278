"""Does an envelope tell what was asked? A reader's benchmark: questions, pairs of statements, turns worth keeping."""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from statistics import fmean
from typing import Any

from .daemon_under_test import DaemonUnderTest
from .options import Options
from .reading import Precision, holds_now, is_kept, is_told, judge_pairs, tokens_of, usable_share, words_of
from .scratch import own_folder
from .table import Row, say, skipped

ANSWERED = {500: (0.88, 0.90), 300: (0.84, 0.86)}
"""By the envelope's budget in tokens: the answerable questions that are to be told, before and after a dream."""

CURRENT, WITH_STALE = 0.85, ("current_value", "correction")
ABSTAINED, WRONGLY_ABSTAINED = 0.75, 0.03
MOST_TOKENS, USABLE = 350, 0.97
PAIRS = {"updates": (0.90, 0.45), "contradicts": (0.90, 0.35), "same": (0.90, 0.15)}
"""Least precision and recall of each relation, each pair of statements in a channel of its own, without a model."""

RIGHTLY, WRONGLY, OF_UPDATES = 12, 3, 60
WORTH, MOST_FACTS = (0.85, 0.80), 30
FEWEST_WORDS = 3
LINKED_S = 120.0


@dataclass
class Answers:
    """What the envelopes of one budget told, by the kind of question."""

    told: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    abstained: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    texts: list[str] = field(default_factory=list)

    def share(self, *kinds: str) -> float:
        """Return the share of these kinds' questions that are told; of all that can be answered without a kind."""
        chosen = kinds or tuple(kind for kind in self.told if kind not in ("unanswerable", "other_project"))
        return _mean([one for kind in chosen for one in self.told[kind]])

    def abstaining(self, *kinds: str) -> float:
        """Return the share of these kinds' questions that were not answered."""
        chosen = kinds or tuple(kind for kind in self.abstained if kind not in ("unanswerable", "other_project"))
        return _mean([one for kind in chosen for one in self.abstained[kind]])

    def __str__(self) -> str:
        kinds = (f"{kind} {sum(told)}/{len(told)}" for kind, told in sorted(self.told.items()))
        return f"{', '.join(kinds)}; {fmean(map(tokens_of, self.texts)):.0f} tokens an envelope"


def measure(options: Options) -> Iterator[Row]:
    """Take every row: the envelopes before and after a dream, what the dream kept, and the pairs."""
    folder = options.data / "readers"
    if not folder.is_dir():
        yield skipped("readers", "", f"no {folder}")
        return
    with own_folder("readers") as scratch:
        yield from _asked(scratch / "asked", folder)
        yield from _each_in_its_place(scratch / "worth", folder)
        yield from _paired(scratch / "paired", folder)


# -- questions


def _asked(scratch: Path, folder: Path) -> Iterator[Row]:
    questions = json.loads((folder / "questions.json").read_text())
    with DaemonUnderTest(scratch) as daemon:
        say("readers: importing")
        took = daemon.call("import", paths=[str(folder / "sessions")], format="claude-code")
        daemon.wait_until_embedded()
        before = {budget: _ask(daemon, questions, budget) for budget in ANSWERED}
        say("readers: dreaming")
        run = daemon.call("dream", kind="daily", wait=True)
        daemon.wait_until_embedded()
        after = {budget: _ask(daemon, questions, budget) for budget in ANSWERED}
        for when, answers, place in (("before a dream", before, 0), (f"after one ({run['state']})", after, 1)):
            for budget, targets in ANSWERED.items():
                share = answers[budget].share()
                name = f"readers, {budget} tokens, {when}: answerable told"
                yield Row(name, f"{share:.3f}", f"≥ {targets[place]}", share >= targets[place], str(answers[budget]))
            yield from _abstentions(answers[max(ANSWERED)], when)
            yield _usable(answers[max(ANSWERED)], when)
        now = after[max(ANSWERED)].share(*WITH_STALE)
        yield Row(
            "readers, after one: current values and corrections right", f"{now:.3f}", f"≥ {CURRENT}", now >= CURRENT, ""
        )
        yield from _kept(Path(daemon.call("status")["vault"]), folder, took["turns_added"])
        daemon.stop()


def _ask(daemon: DaemonUnderTest, questions: Sequence[dict[str, Any]], budget: int) -> Answers:
    channels = daemon.call("status")["channels"]
    answers = Answers()
    wire = daemon.wire()
    try:
        for question in questions:
            channel = _channel_of(question["project"], channels)
            got = wire.call("context", query=question["question"], budget_tokens=budget, channel=channel)
            text, kind = got["text"], question["kind"]
            answers.texts.append(text)
            answers.abstained[kind].append(got["abstained"])
            answers.told[kind].append(_is_right(question, text, got["abstained"]))
    finally:
        wire.close()
    return answers


def _is_right(question: dict[str, Any], text: str, abstained: bool) -> bool:
    match question["kind"]:
        case "unanswerable":
            return abstained
        case "other_project":
            return abstained or not is_told(text, question["gold"])
        case "current_value" | "correction":
            return holds_now(text, question["gold"], question.get("stale", ()))
    return is_told(text, question["gold"])


def _channel_of(project: str, channels: Sequence[str]) -> str:
    """Return the channel that a project's folder became: its name, and six characters that tell it from its like."""
    name = PurePosixPath(project).name.lower()
    return next((one for one in channels if one.lower().rpartition("-")[0] == name), name)


def _abstentions(answers: Answers, when: str) -> Iterator[Row]:
    other, unanswerable = answers.abstaining("other_project"), answers.abstaining("unanswerable")
    leaked = sum(not right for right in answers.told["other_project"])
    yield Row(
        f"readers, {when}: another project's questions abstained",
        f"{other:.2f}, {leaked} told",
        f"≥ {ABSTAINED}, 0 told",
        other >= ABSTAINED and not leaked,
        f"unanswerable ones {unanswerable:.2f} of {len(answers.told['unanswerable'])}",
    )
    wrongly = answers.abstaining()
    target = f"≤ {WRONGLY_ABSTAINED}"
    yield Row(f"readers, {when}: answerable abstained", f"{wrongly:.3f}", target, wrongly <= WRONGLY_ABSTAINED, "")


def _usable(answers: Answers, when: str) -> Row:
    usable, tokens = usable_share(answers.texts), fmean(map(tokens_of, answers.texts))
    return Row(
        f"readers, {when}: usable lines; tokens an envelope",
        f"{usable:.3f}; {tokens:.0f}",
        f"≥ {USABLE}; ≤ {MOST_TOKENS}",
        usable >= USABLE and tokens <= MOST_TOKENS,
        "lines of five words and no heading; characters / 4",
    )


# -- what a dream keeps


def _kept(vault: Path, folder: Path, turns: int) -> Iterator[Row]:
    facts = _facts(vault)
    said = " ".join(" ".join(words_of(path.read_text())) for path in (vault / "sessions").glob("**/*.md"))
    labelled = [turn for turn in _labelled(folder) if " ".join(words_of(turn["text"]))[:60] in said]
    kept = [is_kept(turn["text"], [words for words, _ in facts]) for turn in labelled]
    yield _worth("worth keeping, in the sessions: precision / recall", labelled, kept)
    share = 100 * len(facts) / max(1, turns)
    yield Row("facts of 100 turns", f"{share:.0f}", f"≤ {MOST_FACTS}", share <= MOST_FACTS, f"{len(facts)} of {turns}")


def _each_in_its_place(scratch: Path, folder: Path) -> Iterator[Row]:
    """Every labelled turn after the one that came before it, in a session of its own; kept by a fact that cites it."""
    labelled = _labelled(folder)
    with DaemonUnderTest(scratch) as daemon:
        for number, turn in enumerate(labelled):
            other = "assistant" if turn["role"] == "user" else "user"
            said = [{"role": other, "text": turn["before"], "external_id": "0"}] if turn.get("before") else []
            said.append({"role": turn["role"], "text": turn["text"], "external_id": "1"})
            head = {"session_id": f"worth-{number}", "channel": "worth"}
            daemon.call("observe", session=head, turns=said)
        daemon.wait_until_embedded()
        say("readers: dreaming over each labelled turn")
        daemon.call("dream", kind="daily", wait=True)
        facts = _facts(Path(daemon.call("status")["vault"]))
        daemon.stop()
    kept = [
        is_kept(turn["text"], [words for words, text in facts if f"worth-{number}#" in text])
        for number, turn in enumerate(labelled)
    ]
    yield _worth("worth keeping, each in its place: precision / recall", labelled, kept)


def _labelled(folder: Path) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = json.loads((folder / "worth.json").read_text())
    return [turn for turn in turns if len([word for word in words_of(turn["text"]) if len(word) > 2]) >= FEWEST_WORDS]


def _facts(vault: Path) -> list[tuple[frozenset[str], str]]:
    texts = [path.read_text() for path in (vault / "facts").glob("**/*--*.md")]
    return [(frozenset(words_of(text)), text) for text in texts]


def _worth(measure: str, labelled: Sequence[dict[str, Any]], kept: Sequence[bool]) -> Row:
    right = sum(one and turn["keep"] for turn, one in zip(labelled, kept, strict=True))
    found = Precision(right, sum(kept) - right, sum(turn["keep"] for turn in labelled))
    enough = found.precision >= WORTH[0] and found.recall >= WORTH[1]
    missed = Counter(str(turn["kind"]) for turn, one in zip(labelled, kept, strict=True) if turn["keep"] and not one)
    how = f"{len(labelled)} labelled turns; missed: {', '.join(f'{kind} {n}' for kind, n in sorted(missed.items()))}"
    return Row(measure, str(found), f"≥ {WORTH[0]:.2f} / {WORTH[1]:.2f}", enough, how)


# -- pairs of statements


def _paired(scratch: Path, folder: Path) -> Iterator[Row]:
    pairs = json.loads((folder / "pairs.json").read_text())
    with DaemonUnderTest(scratch) as daemon:
        say("readers: pairs, each in a channel of its own")
        apart = [_remember(daemon, pair, "pair-" + re.sub(r"\W", "", pair["id"])) for pair in pairs]
        _wait_until_linked(daemon)
        found = [(pair["relation"], _relation_of(daemon, *ids)) for pair, ids in zip(pairs, apart, strict=True)]
        how = _table_of(found)
        for relation, (precision, recall) in PAIRS.items():
            harmless = frozenset({"updates"}) if relation == "contradicts" else frozenset[str]()
            judged = judge_pairs(found, relation, harmless)
            enough = judged.precision >= precision and judged.recall >= recall
            target = f"≥ {precision:.2f} / {recall:.2f}"
            yield Row(f"pairs: {relation}, precision / recall", str(judged), target, enough, how)
        yield _together(daemon, pairs)
        daemon.stop()


def _remember(daemon: DaemonUnderTest, pair: dict[str, Any], channel: str) -> tuple[str, str]:
    return tuple(daemon.call("remember", text=pair[side], channel=channel)["node_id"] for side in ("earlier", "later"))


def _wait_until_linked(daemon: DaemonUnderTest) -> None:
    """Wait until nothing that was remembered is still to be compared: no run more within some seconds."""
    deadline, runs, quiet = time.monotonic() + LINKED_S, -1, 0
    daemon.wait_until_embedded()
    while quiet < 5 and time.monotonic() < deadline:
        time.sleep(1)
        now = len(daemon.call("runs", limit=1000)["runs"])
        quiet, runs = (quiet + 1, runs) if now == runs else (0, now)


def _relation_of(daemon: DaemonUnderTest, earlier: str, later: str) -> str:
    """Return what was made of two statements: "same", "updates", "contradicts" or "none"."""
    if earlier == later:
        return "same"
    old, new = daemon.call("show", node_id=earlier), daemon.call("show", node_id=later)
    if later in new["contradicts"] or earlier in new["contradicts"] or later in old["contradicts"]:
        return "contradicts"
    if old["superseded_by"] == later:
        return "updates"
    return "same" if new["superseded_by"] == earlier else "none"


def _table_of(found: Sequence[tuple[str, str]]) -> str:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for pair in found:
        counts[pair] += 1
    return ", ".join(f"{is_}→{seen} {number}" for (is_, seen), number in sorted(counts.items()))


def _together(daemon: DaemonUnderTest, pairs: Sequence[dict[str, Any]]) -> Row:
    """All earlier statements, then all later ones, in one channel: the right one among hundreds."""
    say("readers: all pairs in one channel")
    ids: dict[str, list[str]] = {}
    for side in ("earlier", "later"):
        ids[side] = [daemon.call("remember", text=pair[side], channel="together")["node_id"] for pair in pairs]
        _wait_until_linked(daemon)
    after = {
        node_id: daemon.call("show", node_id=node_id)["superseded_by"] for side in ids.values() for node_id in side
    }
    right = sum(
        pair["relation"] == "updates" and after[earlier] == later
        for pair, earlier, later in zip(pairs, ids["earlier"], ids["later"], strict=True)
    )
    updates = sum(pair["relation"] == "updates" for pair in pairs)
    wrong = sum(one is not None for one in after.values()) - right
    rightly = RIGHTLY * updates // OF_UPDATES
    return Row(
        f"pairs together: superseded rightly of {updates} / wrongly",
        f"{right} / {wrong}",
        f"≥ {rightly} / ≤ {WRONGLY}",
        right >= rightly and wrong <= WRONGLY,
        f"{len(pairs)} pairs in one channel",
    )


def _mean(values: Sequence[bool]) -> float:
    return fmean(values) if values else 0.0
