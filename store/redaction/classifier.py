"""A logistic regression over what is seen of a value: secrets that no rule was made for.

Each sight that counts has a weight in `weights.json`; a value whose weights add up to more than nothing is a secret.
`tests/bench/secret_fit.py` makes the weights.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from .candidates import Candidate, Value, candidates
from .features import features
from .shapes import Span


def find_likely(text: str, lowered: str, runs: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find the values that are likely secrets. `runs` are those that are long enough for a key."""
    weights = weights_of_package()
    found: list[Candidate] = []
    for one in candidates(text, lowered, runs):
        if sum(weights.get(seen, 0.0) for seen in features(text, one)) > 0:
            if found and _is_setting_in(text, found[-1], one.value):
                found.pop()
            found.append(one)
    for one in found:
        yield one.value.start, one.value.end, _KIND_OF_WORD.get(one.name.word) or _KINDS.get(one.name.kind, "token")


_KINDS: Final = {"password": "password", "login": "password", "option": "password", "pin": "pin"}
_KIND_OF_WORD: Final = {"bearer": "bearer", "authorization": "bearer"} | dict.fromkeys(
    ("cookie", "session", "sessionid", "sid"), "cookie"
)
_SETTING: Final = re.compile(r"(?=[\w.@-]{0,64}[A-Za-z])[\w.@-]{1,64}(?:[:=%]|=>|:=)[\"']?")


def _is_setting_in(text: str, candidate: Candidate, inner: Value) -> bool:
    """Return True for X in `user:X` and `PASS=X`, where both look like secrets; not in `password=a:b`."""
    name, outer = candidate.name, candidate.value
    is_nested = outer.start < inner.start and inner.end <= outer.end
    is_told = name.kind in ("option", "none", "login") or outer.start - name.end > 2
    return is_nested and is_told and _SETTING.fullmatch(text, outer.start, inner.start) is not None


@cache
def weights_of_package() -> Mapping[str, float]:
    """Read the weights."""
    weights: dict[str, float] = json.loads(Path(__file__).with_name("weights.json").read_text())
    return weights
