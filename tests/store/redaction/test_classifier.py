"""Values near the name of a secret go, in the languages and formats that people use; the rest stays."""

from __future__ import annotations

import pytest
from dreamd.store.redaction import redact
from dreamd.store.redaction.classifier import weights_of_package

P = "Zander" + "#4471"
W = "kelp_" + "Foundry_" + "61"
K = "q8ZtR2mWx0" + "LbN5vYc7KdHs3P"


@pytest.mark.parametrize("secret", [P, W])
@pytest.mark.parametrize(
    "form",
    [
        "RABBITMQ_DEFAULT_PASS={}",
        "  WORDPRESS_DB_PASSWORD: {}",
        '"Env": ["LANG=C", "APP_DB_PASSWORD={}"]',
        "password: |\n  {}\nport: 5432",
        "<key>Password</key>\n<string>{}</string>",
        "<AdminPassword><Value>{}</Value></AdminPassword>",
        "DriverManager.getConnection(url, \"hr\", '{}')",
        "smtp.login('bot@acme.example', '{}')",
        "le mot de passe du NAS est : {}",
        "la clave del router es {}",
        "a palavra-passe é {}",
        "das WLAN-Passwort lautet {}",
        "het wachtwoord is {}",
        "пароль: {}",
        "パスワードは {} です",
        "use {} as the password",
        "I changed the password from x to {} today",
        "login: marta, password {}",
        "-       8→  smtp_password: {}",
    ],
)
def test_a_password_goes_wherever_it_is_named(form: str, secret: str) -> None:
    assert secret not in redact(form.format(secret)).text


@pytest.mark.parametrize(
    "form",
    [
        "new Acme('{}')",
        "acme auth login --token {}",
        "X-Acme-Key: {}",
        "curl -u {}: https://acme.example",
        "acme_sid={}",
    ],
)
def test_a_key_of_an_unknown_issuer_goes(form: str) -> None:
    assert K not in redact(form.format(K)).text


@pytest.mark.parametrize(
    "text",
    [
        "password = form.cleaned_data['password']",
        "assert login('marta', wrong_password) is None",
        "headers={'Authorization': 'Bearer valid_token'}",
        "the password is stored in the keychain",
        "le mot de passe est obligatoire",
        "--color-token-primary-700: #1d4ed8;",
        "cache key: linux-pnpm-7c0fa601a7804",
        "ssh deploy@10.0.4.7 -p 2222",
        "PublicKey = FyOI5r/kSq1+zeULWq06DLictJF+iN/SpB6RcEvzBhg=",
    ],
)
def test_what_only_looks_like_one_stays(text: str) -> None:
    assert redact(text).text == text


def test_the_weights_are_read_once_and_say_what_counts() -> None:
    weights = weights_of_package()
    assert weights is weights_of_package()
    assert 500 < len(weights) < 6_000


@pytest.mark.parametrize(
    "text",
    [
        'title: "The token is invalid."\ntimestamp: "2026-11-24T15:30:00+00:00"\n',
        "provenance: user_stated\nsuperseded_by: awygs47r3n2nz\n",
        "2 Mar 2026, user: The port of the shop is 8080.",
        "user: Parcel q0x17z is beside the mill.",
        "check bakery compass: code 2369, checksum failed",
        "The broker listens on 8883 with TLS. It said that the password is wrong.",
        "I noticed a spiderman pin on your purse. Is Spider-Man your favourite?",
    ],
)
def test_what_another_line_or_sentence_holds_stays(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize("name", ["mật khẩu", "kata sandi", "كلمة المرور", "jelszó:", "salasana on"])
def test_a_password_goes_by_names_of_other_languages(name: str) -> None:
    assert P not in redact(f"{name} {P}").text


def test_a_password_below_an_empty_line_goes() -> None:
    assert redact(f"I reset it; new password below\n\n{P}\n").text.count(P) == 0
