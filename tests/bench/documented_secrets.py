"""A second corpus of planted secrets, drawn by chance from `documented_kinds.py`.

It was written before the product's rules were read, so that its first figure was a blind one. Each case is a short text
as people, tools and files have it, with the strings that must be nowhere on the disk afterwards.
"""

from __future__ import annotations

import base64
import random
import re
import string
import textwrap
from collections.abc import Callable, Iterator

from .documented_kinds import MARKED, PASSWORDS, PLACES_OF_MARKED, PLACES_OF_UNMARKED, UNMARKED
from .planted_secrets import Planted, drawn

USERS = ("marta", "deploy", "jonas.weber", "svc_backup", "admin", "app_rw", "lucia", "ci-bot")
HOSTS = ("db1.nordlicht.example", "10.20.0.14", "mail.taller.example", "files.kontor.example", "stage.example.org")
WORDS = ("Winter", "salmon", "Kiefer", "ventana", "Rocket", "otter", "Zucker", "puente", "Garden", "lantern", "Hafen")
SIGNS = "!#*+-_.?=~"
# Of the 2,048 words of BIP 39, as its English list has them.
MNEMONIC = (
    "abandon ability absorb access acid acoustic across adapt adult afraid alcohol alert alien almost amateur anchor "
    "ancient angle arch arena arrow artist asthma atom autumn avocado balcony bamboo banner barrel basket beach become "
    "blanket blossom border bracket breeze brick bronze burger cabin cactus camera canoe canvas carbon cargo casino "
    "castle catalog cereal chapter cherry chuckle cinnamon citizen clarify coconut comfort copper coral cotton cradle "
    "crater cricket crystal cushion damage daring debris decade depart desert dignity dinosaur dolphin donkey dragon "
    "eager eagle echo elbow elegant ember enforce enrich episode erosion essay exotic fabric falcon fatigue festival "
    "fiscal flavor flower forest fossil gadget galaxy garlic genuine giraffe glance gospel gravity guitar harvest "
    "hazard hidden hockey hybrid immune inherit jacket jungle kangaroo kidney kitten ladder lawsuit lemon lizard lunar "
    "magnet mango marble mimic mosquito noodle nuclear oblige obtain onion orbit oxygen panther pigeon pottery pyramid "
    "quantum rabbit rebel ribbon saddle salmon satoshi scorpion sibling spatial tornado umbrella velvet walnut zebra"
).split()


def documented(rng: random.Random, n: int = 400) -> list[Planted]:
    """Draw `n` cases, going round the kinds in a random order, so that each comes at least once."""
    makers = [*_marked(), *_unmarked(), *_passwords(), *_keys()]
    cases: list[Planted] = []
    while len(cases) < n:
        cases += (make(rng) for make in rng.sample(makers, len(makers)))
    return cases[:n]


