"""Fit of the weights by which a value is taken for a secret: `python -m tests.bench.secret_fit`, `--write` keeps them.

Examples are the corpora of `tests/data/secrets` but the fifth, their innocents, `taught.txt`, whose places are filled
with values of many sorts, and every candidate of the real texts of `SHARED_DATA_DIR` and of the lives that are trained
on, which are no secrets but for those that `redaction.RIGHT` knows. The logistic regression has a ridge of one. What is
printed is out of fold: of each corpus, how many secrets are gone when neither it nor half of the real texts was learned
from, and how many of its innocents have an alarm; then the alarms among the other half of the real texts.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from unittest import mock

import numpy as np
from dreamd.store.redaction import classifier, find, redact
from dreamd.store.redaction.classifier import features
from dreamd.store.redaction.key_forms import CANDIDATE
from dreamd.store.redaction.near_names import candidates
from dreamd.store.redaction.prefilter import folded
from dreamd.store.redaction.wrappings import without_escapes
from numpy.typing import NDArray

from tests.train.examples import lives_in, turns_of

from . import redaction, unseen_secrets
from .options import ROOT, Options

CORPORA = ROOT / "tests/data/secrets"
WEIGHTS = Path(classifier.__file__).with_name("weights.json")
VOCABULARY = ROOT / "store/text/data/minilm/tokenizer.json"
LEARNED = ("first", "second", "third", "fourth")
RIDGE, ROUNDS, MEMORY = 1.0, 200, 10
DRAWS = 4
"""Values for each place that is taught."""

LEAST_OVERLAP = 0.75
LEAST_GROUPS, LEAST_TIMES = 3, 6
"""What is seen in fewer groups, or fewer times, is chance."""

WEIGHT_OF = {"real": 1.0, "taught": 0.8, "innocent": 3.0, "secret": 1.0}
MOST_WEIGHT = 4.0
"""Of what looks alike: an example that a thousand turns repeat would else decide alone."""

LEAST_WEIGHT = 0.06
LENIENCE = 0.3
"""Added to what speaks for every value: a secret that is kept costs more than a word that is lost."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    """What is seen of a candidate, and whether it is a secret. `group` is left out as a whole."""

    source: str
    group: str
    seen: tuple[str, ...]
    is_secret: bool


# ---- the examples


def examples_of(text: str, secrets: Sequence[tuple[int, int]], source: str, group: str) -> Iterator[Example]:
    """Yield the candidates of a text but for those that hold a part of a secret, or more than one."""
    plain = without_escapes(text)
    for one in candidates(plain, folded(plain), list(CANDIDATE.finditer(plain))):
        shares = [_overlap((one.value.start, one.value.end), secret) for secret in secrets]
        if not any(shares) or max(shares) >= LEAST_OVERLAP:
            yield Example(source, group, tuple(sorted(set(features(plain, one)))), any(shares))


def _overlap(one: tuple[int, int], two: tuple[int, int]) -> float:
    shared = min(one[1], two[1]) - max(one[0], two[0])
    return max(0.0, shared / max(one[1] - one[0], two[1] - two[0]))


def _places(text: str, secrets: Iterable[str]) -> list[tuple[int, int]]:
    lines = {line for secret in secrets for line in (secret, *secret.splitlines()) if line}
    return [found.span() for line in lines for found in re.finditer(re.escape(line), text)]


def of_corpora() -> Iterator[Example]:
    """Yield the examples of the authors' corpora."""
    for folder in LEARNED:
        for row in unseen_secrets.rows_of(CORPORA / folder / "secrets.jsonl"):
            if places := _places(row["text"], row["secrets"]):
                yield from examples_of(row["text"], places, "secret", f"{folder} {row['family']}")
        for row in unseen_secrets.rows_of(CORPORA / folder / "innocents.jsonl"):
            yield from examples_of(row["text"], (), "innocent", f"{folder} {row['group']}")


def of_real_texts(texts: Iterable[str]) -> Iterator[Example]:
    """Yield the candidates of real texts, without what was read and found to be a secret."""
    for text in texts:
        spans = [(start, end) for start, end, _ in find(text)]
        right = [span for span in spans if sha256(text[slice(*span)].encode()).hexdigest()[:12] in redaction.RIGHT]
        yield from (one for one in examples_of(text, right, "real", "real") if not one.is_secret)


# ---- what is taught


def of_taught() -> Iterator[Example]:
    """Yield the examples of `taught.txt`: `+ password: {p}`, `- password: {x}`."""
    values = Values()
    for number, line in enumerate((CORPORA / "taught.txt").read_text().splitlines()):
        for draw in range(DRAWS):
            text, filled = values.fill(line[2:], random.Random(f"{number} {draw}"))
            secrets = _places(text, filled) if line.startswith("+") else []
            yield from examples_of(text, secrets, "taught", f"taught {number // 6}")


