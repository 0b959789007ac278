"""Control characters: commands to a terminal are no part of a text, and no entrance to the memory lets them in."""

from __future__ import annotations

import re

_SEQUENCE = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"
"""A colour or a move of the cursor (CSI); a title or a link of a terminal's window (OSC), up to its end."""

_CONTROL = re.compile(_SEQUENCE + r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties): marks of direction, with which a line shows other
than it reads, and characters that never show. The joiners and two variation selectors are apart, see below."""

_BLANK = "\u2028\u2029\u2800\ufff9-\ufffb\U00013430-\U0001343f\U0001d159"
"""Line ends of some programs alone, and characters that show nothing without being ignorable."""

_EMOJI, _SKIN = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u27bf\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff",
    "\U0001f3fb-\U0001f3ff",
)
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\ua840-\ua87f\ufb50-\ufdff\ufe70-\ufefc"
"""Scripts whose letters join: Arabic with Persian, Syriac, the Indic ones, Burmese, Khmer, Phags-pa."""

_VIRAMA = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_UNSEEN = re.compile(
    f"[{_IGNORABLE}{_BLANK}]"
    # One joiner stays within an emoji (woman, joiner, computer) and in a word of a script that joins.
    f"|[\u200c\u200d](?!(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))[{_EMOJI}]"
    f"|(?<=[{_JOINING}][\u200c\u200d])[{_JOINING}]|(?<=[{_VIRAMA}][\u200c\u200d]))"
    # One selector stays behind the emoji that it shows in colour or not, and within a keycap.
    f"|[\ufe0e\ufe0f](?!(?<=[{_EMOJI}][\ufe0e\ufe0f])|(?<=[0-9#*]\ufe0f)\u20e3)"
)


def without_controls(text: str) -> str:
    """Drop terminal sequences and control characters but newline and tab; a return is a newline.

    A lone surrogate, which JSON can spell and UTF-8 cannot, becomes U+FFFD.
    """
    # A return alone would let a line overwrite the one before it on a terminal.
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    if not text.isascii():  # an ASCII text has no surrogates
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def plain(text: str) -> str:
    """Drop characters, too, that do not show or change how others show: for pages and envelopes made of many texts."""
    text = without_controls(text)
    return text if text.isascii() else _UNSEEN.sub("", text)
