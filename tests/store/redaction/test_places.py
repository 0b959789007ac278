"""Passwords in their places, in sentences and in pipes go; what only stands in such a place stays."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from uuid import NAMESPACE_URL, uuid5

import pytest
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.okf import session
from dreamd.store.redaction import masked, places_of_secrets, redact

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)

P = "winter-otter-k4t2-" + "8317"
M = "Hq7!r2" + "Zx#kd9"
H = "9f86d081884c7d65" + "9a2feaa0c55ad015"
U = "5d0c8a52-1f0e-4c3b-" + "9a77-3be1f2d46c90"
PHRASE = "correct horse battery " + "staple"


@pytest.mark.parametrize("secret", [P, M])
@pytest.mark.parametrize(
    "form",
    [
        "pw: {}",
        "[sudo] password for jonas: {}",
        "Enter passphrase for /dev/sda3: {}",
        "Password for 'marta' on 'db1': {}",
        "Temporary password: {}",
        "Zugangsdaten: marta / {}",
        "CREATE LOGIN app WITH PASSWORD = N'{}';",
        'host %any : PSK "{}"',
        'marta : EAP "{}"',
        "/msg NickServ identify {}",
        'requests.get(url, auth=("marta", "{}"))',
        'expect "assword:"\nsend "{}\\r"',
        "jdbc:oracle:thin:app/{}@db:1521:XE",
        '$pw = ConvertTo-SecureString "{}" -AsPlainText -Force',
        "username marta\npassword {}",
        "| user | password |\n|---|---|\n| marta | {} |\n| jonas | - |",
        " id | login | Password \n----+-------+-----\n  1 | marta | {}\n",
        "mosquitto_pub -h broker -u marta -P {} -t home -m on",
        "xfreerdp /v:host /u:marta /p:{}",
        "rabbitmqctl add_user marta {}",
        "net user marta {} /add",
        "smbclient //nas/share -U marta%{}",
        "mc alias set local http://nas:9000 marta {}",
        "keytool -list -keystore app.jks -storepass {}",
        "docker login -u marta -p {} registry.acme.dev",
        "7z x backup.7z -p{}",
        "echo '{}' | docker login -u marta --password-stdin",
        'echo "marta:{}" | sudo chpasswd',
        "sudo chpasswd <<< 'marta:{}'",
        "mount -t cifs //nas/share /mnt -o user=marta,pass={},uid=1000",
    ],
)
def test_a_password_goes_from_its_place(form: str, secret: str) -> None:
    text = form.format(secret)
    assert redact(text).text == form.format(f"[redacted:{redact(text).found[0]}]")


@pytest.mark.parametrize("secret", [H, U])
@pytest.mark.parametrize(
    "form",
    [
        "The API token for the status page is {}.",
        "Use the token {} when you call the deploy hook.",
        "Das Token für Todoist ist {}, bitte nicht weitergeben.",
        "Der API-Schlüssel für Consul lautet {}.",
        "El token de Codecov: {}",
        'Authorization: Splunk {}"',
        "for Todoist use this token: {}",
    ],
)
def test_a_hash_or_an_id_goes_where_a_sentence_says_that_it_is_a_token(form: str, secret: str) -> None:
    assert redact(form.format(secret)).text in (form.format(f"[redacted:{kind}]") for kind in ("token", "bearer"))


@pytest.mark.parametrize(
    "form",
    [
        "passphrase: {}",
        "the passphrase of the backup key is {}",
        "password: {}",
        "The password is {}.",
        'password is "{}" for now',
        "Das Passwort lautet {}",
        "the password is {} and it opens the backup",
    ],
)
def test_words_in_place_of_a_password_go(form: str) -> None:
    assert redact(form.format(PHRASE)).text == form.format("[redacted:password]")


@pytest.mark.parametrize(
    "text",
    [
        "The password is stored hashed with bcrypt",
        "Password: minimum eight characters long please",
        "the password is never shown again after setup",
        "password: must contain letters digits symbols",
        "The password is always case sensitive there",
        "passphrase: three random words are recommended",
        "the password is probably still cached somewhere",
        "Das Passwort lautet leider schon wieder anders",
        "The password was working fine yesterday morning",
        "docker run -p 8080:80 -e TZ=UTC acme/api:1.4",
        "mysql -u root -p shop",
        "net user marta /delete",
        "| user | password |\n|---|---|\n| marta | required |",
        "echo 'all quiet today' | tee password-stdin.txt",
        "GPIO PIN 13 is connected to the relay",
        "the token for session 5d0c8a52-1f0e-4c3b-9a77-3be1f2d46c90 expired",
        "key for the commit is 9f86d081884c7d659a2feaa0c55ad015",
        "password = config.database.password_2",
        "cookies = {'theme': 'dark', 'lang': 'de'}",
    ],
)
def test_what_only_stands_in_such_a_place_stays(text: str) -> None:
    assert redact(text).text == text


def test_a_pin_goes_and_its_number_of_digits_is_no_pin() -> None:
    assert redact("the PIN of the door is 481" + "516").text == "the PIN of the door is [redacted:pin]"
    assert redact("the PIN is 6 digits").text == "the PIN is 6 digits"


def test_a_salt_from_all_of_ascii_goes() -> None:
    salt = "^?JK(M.Tc2dK}rh].A*jW:o%L6nBlH0s%=:G;*R9up" + "N<P9l6vT.|Y$j&[Nc:HtG."
    assert salt not in redact(f"define('AUTH_KEY',         '{salt}');").text


def test_a_session_in_a_dictionary_of_cookies_goes() -> None:
    session = "RLMtfJ8oDlPQW2SC" + "QtsCUY5UiJ5eGcI7"
    assert redact(f'cookies = {{"sessionid": "{session}"}}').found == ("cookie",)


@pytest.mark.parametrize("number", range(40))
def test_the_ids_of_a_page_of_a_person_are_no_secrets(number: int) -> None:
    turns = ", ".join(f'"{uuid5(NAMESPACE_URL, f"{number} {n}")}#{n}"' for n in range(150))
    body_hash = sha256(str(number).encode()).hexdigest()[:16]
    keys = f'node_id: wari6eqk6pmyk, level: L3, body_sha256: "{body_hash}", mentions: [{turns}]'
    assert places_of_secrets(f"---\ntype: Entity\ndreamd: {{ {keys} }}\n---\n\n# Ines\n".encode()) == []


# The hash of this text is "Bj7*rFHN" in hexadecimal, which looks like a password.
PRINTABLE_HASH = "13 says 316"
IDS = [
    *(
        "toolu_01w5jPZPTqE1p0" + "IpzZwmimVf",
        "call_WogX1ubX5BHVuc" + "rFPDegJNdX",
        "3f610c661cb56d29" + "8ae2216f93ace5ec",
    ),
    *("7H3BJ89E9366BS" + "8A88A8EH9DMC", "aewx2EiUMVPKco" + "c3U8_NF", 'the "third" one'),
]


@pytest.mark.parametrize("outside_id", IDS)
def test_the_id_and_the_hash_of_a_turn_are_no_secrets(outside_id: str) -> None:
    turns = session.encode_turns([NewTurn("user", PRINTABLE_HASH, NOW, outside_id), NewTurn("user", PRINTABLE_HASH)], 1)
    assert redact(outside_id).found == ()
    for line_end in (b"\n", b"\r\n"):
        assert masked(data := turns.replace(b"\n", line_end)) == data
    # What a person writes into the line is no more and no less of a secret than alone.
    key = "AKIAQ7SJ2XWPL5" + "NHT3VG"
    written = turns.replace(b'" bytes', f' {key}" bytes'.encode(), 1)
    assert masked(written) == written.replace(key.encode(), b"x" * len(key))
    said = turns.replace(PRINTABLE_HASH.encode(), b"pw: " + M.encode())
    assert masked(said) == said.replace(M.encode(), b"x" * len(M))


@pytest.mark.parametrize("name", IDS[:5])
def test_the_names_in_the_head_of_a_session_are_no_secrets(name: str) -> None:
    head = session.open_file(SessionHead(name, "orders", "", NOW, agent_id=name, task_id=name, user_id=name))
    assert places_of_secrets(head) == []
    key = "AKIAQ7SJ2XWPL5" + "NHT3VG"
    assert key.encode() not in masked(head.replace(f"task_id: {name}".encode(), f"task_id: {key}".encode()))
    assert len(places_of_secrets(head.replace(b"\ntitle: ", b"\ntitle: pw: " + M.encode() + b" "))) == 1


def test_the_id_of_a_session_that_was_made_of_a_path_is_no_secret() -> None:
    name = "home-u-.claude-af7f4286-e5d1-2fdc-ebc0-" + "3f2c8045863c.jsonl-1386-062f7da97f7c"
    assert places_of_secrets(session.open_file(SessionHead(name, "orders"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "- 6 July 2026: the passphrase is changed every month",
        "3 March 2026: “… the passphrase of the backup is in the envelope”",
        "Am 7. September 2026: neues Passwort im Tresor",
        "## 2026: the passphrase is in the safe",
    ],
)
def test_the_year_of_a_day_is_no_password(line: str) -> None:
    assert redact(line).found == ()


@pytest.mark.parametrize("line", ["the password is 2026!x", "pin: 2026"])
def test_a_number_that_is_no_day_may_be_one(line: str) -> None:
    assert "2026" not in redact(line).text