class Values:
    """Values for the places of `taught.txt`, by the letter of each."""

    def __init__(self) -> None:
        words = json.loads(VOCABULARY.read_text())["model"]["vocab"]
        self._words = [word for word in words if re.fullmatch(r"[a-z]{4,9}", word)]
        self._of: Mapping[str, Callable[[random.Random], str]] = {
            "p": self._password,
            "k": self._key,
            "h": lambda rng: f"{rng.getrandbits(256):064x}"[: rng.choice((32, 40, 48, 64, 64))],
            "u": lambda rng: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            "n": lambda rng: _drawn(rng, string.digits, rng.choice((4, 4, 5, 6, 6, 8))),
            "x": lambda rng: rng.choice(PLAIN),
            "s": self._slug,
            "d": lambda rng: str(rng.choice((rng.randrange(10, 99), rng.randrange(100, 65_000)))),
        }

    def fill(self, line: str, rng: random.Random) -> tuple[str, list[str]]:
        """Fill the places of a line; return the text and the values that are secret where it teaches one."""
        filled: list[str] = []

        def value(place: re.Match[str]) -> str:
            made = self._of[place[1]](rng)
            filled.append(made)
            return made

        return re.sub(r"\{([pkhunxsd])\}", value, line.replace("\\n", "\n").replace("\\t", "\t")), filled

    def _slug(self, rng: random.Random) -> str:
        """Return words and the beginning of a hash, as names of branches, channels and pods are made."""
        words = (rng.choice(self._words) for _ in range(rng.randint(1, 6)))
        return "-".join((*words, f"{rng.getrandbits(40):010x}"[: rng.choice((6, 6, 7, 8, 10))]))

    def _password(self, rng: random.Random) -> str:
        one, two, three = (rng.choice(self._words) for _ in range(3))
        digits, sign = _drawn(rng, string.digits, rng.randint(1, 4)), rng.choice("!@#$%^&*?+~=_-.")
        forms = (
            f"{one.title()}{digits}{sign}",
            f"{one}{digits}7",
            f"{one}-{two}-{three}",
            f"{one}-{two}-{three[0]}{digits}{three[1]}{rng.randrange(2, 9)}-{rng.randrange(1000, 9999)}",
            f"{one.title()}-{two}-{rng.randrange(100, 9999)}",
            f"{one}{sign}{two.title()}{sign}{digits}",
            f"{one.title()}{sign}{two.title()}",
            f"{one}{two.title()}{digits}",
            f"{sign}{one}{digits}{two}",
            f"{one}_{two}_{three}",
            f"{one}.{two}.{three.upper()}",
            f"{one} {two} {three} {one}",
            f"{one}{rng.choice('äöüéèñçøåłżß')}{two[:3]}{digits}",
            f"{one.translate(str.maketrans('oeia', '0314'))}{sign}{two.title()}",
            f"{one[:3].upper()}{two}{digits}{sign}",
            _drawn(rng, string.digits, rng.randint(8, 20)),
            _drawn(rng, string.ascii_letters + string.digits, rng.randint(8, 24)),
            _drawn(rng, string.ascii_letters + string.digits + "!@#$%^&*?+~=_-.", rng.randint(10, 22)),
            "-".join(_drawn(rng, string.ascii_letters + string.digits, 5) for _ in range(4)),
        )
        return rng.choice(forms)

    def _key(self, rng: random.Random) -> str:
        letters = string.ascii_letters + string.digits
        size = rng.choice((20, 24, 32, 32, 40, 43, 48, 64))
        forms = (
            _drawn(rng, letters, size),
            _drawn(rng, letters + "-_", size),
            _drawn(rng, letters + "!@#$%^&*()-_=+[]{}<>;:,.?/|~", 64),
            _drawn(rng, letters + "+/", size - 1) + "=",
            f"{rng.choice(self._words)[:4]}_{rng.choice(('live_', '', 'pat_'))}{_drawn(rng, letters, size)}",
            _drawn(rng, string.ascii_lowercase + string.digits, size),
        )
        return rng.choice(forms)


def _drawn(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(size))


PLAIN = (
    "required string null some thing else here there optional wrong none default name created_at incorrect"
    " expired missing invalid empty stored hashed hidden changed forgotten prompt text value field input"
    " userPassword admin root primary id email read write main test_user true false any bytes Enter Forgot Show"
    " weak strong user_id settings config.password accountName getToken self.token linux debug info en-US UTF-8"
    " v1.2 my-app web-1 node-18 index.ts main.py 2024-01-02"
).split()

# ---- the regression