def _planted(kind: str, where: str, text: str, secrets: tuple[str, ...]) -> Planted:
    """Return a case that counts as left if the first or the last three fifths of a secret are."""
    pieces = []
    for secret in secrets:
        length = -(-len(secret) * 3 // 5)
        pieces += [secret[:length], secret[-length:]]
    return Planted(kind, "documented", where, text, tuple(pieces))


def _marked() -> Iterator[Callable[[random.Random], Planted]]:
    yield from (_of_issuer(line, PLACES_OF_MARKED) for line in MARKED.strip().splitlines())


def _unmarked() -> Iterator[Callable[[random.Random], Planted]]:
    yield from (_of_issuer(line, PLACES_OF_UNMARKED) for line in UNMARKED.strip().splitlines())


def _of_issuer(line: str, places: dict[str, tuple[str, ...]]) -> Callable[[random.Random], Planted]:
    kind, issuer, form, variable = line.split("|")
    camel = re.sub(r"_(.)", lambda m: m[1].upper(), variable.lower())

    def make(rng: random.Random) -> Planted:
        key, where = drawn(form, rng), rng.choice(tuple(places))
        text = rng.choice(places[where]).format(
            t=key, v=issuer, E=variable, e=variable.lower(), c=camel, n=rng.randrange(3, 180)
        )
        return _planted(kind, where, text, (key.rsplit("/", 1)[1] if key.startswith("https:") else key,))

    return make


def _passwords() -> Iterator[Callable[[random.Random], Planted]]:
    yield from (_of_place(line) for line in PASSWORDS.strip().splitlines())


def _of_place(line: str) -> Callable[[random.Random], Planted]:
    kind, where, place = line.split("|", 2)
    place = place.replace("\\n", "\n").replace("\\t", "\t")

    def make(rng: random.Random) -> Planted:
        known = {"u": rng.choice(USERS), "h": rng.choice(HOSTS), "n": str(rng.randrange(3, 180))}
        values = _values(rng, known["u"])
        held = tuple(values[name] for name in re.findall(r"(?<!\{)\{(\w+)\}", place) if name in values)
        return _planted(kind, where, place.format(**known, **values), held)

    return make


def _values(rng: random.Random, user: str) -> dict[str, str]:
    """Draw every value that a place may ask for; most are not used."""
    forms = {
        "h20": "{h20}", "h24": "{h24}", "h32": "{h32}", "h32b": "{h32}", "h40": "{h40}", "h64": "{h64}",
        "a20": "{A20}", "a21": "{A21}", "a24": "{A24}", "a26": "{A26}", "a27": "{A27}", "a30": "{A30}", "a32": "{A32}",
        "a15": "{A15}", "b60": "{A60}", "b60b": "{B60}", "d6": "{d6}", "d15": "{d15}", "i": "{216}", "k": "{B86}",
        "k40": "{B40}", "w": "{B43}=", "o": "{232}", "q": "{A43}", "uuid": "{uuid}", "uuidb": "{uuid}",
        "uuidc": "{uuid}",
    }  # fmt: skip
    values = {name: drawn(form, rng) for name, form in forms.items()}
    password = _password(rng)
    return values | {
        "p": password,
        "b": base64.b64encode(password.encode()).decode(),
        "ub": base64.b64encode(f"{user}:{password}".encode()).decode(),
        "s": "".join(rng.choices(string.ascii_letters + string.digits + "!@#$%^&*()-_[]{}<>~+=,.;:/?|", k=64)),
        "r": "  ".join(drawn("{a5}-{a5}", rng) for _ in range(8)),
        "m12": " ".join(rng.sample(MNEMONIC, 12)),
        "m24": " ".join(rng.sample(MNEMONIC, 24)),
        "pem64": base64.b64encode(_pem(rng, "EC PRIVATE KEY", 3).encode()).decode(),
    }


def _password(rng: random.Random) -> str:
    """Draw a password of one of the makes that people and generators have."""
    first, second = rng.sample(WORDS, 2)
    sign, number = rng.choice(SIGNS), rng.randrange(10, 9999)
    return rng.choice(
        (
            f"{first}{number}{sign}",
            f"{first}{sign}{second}{sign}{number}",
            f"{first.lower()}-{second.lower()}-{drawn('{a4}', rng)}-{number}",
            drawn("{A10}", rng) + sign + drawn("{A4}", rng),
            drawn("{A18}", rng),
            drawn("{A5}", rng) + "!" + drawn("{A4}", rng) + "#" + drawn("{A3}", rng),
            f"{first[0]}{number}{second[1:4]}{sign}{drawn('{d3}{A3}', rng)}",
        )
    )


def _pem(rng: random.Random, label: str, lines: int) -> str:
    body = "\n".join(drawn("{B64}", rng) for _ in range(lines))
    return f"-----BEGIN {label}-----\n{body}\n{drawn('{B38}', rng)}==\n-----END {label}-----"


KEYS = ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY")


def _keys() -> Iterator[Callable[[random.Random], Planted]]:
    for name, place in _KEY_PLACES.items():
        yield _of_key(name, place)
    yield _pgp
    yield _putty


def _of_key(name: str, place: Callable[[str], str]) -> Callable[[random.Random], Planted]:
    def make(rng: random.Random) -> Planted:
        pem = _pem(rng, rng.choice(KEYS), rng.randrange(3, 12))
        text = place(pem)
        held = tuple(line for line in _key_lines(pem) if line in text)
        return _planted(f"private key {name}", "listing", text, held or (text.rpartition("=L")[2],))

    return make


def _key_lines(block: str) -> tuple[str, ...]:
    return tuple(line for line in block.splitlines() if re.fullmatch(r"[A-Za-z0-9+/=]{30,}", line))


def _numbered(text: str, mark: str) -> str:
    return "\n".join(f"{n:>6}{mark}{line}" for n, line in enumerate(text.splitlines(), 1))


_KEY_PLACES: dict[str, Callable[[str], str]] = {
    "as a file": lambda pem: pem,
    "after words": lambda pem: f"here is the key that the server refuses:\n\n{pem}\n\nany idea why?",
    "as read": lambda pem: _numbered(pem, "→"),
    "as cat numbers": lambda pem: _numbered(pem, "\t"),
    "as grep shows": lambda pem: "\n".join(f"deploy/id_rsa:{n}:{line}" for n, line in enumerate(pem.splitlines(), 1)),
    "in a diff": lambda pem: "@@ -0,0 +1,9 @@\n" + textwrap.indent(pem, "+"),
    "in an answer": lambda pem: textwrap.indent(pem, "> "),
    "in yaml": lambda pem: "tls:\n  key: |\n" + textwrap.indent(pem, "    "),
    "in a variable": lambda pem: 'PRIVATE_KEY="' + pem.replace("\n", "\\n") + '"',
    "of a service account": lambda pem: (
        '{"type": "service_account", "private_key_id": "x", "private_key": "' + pem.replace("\n", "\\n") + '\\n"}'
    ),
    "in a string": lambda pem: "key = (\n" + "\n".join(f'    "{line}\\n"' for line in pem.splitlines()) + "\n)",
    "cut at its end": lambda pem: "$ head -5 id_rsa\n" + "\n".join(pem.splitlines()[:5]),
    "in a code fence": lambda pem: f"```\n{pem}\n```",
    "as base64": lambda pem: "TLS_KEY_B64=" + base64.b64encode(pem.encode()).decode(),
}


def _pgp(rng: random.Random) -> Planted:
    pem = _pem(rng, "PGP PRIVATE KEY BLOCK", 8)
    pem = pem.replace("-----\n", "-----\n\n", 1)
    return _planted("pgp private key", "listing", f"$ gpg --export-secret-keys --armor\n{pem}", _key_lines(pem))


def _putty(rng: random.Random) -> Planted:
    lines = [drawn("{B64}", rng) for _ in range(4)]
    text = (
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: laptop\nPublic-Lines: 1\n"
        f"{drawn('{B64}', rng)}\nPrivate-Lines: 4\n" + "\n".join(lines) + f"\nPrivate-MAC: {drawn('{h64}', rng)}"
    )
    return _planted("putty private key", "listing", text, tuple(lines))
