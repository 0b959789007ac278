"""Personal identifiers: e-mail addresses, telephone and card numbers, IBANs; looked for only where a setting asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .shapes import Span

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_PHONE = re.compile(
    r"(?<![\w.+/-])(?:\+|00)[1-9]\d{0,2}[ ./-]?(?:\(\d{1,5}\)[ ./-]?)?\d{1,5}(?:[ ./-]?\d{2,5}){1,5}(?![\w-])"
)
_LOCAL_PHONE = re.compile(r"(?<![\w.+/-])(?:\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?![\w-])")
_CALLED = re.compile(
    r"(?i)(?:tel(?:efon|éfono)?|phone|mobile|mobil|cell|call|fax)\b[^\n\d+(]{0,20}(0[\d ()/-]{6,18}\d)(?![\w-])"
)
_PHONE_DIGITS = range(7, 16)  # ITU E.164: at most 15
_PUBLIC_ADDRESSES = ("example.com", "example.org", "example.net", "noreply.github.com", "noreply.anthropic.com")


def find_personal(text: str) -> Iterator[Span]:
    """Find what names or reaches a person; card numbers and IBANs with their checksums alone."""
    if "@" in text:
        for found in _EMAIL.finditer(text):
            if not found[0].lower().endswith(_PUBLIC_ADDRESSES):
                yield *found.span(), "email"
    for found in _IBAN.finditer(text):
        if is_iban(found[0]):
            yield *found.span(), "iban"
    for found in _CARD.finditer(text):
        if is_card(found[0]):
            yield *found.span(), "card"
    for pattern in (_PHONE, _LOCAL_PHONE, _CALLED):
        for found in pattern.finditer(text):
            if sum(map(str.isdigit, found[0])) in _PHONE_DIGITS:
                yield *found.span(pattern.groups), "phone"


def is_card(text: str) -> bool:
    """Return True for 13 to 19 digits of a known network whose check digit is right (ISO/IEC 7812, Luhn)."""
    digits = [int(c) for c in text if c.isdigit()]
    if digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) < 2:
        return False
    doubled = [digit if n % 2 == 0 else digit * 2 - 9 * (digit > 4) for n, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Return True for an IBAN whose checksum is right (ISO 13616, modulo 97)."""
    plain = text.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1
