"""The table of issuers and its patterns hold together: what a line describes goes, and what is near to it stays."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Iterator

from dreamd.store.redaction import redact
from dreamd.store.redaction.key_forms import SHAPES, Shape

LETTERS, DIGITS = string.ascii_letters, string.digits
DRAWN_FROM = {
    "A": LETTERS + DIGITS,
    "a": string.ascii_lowercase + DIGITS,
    "U": string.ascii_uppercase + DIGITS,
    "d": DIGITS,
    "h": "0123456789abcdef",
    "b": LETTERS + DIGITS + "-_",
    "w": LETTERS + DIGITS + "_",
    "B": LETTERS + DIGITS + "+/",
    "c": LETTERS + DIGITS,
    "p": LETTERS + DIGITS + "/",
    "q": LETTERS + DIGITS + "/-",
    "t": LETTERS + DIGITS + "!@#$",
}
"""The characters that examples are drawn from; of the widest alphabets a part, as issuers use it."""

AROUND = (
    "{}",
    "it is {} now.",
    "`{}`",
    'x = "{}"',
    "X={}\nY=1",
    "     3→X={}",
    "2026-11-20 12:01:02 INFO sent {} ok",
    "| name | {} |",
    "({})",
)
PLACE = re.compile(r"<(?:o|([A-Za-z])(\d+)(\+|-\d+)?)>")


def example(shape: Shape, rng: random.Random) -> str:
    """Draw a key of the documented form."""

    def draw(place: re.Match[str]) -> str:
        if place[1] is None:
            return rng.choice(("", "prod-" if "-<o>" in shape.form else "prod."))
        least = int(place[2])
        most = least + 8 if place[3] == "+" else int(place[3][1:]) if place[3] else least
        drawn = rng.choices(DRAWN_FROM[place[1]], k=rng.randint(least, most))
        drawn[0] = rng.choice(sorted(set(DRAWN_FROM[place[1]]) & set(LETTERS + DIGITS)))
        drawn[-1] = drawn[-1] if drawn[-1].isalnum() else "7"
        return "".join(drawn)

    return PLACE.sub(draw, shape.form)


def test_what_a_line_describes_goes() -> None:
    assert {shape.form: kept for shape in SHAPES if (kept := list(kept_of(shape)))} == {}


def kept_of(shape: Shape) -> Iterator[str]:
    """Yield what is kept of texts with a key of the form, where that is more than it should be."""
    rng = random.Random(shape.form)
    told = f"{shape.words[0]}: " if shape.words else ""
    for around in AROUND:
        key = example(shape, rng)
        kept = redact(told + around.format(key)).text
        if key.removeprefix(shape.head) in kept or "[redacted:" not in kept:
            yield f"{key} in {around!r} became {kept!r}"


def test_what_is_near_to_a_line_stays() -> None:
    texts = [f"it is {near} now" for shape in SHAPES for near in near_misses(shape)]
    assert [text for text in texts if redact(text).text != text] == []


def near_misses(shape: Shape) -> list[str]:
    """Return a stand-in, words in the key's place, and the beginning alone."""
    head = shape.head
    stand_ins = [PLACE.sub(lambda place: "x" * int(place[2] or 0), shape.form)]
    words = "-".join(["some", "thing", "else", "here", "and", "there"])
    return [*stand_ins, f"{head}{words}", head] if head else stand_ins


def test_a_form_that_proves_nothing_needs_its_words() -> None:
    shapes = [shape for shape in SHAPES if shape.words]
    assert shapes
    for shape in shapes:
        key = example(shape, random.Random(shape.form))
        assert not list(shape.find(f"it is {key} now")), shape.form
        assert list(shape.find(f"{shape.words[-1]} {key} now")) or not shape.form.endswith(">"), shape.form


def test_the_table_is_as_large_as_it_is_said_to_be() -> None:
    assert len({shape.issuer for shape in SHAPES}) >= 120
    assert len({(shape.form, shape.words) for shape in SHAPES}) == len(SHAPES) >= 200
