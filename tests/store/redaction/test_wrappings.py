"""What is wrapped is read, and goes with the whole of its wrapping."""

from __future__ import annotations

import base64

import pytest
from dreamd.store.redaction import redact
from dreamd.store.redaction.wrappings import Unwrapped, unwrapped
from hypothesis import given
from hypothesis import strategies as st

K = "glpat-Xw3k" + "T9vLq2ZbR7nYp4Ms"
P = "otter!Lamp" + "83"
P64 = base64.b64encode(P.encode()).decode()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"const k = '{K[:12]}' + '{K[12:]}';", "const k = '[redacted:encoded]';"),
        (f'k = ("{K[:12]}"\n     "{K[12:]}")', 'k = ("[redacted:encoded]")'),
        (f'conn = "Password={P[:6]}" & _\n  "{P[6:]}"', 'conn = "Password=[redacted:encoded]"'),
        (f"token={K[:12]}\\\n    {K[12:]}\n", "token=[redacted:encoded]\n"),
        (f"echo {P64} | base64 -d | docker login --password-stdin", None),
        (f"ADMIN_PASSWORD_B64: {P64}", None),
        (f"password = bytes.fromhex('{P.encode().hex()}')", None),
        ('{"password":"' + "".join(f"\\u{ord(c):04x}" for c in P) + '"}', '{"password":"[redacted:encoded]"}'),
        ('password = "' + "".join(f"\\x{ord(c):02x}" for c in P) + '"', 'password = "[redacted:encoded]"'),
    ],
)
def test_a_wrapped_secret_goes_whole(text: str, kept: str | None) -> None:
    redacted = redact(text)
    assert redacted.found
    assert not [piece for piece in (K[:12], K[12:], P64[:8], P64[-8:]) if piece in redacted.text]
    assert P.encode().hex()[:12] not in redacted.text
    assert kept is None or redacted.text == kept


@pytest.mark.parametrize(
    "text",
    [
        f"token: {K[:14]}\n{K[14:]}\nthen we went on",
        f"> token: {K[:14]}\n> {K[14:]}\n> then we went on",
    ],
)
def test_a_key_goes_on_where_a_line_ended(text: str) -> None:
    kept = redact(text).text
    assert K[14:] not in kept
    assert kept.endswith("then we went on")


@pytest.mark.parametrize(
    "text",
    [
        "AKIA is how it begins\nAWS_REGION=eu-central-1a2",
        "echo aGVsbG8gd29ybGQ= | base64 -d",
        "print('one' + 'two')\nnames = ['a', 'b']",
        "x = 'caf\\u00e9 au lait'",
        "00000000  68 65 6c 6c 6f 20 77 6f  72 6c 64 0a              |hello world.|",
    ],
)
def test_what_is_wrapped_and_no_secret_stays(text: str) -> None:
    assert redact(text).text == text


@given(st.lists(st.tuples(st.text("ab", max_size=4), st.text("xy", min_size=1, max_size=4), st.text("z", max_size=3))))
def test_what_is_unwrapped_is_mapped_back_onto_its_wrapping(pieces: list[tuple[str, str, str]]) -> None:
    text, wrappings = "", []
    for before, wrapping, inner in pieces:
        text += before
        wrappings.append((len(text), len(text) + len(wrapping), inner))
        text += wrapping
    view = Unwrapped(text, wrappings)
    for start in range(len(view.text)):
        bounds = view.bounds(start, start + 1)
        assert (bounds is None) == (view.text[start] != "z")
        if bounds is not None:
            assert bounds in [(first, last) for first, last, _ in wrappings]


def test_nothing_is_unwrapped_where_nothing_is_wrapped() -> None:
    assert unwrapped("the password is in the vault", "the password is in the vault", []) is None


def test_the_next_setting_is_not_the_rest_of_a_key() -> None:
    assert redact(f"A_TOKEN={K}\nREGION_1=eu-central-1\n").text == "A_TOKEN=[redacted:gitlab]\nREGION_1=eu-central-1\n"
