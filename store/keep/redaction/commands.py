"""Passwords on command lines: `mysql -pX`, `curl -u user:X`, `redis-cli -a X`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .judging import is_placeholder, is_reference, is_wordy
from .shapes import Span

# These take a password, and nothing else does with the same letter.
OPTIONS: Final = {
    r"mysql\w*|mariadb\w*|7za?|unrar|rar": r"-p",
    r"mongo\w*|docker|podman|nerdctl|buildah|skopeo|helm|az|sshpass|smbclient|clickhouse-client|vncviewer|lpass|oc|sqlcmd|cqlsh"
    r"|rabbitmqadmin|arangosh|jfrog|argocd|snowsql|easy_install": r"-[pP] ?|--?pass(?:word)?[ =]|--passwd[ =]",
    r"redis-cli|valkey-cli|http|https|xh": r"-a ?|--pass[ =]|--auth[ =]",
    r"ldap\w+|kinit|radtest": r"-w ?",
    r"sqlcmd|bcp|zip|unzip": r"-P ?",
    r"openssl": r"-pass(?:in|out)? pass:|-k ",
    r"htpasswd": r"-[a-zA-Z]*b[a-zA-Z]* \S{1,200} \S{1,60} ",
    r"curl|wget|aria2c": r"(?:-u|--user|--proxy-user|-U) ?[\"']?[^\s:\"']{1,80}:",
    r"net use": r"\S{1,120} (?=\S{1,60} /user:)",
}
_OPTIONS = tuple(
    (
        tuple(name.strip("\\w*+a?") for name in commands.split("|")),
        re.compile(
            rf"(?<![\w-])(?:{commands})(?:\.exe)?\s(?:[^\n|;&]{{0,200}}?\s)?(?:{option})(?:(?P<quote>[\"'])(?P<quoted>[^\"'\n]{{4,128}})(?P=quote)"
            r"|(?P<bare>(?:[^\s\"'|;&<>]|&(?![&\s])){4,128}))"
        ),
    )
    for commands, option in OPTIONS.items()
)


def find_options(text: str) -> Iterator[Span]:
    """Find `mysql -pX`, `curl -u user:X`, `redis-cli -a X` and their like."""
    for names, pattern in _OPTIONS:
        if any(name in text for name in names):
            for found in pattern.finditer(text):
                group = "quoted" if found["quoted"] is not None else "bare"
                value = found[group]
                if not is_placeholder(value) and not is_reference(value) and not (is_wordy(value) and value.islower()):
                    yield *found.span(group), "password"