def fit(examples: Iterable[Example]) -> dict[str, float]:
    """Fit the weights by L-BFGS (Nocedal and Wright, algorithm 7.5)."""
    known = _vocabulary(examples := list(examples))
    weighed: defaultdict[tuple[tuple[str, ...], bool], float] = defaultdict(float)
    for one in examples:
        weighed[tuple(sight for sight in one.seen if sight in known), one.is_secret] += WEIGHT_OF[one.source]
    at = {sight: number for number, sight in enumerate(sorted(known))}
    columns = np.array([at[sight] for seen, _ in weighed for sight in seen])
    sizes = np.array([len(seen) for seen, _ in weighed])
    labels = np.array([float(is_secret) for _, is_secret in weighed])
    counts = np.minimum(np.array(list(weighed.values()), dtype=float), MOST_WEIGHT)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))

    def loss(weights: Array) -> tuple[float, Array]:
        scores = np.add.reduceat(weights[columns], starts)
        misses = counts * (1 / (1 + np.exp(-np.clip(scores, -30, 30))) - labels)
        value = counts @ (np.logaddexp(0, scores) - labels * scores) + RIDGE / 2 * weights @ weights
        return float(value), np.bincount(columns, np.repeat(misses, sizes), len(at)) + RIDGE * weights

    weights = _least(loss, np.zeros(len(at)))
    weights[at["bias"]] += LENIENCE
    return {sight: round(float(weights[n]), 2) for sight, n in at.items() if abs(weights[n]) >= LEAST_WEIGHT}


def _vocabulary(examples: Iterable[Example]) -> set[str]:
    groups: defaultdict[str, set[str]] = defaultdict(set)
    times = Counter[str]()
    for one in examples:
        times.update(one.seen)
        for seen in one.seen:
            groups[seen].add(one.group)
    return {seen for seen in times if times[seen] >= LEAST_TIMES and len(groups[seen]) >= LEAST_GROUPS}


def _least(loss: Callable[[Array], tuple[float, Array]], at: Array) -> Array:
    value, slope = loss(at)
    steps: list[tuple[Array, Array]] = []
    for _ in range(ROUNDS):
        way = _direction(slope, steps)
        size = 1.0 if steps else 1e-3
        while (found := loss(at - size * way))[0] > value - 1e-4 * size * float(slope @ way) and size > 1e-8:
            size /= 2
        step, bend = -size * way, found[1] - slope
        steps = [*steps, (step, bend)][-MEMORY:] if step @ bend > 1e-10 else steps
        at, gain, (value, slope) = at + step, value - found[0], found
        if gain < 1e-5 * abs(value):
            break
    return at


def _direction(slope: Array, steps: Sequence[tuple[Array, Array]]) -> Array:
    way, factors = slope.copy(), []
    for step, bend in reversed(steps):
        factors.append(step @ way / (bend @ step))
        way -= factors[-1] * bend
    if steps:
        way *= steps[-1][0] @ steps[-1][1] / (steps[-1][1] @ steps[-1][1])
    for (step, bend), factor in zip(steps, reversed(factors), strict=True):
        way += step * (factor - bend @ way / (bend @ step))
    return way


# ---- by hand


def main() -> None:
    """Print what the judge does of corpora left out; write the weights of everything where asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.secret_fit", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write weights.json")
    given = parser.parse_args()
    lives = [turn["text"] for life in lives_in().values() for turn in turns_of(life).values()]
    texts = [*redaction.real_turns(Options().data), *redaction.texts_of(Options().data), *lives]
    random.Random(1).shuffle(texts)
    half = len(texts) // 2
    always = [*of_taught(), *of_real_texts(texts[:half])]
    _report(list(of_corpora()), always, texts[half:])
    if given.write:
        weights = fit([*of_corpora(), *always, *of_real_texts(texts[half:])])
        WEIGHTS.write_text(json.dumps(weights, ensure_ascii=False, indent=0, separators=(",", ":")) + "\n")


def _report(corpora: Sequence[Example], always: Sequence[Example], unread: Sequence[str]) -> None:
    for folder in LEARNED:
        weights = fit([*always, *(one for one in corpora if not one.group.startswith(f"{folder} "))])
        with mock.patch.object(classifier, "weights_of_package", lambda weights=weights: weights):
            secrets = list(unseen_secrets.secrets_of(CORPORA / folder))
            left = [one for one in secrets if unseen_secrets.is_left(one)]
            innocents = list(unseen_secrets.rows_of(CORPORA / folder / "innocents.jsonl"))
            alarms = sum(bool(redact(row["text"]).found) for row in innocents)
            of_unread = sum(bool(find(text)) for text in unread)
        print(
            f"{folder} left out: {1 - len(left) / len(secrets):.1%} of {len(secrets)} gone, "
            f"{alarms} of {len(innocents)} innocents and {of_unread} of {len(unread)} real texts with an alarm"
        )
        of_family = Counter(one.family for one in secrets)
        missed = Counter(one.family for one in left)
        print("    " + ", ".join(f"{family} {missed[family]}/{n}" for family, n in of_family.items()))


if __name__ == "__main__":
    main()
