"""What stands below the head of a password's column goes, in each form of a table; the rest of the table stays."""

from __future__ import annotations

import pytest
from dreamd.store.redaction import redact

P = "fog!Brass" + "29"
Q = "r4y-Mantis" + "-x8"


@pytest.mark.parametrize(
    "form",
    [
        "| user | password |\n|---|---|\n| marta | {} |\n| jonas | {} |\n",
        "+----+-------+\n| id | pw    |\n+----+-------+\n|  1 | {} |\n|  2 | {} |\n+----+-------+\n",
        " id | plain_pw \n----+----------\n  1 | {}\n  2 | {}\n",
        "HOST   USER    PASSWORD\nweb1   deploy  {}\nweb2   deploy  {}\n",
        "user\tpass\trole\nmarta\t{}\tadmin\njonas\t{}\tguest\n",
        "host;login_password;note\nnas;{};\nmail;{};old\n",
        "<tr><th>User</th><th>Password</th></tr><tr><td>a</td><td>{}</td></tr><tr><td>b</td><td>{}</td></tr>",
    ],
)
def test_a_column_of_passwords_goes(form: str) -> None:
    mark = "[redacted:password]"
    assert redact(form.format(P, Q)).text == form.format(mark, mark)


def test_weak_passwords_go_beside_one_that_looks_like_one() -> None:
    table = "| System | Kennwort |\n|---|---|\n| nas | {} |\n| switch | {} |\n| drucker | - |\n"
    mark = "[redacted:password]"
    assert redact(table.format(P, "Kupferkabel")).text == table.format(mark, mark)


def test_lines_of_an_address_and_a_password_go() -> None:
    kept = redact(f"ina@acme.example:{P}\nper@acme.example:{Q}\n").text
    assert kept == "ina@acme.example:[redacted:password]\nper@acme.example:[redacted:password]\n"


@pytest.mark.parametrize(
    "text",
    [
        "| option | default |\n|---|---|\n| password | none |\n| token_ttl | 3600 |",
        "| field | type | password |\n|---|---|---|\n| a | string | required |",
        "name,url,username,password\n",
        "host;user;auth\ndb1;root;publickey",
    ],
)
def test_a_table_without_passwords_stays(text: str) -> None:
    assert redact(text).text == text
