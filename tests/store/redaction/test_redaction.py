"""Secrets go, everything else stays. No secret stands here as such: each is put together at run time."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import string
import uuid
from pathlib import Path

import pytest
from dreamd.store.redaction import find, redact
from hypothesis import given
from hypothesis import strategies as st

from tests.json_strings import strings
from tests.stand_ins import REAL, STAND_INS

_rng = random.Random(7)
ALPHANUMERIC = string.ascii_letters + string.digits


def drawn(length: int, alphabet: str = ALPHANUMERIC) -> str:
    return "".join(_rng.choice(alphabet) for _ in range(length - 3)) + "a7Q"


def jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "iat": 1516239022})
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts) + "." + drawn(43)
    )


def pem(kind: str = "RSA ") -> str:
    body = base64.b64encode(_rng.randbytes(700)).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE " + f"KEY-----\n{lines}\n-----END {kind}PRIVATE " + "KEY-----"


UPPER = string.ascii_uppercase + string.digits
SECRETS = {
    "aws": "AK" + "IA" + "".join(_rng.choice(UPPER) for _ in range(16)),
    "github": "gh" + "p_" + drawn(36),
    "gitlab": "glp" + "at-" + drawn(20),
    "anthropic": "sk-" + "ant-api03-" + drawn(93),
    "openai": "sk-" + "proj-" + drawn(48),
    "slack": "xo" + "xb-" + "123456789012-1234567890123-" + drawn(24),
    "google": "AI" + "za" + drawn(35),
    "stripe": "sk_" + "live_" + drawn(24),
    "huggingface": "h" + "f_" + drawn(34),
    "npm": "np" + "m_" + drawn(36),
    "pypi": "py" + "pi-" + "AgEIcHlwaS5vcmc" + drawn(100),
    "sendgrid": "S" + "G." + drawn(22) + "." + drawn(43),
    "jwt": jwt(),
    "private-key": pem(),
}
AROUND = ("{}", "here it is: {} thanks", "`{}`", "('{}')", "key is {}.", "a\n{}\nb", '{{"k": "{}"}}', "<{}>", "“{}”")


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", SECRETS)
def test_a_shaped_secret_goes_and_what_is_around_it_stays(kind: str, around: str) -> None:
    redacted = redact(around.format(SECRETS[kind]))
    assert redacted.text == around.format(f"[redacted:{kind}]")
    assert redacted.found == (kind,)


P = "hun" + "ter2"
T = drawn(32)
H = hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    ("text", "kind", "secret"),
    [
        (f'password = "{P}"', "password", P),
        (f"DB_PASSWORD={P}", "password", P),
        (f"export PGPASSWORD={P}; psql", "password", P),
        (f"password: {P}", "password", P),
        (f'{{"password": "{P}"}}', "password", P),
        (f"{{'passwd': '{P}'}}", "password", P),
        (f'os.environ["DB_PASSWORD"] = "{P}"', "password", P),
        (f"my password is {P}.", "password", P),
        (f"mysql --password={P} -u root", "password", P),
        (f"login --password {P}", "password", P),
        ('passphrase = "correct horse battery staple"', "password", "correct horse battery staple"),
        (f"postgres://app:{P}@db.internal:5432/app", "url", P),
        (f"https://bot:{T}@git.example.org/x.git", "url", T),
        (f"Authorization: Bearer {T}", "bearer", T),
        (f"curl -H 'Authorization: Basic {base64.b64encode(b'me:secret123').decode()}'", "bearer", "bWU6c2VjcmV0MTIz"),
        (f"API_KEY={T}", "token", T),
        (f'api_key: "{T}"', "token", T),
        (f'"accessToken": "{T}",', "token", T),
        (f"aws_secret_access_key = {T}+/{T[:6]}", "aws", f"{T}+/{T[:6]}"),
        (f"SECRET_KEY = '{H}'", "token", H),
        (f"GET /v1?token={T}&page=2", "token", T),
        (f"client-secret: {T}", "token", T),
        (f'{{\\"api_key\\": \\"{T}\\"}}', "token", T),
        (f"NPM --token {T}", "token", T),
    ],
)
def test_a_secret_that_its_name_betrays_goes(text: str, kind: str, secret: str) -> None:
    redacted = redact(text)
    assert redacted.text == text.replace(secret, f"[redacted:{kind}]")
    assert redacted.found == (kind,)


@pytest.mark.parametrize(
    "form",
    [
        "mysql -u root -p{} shop",
        "redis-cli -h cache -a {} PING",
        "curl -u deploy:{} https://nexus.example.org",
        "sshpass -p '{}' ssh root@10.0.4.7",
        "docker login registry.example.org -u ci -p {}",
        "CREATE USER 'app'@'%' IDENTIFIED BY '{}';",
        "ALTER ROLE app WITH PASSWORD '{}';",
        "<password>{}</password>",
        "machine api.example.org\n  login ci\n  password {}",
        "db.example.org:5432:shop:app:{}",
        "Password:\n{}\n",
        "the password for the staging box is {}",
        "das Passwort lautet {}",
        "PGPASSWORD={} psql -h db",
        "     5→DB_PASSWORD={}",
        "Server=db;User ID=sa;Password={};Encrypt=True",
        "requirepass {}",
        "define('DB_PASSWORD', '{}');",
        "log in with admin / {}",
    ],
)
@pytest.mark.parametrize("password", ["Tr0ub4dor&3", "lantern!walnut42", "q7Zr-T2mXv-9LbK4s"])
def test_a_password_goes_wherever_people_type_it(form: str, password: str) -> None:
    redacted = redact(form.format(password))
    assert redacted.text == form.format(f"[redacted:{redacted.found[0]}]")


@pytest.mark.parametrize(
    "form",
    [
        "here's the API key: {}",
        "the Acme token is {}",
        "I rotated the Acme token yesterday, the new one is {}",
        "please use {} as the deploy token",
        "TWILIO_AUTH_TOKEN={}",
        "HEROKU_API_KEY={}",
        "https://api.example.org/v1?access_token={}&page=2",
        "- name: ACME_TOKEN\n  value: {}",
        "| ACME_SECRET | {} |",
        "acmeAuthToken: '{}'",
    ],
)
@pytest.mark.parametrize(
    "key", [T, H[:32], H[:40], str(uuid.UUID(int=2**120 + 3**75))], ids=["mixed", "32", "40", "uuid"]
)
def test_a_drawn_value_goes_beside_words_that_name_it(form: str, key: str) -> None:
    redacted = redact(form.format(key))
    assert redacted.text == form.format(f"[redacted:{redacted.found[0]}]")


@pytest.mark.parametrize(
    "line", ["{n:6d}→{line}", "{n:6d}\t{line}", "id_rsa:{n}:{line}", "+{line}", "> {line}", "    {line}"]
)
def test_a_private_key_goes_as_listings_print_it(line: str) -> None:
    listed = "\n".join(line.format(n=n, line=each) for n, each in enumerate(pem().splitlines(), 1))
    kept = redact(f"cat it\n{listed}\nthat was it").text
    assert not [each for each in pem().splitlines() if each in kept]
    assert kept.startswith("cat it\n")
    assert kept.endswith("\nthat was it")
    assert "[redacted:private-key]" in kept


def test_what_is_left_of_a_key_without_its_beginning_goes() -> None:
    assert redact("so:\n" + pem()[300:]).text == "so:\n[redacted:private-key]"


def test_a_key_in_base64_goes_and_a_certificate_stays() -> None:
    key = base64.b64encode(pem().encode()).decode()
    certificate = base64.b64encode(pem().replace("RSA PRIVATE KEY", "CERTIFICATE").encode()).decode()
    text = "certificate-data: {}\nclient-key-data: {}\n"
    assert redact(text.format(certificate, key)).text == text.format(certificate, "[redacted:private-key]")


def test_seed_phrases_and_recovery_codes_go() -> None:
    words = "legal winner thank year wave sausage worth useful legal winner thank yellow"
    assert redact(f"my seed phrase: {words}.").text == "my seed phrase: [redacted:seed-phrase]."
    assert redact("recovery codes: 8f3k2-x92ma 7hh2k-p01xz").text.count("[redacted:recovery-code]") == 2
    said = "The recovery phrase is what people write down when they make their first wallet, on paper."
    assert redact(said).text == said


SEED = "legal winner thank year wave sausage worth useful amber canyon oyster yellow".split()


@pytest.mark.parametrize(
    "text",
    [
        " ".join(SEED),
        f"in this order: {', '.join(SEED)}",
        f"const words = [{', '.join(map(repr, SEED))}];",
        "\n".join(f"{number}. {word}" for number, word in enumerate(SEED, 1)),
    ],
)
def test_a_wallets_words_go_without_their_name(text: str) -> None:
    assert "seed-phrase" in redact(text).found
    assert not [word for word in SEED[1:-1] if word in redact(text).text]


@pytest.mark.parametrize(
    "text",
    [
        "lower case and no stops makes a long line that reads like words from a wallet but says something",
        "morgen kommt der nachbar mit seinem hund vorbei und bringt den schlüssel",
        "apples, pears, plums, grapes, lemons, limes, melons, cherries, berries, dates, figs, nuts",
    ],
)
def test_words_of_a_sentence_or_a_list_stay(text: str) -> None:
    assert redact(text).text == text


def test_the_body_of_a_key_goes_without_its_first_line() -> None:
    body = base64.b64encode(b"\x30\x82\x04\xbd\x02\x01\x00\x30\x0d" + _rng.randbytes(500)).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    assert redact(f"the body:\n{lines}\n\nthat was it").text == "the body:\n[redacted:private-key]\n\nthat was it"


def test_a_hash_of_a_password_goes_from_where_systems_keep_it() -> None:
    line = f"root:$6${drawn(16)}${drawn(86)}:19700:0:99999:7:::"
    assert redact(line).text == "root:[redacted:crypt]:19700:0:99999:7:::"


def test_where_a_secret_stands_is_said() -> None:
    text = f"one\nDB_PASSWORD={P}\n{SECRETS['github']}\n"
    assert [(text[start:end], kind) for start, end, kind in find(text)] == [
        (P, "password"),
        (SECRETS["github"], "github"),
    ]


def test_a_private_key_without_its_end_goes_as_far_as_it_looks_like_one() -> None:
    cut = pem("")[:400]
    assert redact(f"see {cut}\n\nthen I went home.").text == "see [redacted:private-key]\n\nthen I went home."
    escaped = pem().replace("\n", "\\n")
    assert redact(f'"{escaped}"').text == '"[redacted:private-key]"'


def test_several_secrets_are_counted_one_by_one() -> None:
    text = f"{SECRETS['github']} {SECRETS['aws']} password={P} {SECRETS['github']}"
    assert redact(text).text == "[redacted:github] [redacted:aws] password=[redacted:password] [redacted:github]"
    assert sorted(redact(text).found) == ["aws", "github", "github", "password"]


DRAWN = "q7Zk3vQx9LmT2bRw8NcY5dHs1JpF4gKa6UeV"
ON_THE_PAGE: list[tuple[str, list[tuple[str, str]]]] = [
    ("keys with a form of their own", [("glsa_{}", f"{DRAWN[:32]}_0a1b2c3d")]),
    ("a known beginning before any long drawn rest", [("it is figd_{} now", DRAWN), ("figd_{}", DRAWN * 2)]),
    (
        "a value near the name of a secret, in code, settings, commands, tables and some twenty languages",
        [
            ("DB_PASS={}", "Vq7!lantern42"),
            ("TWILIO_AUTH_TOKEN={}", "9f8e7d6c5b4a39281706f5e4d3c2b1a0"),
            ('"apiKey": "{}"', DRAWN),
            ("the W&B API key is {}", "9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c"),
            ("use {} as the deploy token", DRAWN),
            ("the password for the box is {}", "Vq7!lantern42"),
            ("archiwum otworzy Pan hasłem {}", "Vq7!lantern42"),
            ("veritabanı şifresi {} kullanıcı adı stok", "Vq7lantern42"),
            ("서버 비밀번호는 {} 이고", "gimbap77!x"),
            ('page.fill("#password", "{}")', "Vq7!lantern42"),
            ('Client("{}")', DRAWN),
            ("Authorization: Bearer {}", DRAWN),
            ("Cookie: sessionid={}", DRAWN[:32].lower()),
            ("https://b.s3.amazonaws.com/x?a=1&X-Amz-Signature={}", "9f8e7d6c" * 8),
        ],
    ),
    (
        "passwords in their places",
        [
            ("nas.local:5432:shop:me:{}", "Vq7!lantern42"),
            ("https://user:{}@host.example/x", "Vq7lantern42"),
            ("https://shop.example/reset/{}", DRAWN),
            ("| user | password |\n|---|---|\n| me | {} |", "Vq7!lantern42"),
            ("mysql -u me -p{} shop", "Vq7!lantern42"),
            ("echo {} | docker login -u me --password-stdin", "Vq7!lantern42"),
        ],
    ),
    (
        "words in place of a password, PINs, wallets' words, recovery codes",
        [
            ("passphrase: {}", "walnut lantern harbour oak seven"),
            ("the PIN of the card is {}", "4711"),
        ],
    ),
    (
        "what is wrapped",
        [
            ("ENV_FILE_B64={}", base64.b64encode(b"DB_PASSWORD=Vq7!lantern42\nPORT=1\n").decode()),
            ("key = 'sk_' + 'live_' + '{}'", DRAWN[:24]),
        ],
    ),
    ("private keys", [('{{"kty": "EC", "crv": "P-256", "d": "{}"}}', DRAWN + DRAWN[:7])]),
]


@pytest.mark.parametrize(("row", "examples"), ON_THE_PAGE, ids=lambda one: str(one)[:40])
def test_what_the_page_says_is_known_goes(row: str, examples: list[tuple[str, str]]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"| {row} |" in page
    assert page.partition("What is known for a secret:")[2].count("\n| ") >= len(ON_THE_PAGE)
    stay = [form for form, secret in examples if secret in redact(form.format(secret)).text]
    assert not stay


@pytest.mark.parametrize("coded", ["X%3D{}", "\\nX={}", "X&#61;{}", "\x1b[32mX={}\x1b[0m"])
def test_escapes_count_as_what_they_stand_for(coded: str) -> None:
    key = "gh" + "p_" + DRAWN[:36]
    assert key not in redact(coded.format(key)).text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Please choose a password: it must have 8-16 characters.",
        "The password is required and the token is optional.",
        "I forgot my password is not a sentence",
        "def login(user: str, password: str) -> Token: ...",
        "password = getpass.getpass()",
        "password = os.environ['DB_PASSWORD']",
        "password=user.password",
        "password=hash_password(plain)",
        "password: ${DB_PASSWORD}",
        "PASSWORD=<your password>",
        'password = "password"',
        "password: {{ vault_db_password_v2 }}",
        "if (form.password !== form.password2) return;",
        "token = response.json()['access_token']",
        "token: Optional[str] = None",
        "tokenizer = AutoTokenizer.from_pretrained('all-MiniLM-L6-v2')",
        "max_tokens=4096, token_count=1234567890123456",
        "secret_name: projects/my-project-123/secrets/db-password/versions/3",
        "secretKeyRef:\n  name: app-credentials-2024-production",
        "API_KEY=your_api_key_here_1234567890",
        "API_KEY=xxxxxxxxxxxxxxxxxxxx1234",
        f"request id: {uuid.UUID(int=2**100 + 12345)}, for the token that failed",
        f"commit {hashlib.sha1(b'x').hexdigest()}",
        f"sha256:{H}",
        f"cache_token {H}",
        f'"tokenizer_sha256": "{H}"',
        "data:image/png;base64," + base64.b64encode(random.Random(1).randbytes(3000)).decode(),
        "/home/me/projects/secret-santa/token_store/test_api_key_rotation_2024.py",
        "https://example.org:8080/path?x=1@2",
        "postgres://user:password@localhost/db",
        "git@github.com:me/repo.git and mailto:me@example.org",
        "ssh-rsa " + base64.b64encode(random.Random(2).randbytes(300)).decode() + " me@host",
        "AKIA is how the ids begin, and sk-learn-contrib-extension-package is a package",
        "task-sk-something risk-assessment-of-the-year-2024-and-more-things",
        "-----BEGIN PRIVATE KEY----- is the line that a key file begins with, and then come lines of base64.",
        "a bearer of bad news-from-the-front-in-the-year-1917",
        "<!-- turn n=3 role=\"user\" bytes=64 sha256=\"0123456789abcdef\" -->",
        'TIMESTAMP=$(date -u +"%Y-%m-%dT%H:%M:%SZ")',
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text).text == text
    assert redact(text).found == ()


FRAGMENTS = [*SECRETS.values(), P, T, H, "password", "token", "secret=", ": ", "=", '"', "Bearer ", "://u:", "@", "--"]


@given(st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=12).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text).text
    assert redact(once).text == once


@pytest.mark.nightly
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    [
        "-----BEGIN PRIVATE " + "KEY-----",
        "token:",
        "sk-",
        "eyJ.",
        "eyJaaaaaaaa.",
        "://a:",
        "password = ",
        "password",
        "A",
        'password="',
        "bearer ",
        "token_",
        "abc1_",
        "hf_",
        "password: aA1.",
        "\\",
        '"',
        "authorization: bearer ",
        "--token ",
    ],
)
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    """A quadratic rule would take minutes here, and the timeout end it."""
    redact(f"password token secret://@ private key----- bearer {piece * (500_000 // len(piece))} = : - _ eyJ IA SG.")


PASSWORDS = {STAND_INS: 1, REAL: 3}
"""In code that somebody showed; of the real ones, in 3.7 million characters, one is a salted hash."""


def test_whole_conversations_lose_nothing_but_the_passwords_in_them(data: Path) -> None:
    files = [data / "locomo" / "dev.json", *sorted((data / "beam-100k").glob("*/chat.json"))]
    found = [kind for file in files for text in strings(json.loads(file.read_text())) for kind in redact(text).found]
    assert found == ["password"] * PASSWORDS[data]


@pytest.mark.parametrize(
    "name",
    [
        "/facts/three-ways-with-a-key-from-the-client-the--qpprzhfthc3zm.md",
        "[password of the db: (redacted:password)](/facts/password-of-the-db-redacted-password--qpprzhfthc3zm.md)",
        "[01:52 local. api 500s](/sessions/2026/08/05/928743a2-f910-4e3a-aa2b-9e3cfe0a021c.md)",
    ],
)
def test_the_name_of_a_memory_is_no_secret(name: str) -> None:
    assert redact(name).found == ()


@pytest.mark.parametrize(
    ("told", "secrets"),
    [
        ("BitLocker recovery key is {0}, windows asks", ["475924-677386-889089-107883-203775-376953-885470-318759"]),
        ("Google-Ersatzcodes (ina@acme.example)\n1. {0}\n2. {1}", ["99503232", "30720484"]),
        ("mes codes de secours : {0}, {1}", ["99503232", "30720484"]),
    ],
)
def test_codes_for_a_lost_device_go(told: str, secrets: list[str]) -> None:
    kept = redact(told.format(*secrets)).text
    assert not [secret for secret in secrets if secret in kept]
