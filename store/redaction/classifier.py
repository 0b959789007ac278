"""The classifier: a logistic regression over features of a value, of its name, and of the text between them.

DB_PASS=kelp_Foundry_61      form=wordy 1, name=pass, before=db, gap='=', "password = wordy 1", …
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from .key_forms import Span
from .near_names import COPULAS, KIND_OF, WORD, Name, NearValue, ValueSpan, candidates, words_of
from .values import (
    classes,
    entropy,
    is_hash_like,
    is_jumbled,
    is_phrase,
    is_random,
    is_reference,
    is_term,
    is_uuid,
    is_wordy,
)

_DRAWN: Final = frozenset(("drawn", "hex", "uuid", "number", "sentence"))
"""Forms of which the parts say nothing."""

OF_IDS: Final = frozenset(
    "commit sha md5 hash hashes hashed digest checksum revision rev id ids uuid guid etag integrity fingerprint"
    " branch tag image blob object tree salt nonce iv request trace span count type name path file size version"
    " length build job transaction block address contract bucket container layer node session user run task order"
    " ticket message".split()
)
"""Words for things whose number or hash is no secret."""

OPEN_TO_ALL: Final = frozenset(
    "public publishable pub anon site captcha primary foreign composite unique partition sort cache csrf next"
    " page row column map config group index lookup translation event known host continuation idempotency"
    " websocket contract".split()
)
"""Words before "key" and "token" that make them an entry of a table, or open to all."""

_OF_ADDRESSES: Final = ("hook", "://ping.", "-ping.", "/deploy/", "/invite", "/share", "token", "reset", "/ical/")
"""Parts of the addresses that give a right to whoever has them."""

MOST_OF_ADDRESS: Final = 160
_ODD_MARKS: Final = frozenset("!#$%^&*?~|+@")
_FEWEST_OF_SALT: Final = 40
_MOST_CLASSES: Final = 4
_FEWEST_BITS_OF_SALT: Final = 4.8
"""Forty characters drawn from ninety, as WordPress does, have 5 or more; a line of code has 4.3."""

_SIZES: Final = (5, 7, 9, 12, 16, 20, 24, 32, 33, 40, 64, 128, 9999)
_SEPARATED = re.compile(r"[^A-Za-z0-9]+")
_FUNCTION_WORDS: Final = frozenset(
    "the and for from have has are was were is be not but your our you to of in on with when which what this that"
    " it der die das und ist nicht ein eine le la les est un une de du des el los es no una o os as em não et må"
    " er ikke must should can will please here see if or by at as".split()
)


def features(text: str, candidate: NearValue) -> list[str]:
    """Return the features of a value, of its name and of the text between them."""
    name, value, is_before = candidate.name, candidate.value, candidate.is_before
    of_value, form = _of_value(text[value.start : value.end])
    gap = text[value.end : name.start] if is_before else text[name.end : value.start]
    of_gap, link = _of_gap(gap, value, is_before=is_before)
    of_name = _of_name(text, name)
    before, behind = text[value.start - 1 : value.start], text[value.end : value.end + 1]
    seen = ["bias", *of_value, *of_gap, *of_name]
    seen.append(f"behind={_sort(behind)}")
    seen.append(f"quoted={value.is_quoted} link={link}")
    seen += (f"{name.kind} {link} {form}", f"{link} {form}", f"{name.kind} {link}", f"{name.kind} {form}")
    if not value.is_quoted:
        seen.append(f"next={_first_word(text[value.end : value.end + 16])}")
        seen.append(f"ahead={_sort(before)}")
    return seen


def _first_word(text: str) -> str:
    found = WORD.search(text)
    return found[0].lower() if found else ""


def _sort(character: str) -> str:
    if not character:
        return "edge"
    if character.isalnum():
        return "a"
    return "space" if character == " " else character


def _of_name(text: str, name: Name) -> list[str]:
    seen = [f"name={name.word}", f"kind={name.kind}"]
    seen += [f"before={word}" for word in name.before[-1:]]
    seen += [f"after={word}" for word in name.after[:1]]
    if not OF_IDS.isdisjoint(name.after):
        seen.append("after=id")
    if not OPEN_TO_ALL.isdisjoint(name.before[-2:]):
        seen.append("before=open")
    seen.append(f"after={bool(name.after)} before={bool(name.before)}")
    lead = text[max(0, name.start - 24) : name.start]
    seen.append(f"lead={_sort(lead[-1:])}")
    words = WORD.findall(lead)
    # Without a name the words before the value, and the address around it, are all there is.
    if name.kind == "none":
        line = lead.rpartition("\n")[2]
        seen.append(f"lead none={re.sub('[a-z0-9]+', 'a', line.lower())[-4:]!r}")
        near = [word.lower() for word in WORD.findall(line)[-3:]]
        seen += [f"near none={word}" for word in near]
        if not OF_IDS.isdisjoint(near):
            seen.append("id near none")
        address = text[max(0, name.start - MOST_OF_ADDRESS) : name.start].rpartition(" ")[2].lower()
        seen += [f"address={word}" for word in _OF_ADDRESSES if "://" in address and word in address]
    if lead[-1:] in (" ", "-") and words:
        seen.append(f"previous={words[-1].lower()}")
    identifier = text[name.start : name.end]
    if identifier.isupper():
        seen.append("upper")
    elif identifier[:1].isupper():
        seen.append("capital")
    return seen


def _of_gap(gap: str, value: ValueSpan, *, is_before: bool) -> tuple[list[str], str]:
    words = [word.lower() for word in WORD.findall(gap)]
    link = _link(gap, words, is_before=is_before)
    seen = [f"link={link}", f"words={min(len(words), 9)}"]
    if not words:
        seen.append(f"gap={re.sub('[ ]+', ' ', gap)[:8]!r}")
    else:
        seen.append(f"last={words[-1]}")
        seen += [f"in gap={word}" for word in words]
        if not OF_IDS.isdisjoint(words):
            seen.append("id in gap")
    lines = gap.count("\n")
    seen.append(f"lines={lines}")
    if re.search(r"[.;!?]\s", gap):
        seen.append("sentence ends")
    return seen, link


def _link(gap: str, words: list[str], *, is_before: bool) -> str:
    if is_before:
        return f"before {min(len(words), 3)}"
    # Quotation marks and brackets before the value are not the sign.
    sign = gap.rstrip(" \t\"'`([{*_«„“\\")[-1:]
    if "\n" in gap:
        return "next line" if not words else "further line"
    if not words:
        if sign == "" or sign.isalnum():
            return "flag" if gap[:1] in (" ", "") else "none"
        return sign
    ends = sign in (":", "=", "→") or words[-1] in COPULAS
    if ends:
        return "said" if len(words) <= 2 else "told"
    return "near" if len(words) <= 3 else "far"


@lru_cache(maxsize=256)
def _of_value(value: str) -> tuple[list[str], str]:
    form = form_of(value)
    size = len(value)
    seen = [f"form={form}", f"size={_step(size)} {form}", f"classes={classes(value)}"]
    marks = {c for c in value if not c.isalnum() and not c.isspace()}
    seen += [f"mark={mark}" for mark in marks]
    if marks & _ODD_MARKS:
        seen.append(f"odd {form}")
    digits = sum(map(str.isdigit, value))
    seen.append("digits=none" if not digits else "digits=all" if digits == size else "digits=some")
    if digits and value.rstrip("0123456789").isalpha():
        seen.append("digits=end")
    if not value.isascii():
        seen.append("letters=other")
    if value[0].isupper():
        seen.append("begins upper")
    if not value[0].isalnum():
        seen.append(f"begins={value[0]}")
    if not value[-1].isalnum():
        seen.append(f"ends={value[-1]}")
    if size >= 8:
        seen.append(f"bits={round(entropy(value) * 2) / 2} {_step(size)}")
    plain = sum(part.isalpha() and part.islower() and len(part) > 2 for part in _SEPARATED.split(value))
    seen.append(f"plain parts={min(plain, 4)} {form}")
    if is_jumbled(value):
        seen.append("jumbled")
    # The parts of a drawn value are chance; weights on them would only repeat the training set.
    if form not in _DRAWN:
        words = words_of(value)
        seen += [f"part={word}" for word in words if word.isalpha()]
        if not KIND_OF.keys().isdisjoint(words):
            seen.append(f"names itself {form}")
    return seen, form


def _step(size: int) -> int:
    return next(step for step in _SIZES if size <= step)


def form_of(value: str) -> str:
    """Return the sort of a value by itself: a reader's word for it without its surroundings."""
    # From the surest form to the vaguest: the first that fits is the sort.
    if is_uuid(value):
        return "uuid"
    if value.replace("-", "").replace(" ", "").isdigit():
        return "number"
    if len(value) >= 16 and is_hash_like(value):
        return "hex"
    if len(value) >= _FEWEST_OF_SALT and classes(value) == _MOST_CLASSES and entropy(value) >= _FEWEST_BITS_OF_SALT:
        return "drawn"
    if is_term(value):
        return "term"
    if any(map(str.isspace, value)):
        words = [word.lower() for word in WORD.findall(value)]
        return "sentence" if _FUNCTION_WORDS.intersection(words) else "words"
    if is_phrase(value):
        return "phrase"
    if is_reference(value):
        return "reference"
    if value.isalpha():
        return (
            "lower"
            if value.islower()
            else "upper"
            if value.isupper()
            else "capital"
            if value[1:].islower()
            else "camel"
        )
    if is_wordy(value):
        return "wordy 1" if any(map(str.isdigit, value)) else "wordy"
    if is_random(value):
        return "drawn"
    return f"mixed {classes(value)}"


def find_likely(text: str, lowered: str, runs: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find the values that are likely secrets. `runs` are those that are long enough for a key."""
    weights = weights_of_package()
    found: list[NearValue] = []
    # In `user:X` both the whole and X may look like a secret: the inner one is kept.
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


def _is_setting_in(text: str, candidate: NearValue, inner: ValueSpan) -> bool:
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
