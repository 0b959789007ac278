"""The files that are plain to see in a command."""

from __future__ import annotations

import pytest
from dreamd.daemon.importing.shell_commands import files_of_command
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("cat .env", [".env"]),
        ("head -5 config/secrets.yml", ["config/secrets.yml"]),
        ("cd api && cat .env | grep KEY", ["api/.env"]),
        ("cd api; cat ~/.netrc /etc/hosts", ["~/.netrc", "/etc/hosts"]),
        ("grep -n KEY .env", [".env"]),
        ("grep -e KEY .env", [".env"]),
        ("sed -n '1,5p' .env", [".env"]),
        ("sudo -n cat .env", [".env"]),
        ("LC_ALL=C timeout 5s tail -f log/dev.log 2>&1", ["log/dev.log"]),
        ("bash -lc 'cat .env'", [".env"]),
        ("export $(grep -v '^#' .env | xargs)", [".env"]),
        ('echo "$(cat .env)"', [".env"]),
        ("diff <(sort .env) <(sort .env.example)", [".env", ".env.example"]),
        ("psql < dump.sql", ["dump.sql"]),
        ("cat 'my secrets.txt'", ["my secrets.txt"]),
        ("cat .env*", [".env*", ".env"]),
        ("cat 'unclosed", ["unclosed"]),
        ("ls\ncat \\\n .env", [".env"]),
        ("cat <<'EOF'\ncat .env\nEOF\ntail x", ["x"]),
        ("pytest -q 2>&1 | tail -20", []),
        (".venv/bin/python -m pytest", []),
        ("npm run build", []),
        ("git commit -m 'cat .env'", []),
    ],
)
def test_files_that_are_shown(command: str, paths: list[str]) -> None:
    found = list(files_of_command(command))
    assert [file.path for file in found if file.path != "2"] == paths
    assert not any(file.is_written for file in found)


@pytest.mark.parametrize(
    "command",
    [
        "echo KEY=1 > .env",
        "echo KEY=1 >> .env",
        "cat > .env <<'EOF'\nKEY=1\nEOF",
        "cat <<EOF > .env\nKEY=1\nEOF",
        "echo KEY=1 | sudo tee -a .env",
        "sed -i 's/a/b/' .env",
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: .env\n+KEY=1\nEOF",
    ],
)
def test_files_that_are_written(command: str) -> None:
    assert [file.path for file in files_of_command(command) if file.is_written] == [".env"]


@given(st.text("cat .env|&;<>()$`'\"\\\n-*=ehd", max_size=200))
def test_any_command_is_bearable(command: str) -> None:
    list(files_of_command(command))
