"""Passwords on command lines: `mysql -pX`, `curl -u user:X`, `redis-cli -a X`, `echo X | chpasswd`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .judging import is_phrase, is_placeholder, is_reference, is_wordy
from .prefilter import has_any
from .shapes import Span

# These take a password, and nothing else does with the same letter.
OPTIONS: Final = {
    r"mysql\w*|mariadb\w*|7za?|unrar|rar": r"-p",
    r"docker login|podman login|nerdctl login|buildah login|skopeo login|helm registry login": r"-p ?|--password[ =]",
    r"mongo\w*|az|sshpass|clickhouse-client|vncviewer|lpass|oc|sqlcmd|cqlsh"
    r"|rabbitmqadmin|arangosh|jfrog|argocd|snowsql|easy_install": r"-[pP] ?|--?pass(?:word)?[ =]|--passwd[ =]",
    r"redis-cli|valkey-cli|http|https|xh": r"-a ?|--pass[ =]|--auth[ =]",
    r"ldap\w+|kinit|radtest": r"-w ?",
    r"sqlcmd|bcp|zip|unzip": r"-P ?",
    r"openssl": r"-pass(?:in|out)? pass:|-k |-K ",
    r"htpasswd": r"-[a-zA-Z]*b[a-zA-Z]* \S{1,200} \S{1,60} ",
    r"curl|wget|aria2c": r"(?:-u|--user|--proxy-user|-U) ?[\"']?[^\s:\"']{1,80}:",
    r"net use": r"\S{1,120} (?=\S{1,60} /user:)",
    r"net user": r"[^\s/]\S{0,60} (?!/)",
    r"smbclient|rpcclient|smbget": r"(?:-U|--user)[ =]?[\"']?[^\s%\"']{1,80}%",
    r"mosquitto_pub|mosquitto_sub|mosquitto_rr": r"-P ?|--pw[ =]",
    r"xfreerdp|wfreerdp|rdesktop": r"/p(?:ass(?:word)?)?:|-p ?",
    r"ipmitool|ykman": r"-[PEn] ?",
    r"psexec|evil-winrm|cypher-shell|crackmapexec|netexec|sshpass|wg-easy": r"-p ?|--password[ =]",
    r"x11vnc|tightvncserver": r"-passwd ",
    r"vsql|psql|isql": r"-w ",
    r"nmcli": r"(?:password|psk) ",
    r"rclone|nexmo|shodan|b2": r"(?:pass|setup \S{1,40}|init|authorize-account \S{1,40}) ",
    r"snmp\w+": r"-[AX] ?",
    r"setx": r"\w{0,40}(?:PASS\w{0,8}|SECRET|TOKEN|KEY|PWD)\w{0,20} ",
    r"kubeadm": r"--token ",
    r"erl|iex|elixir": r"-{1,2}(?:set)?cookie ",
    r"adb": r"input text ",
    r"aws ssm": r"--value ",
    r"rabbitmqctl": r"(?:add_user|change_password|authenticate_user) \S{1,80} ",
    r"mc|mcli": r"(?:alias set|config host add) \S{1,80} \S{1,200} \S{1,80} ",
    r"keytool|jarsigner|apksigner": r"-{1,2}(?:store|key|ks-|src|dest)?pass(?:word)?[ =](?:pass:)?",
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
        if has_any(text, names):
            for found in pattern.finditer(text):
                group = "quoted" if found["quoted"] is not None else "bare"
                value = found[group]
                if _is_typed(value):
                    yield *found.span(group), "password"


def _is_typed(value: str) -> bool:
    """Return True for what is no port, no name of a database, no variable."""
    if is_phrase(value):
        return True
    if is_placeholder(value) or is_reference(value) or not any(map(str.isalpha, value)):
        return False
    return not (is_wordy(value) and value.islower()) or any(map(str.isdigit, value))


_READERS = r"--password-stdin|\bchpasswd|\bpasswd\b|\bluks\w+|\blogin\b|\bsudo -S|--with-token"
r"|--passphrase-fd|\bcryptsetup|--stdin|\bsmbpasswd|\bvncpasswd"
_PIPED = re.compile(
    r"\b(?:echo|printf)[ \t]{1,3}(?:-\w{1,3}[ \t])?(?:[\"']%s(?:\\n)?[\"'][ \t])?[\"']?(?:[\w.@-]{1,60}:)?"
    r"(?P<secret>[^\s\"'|:]{6,512})[\"']?[ \t]{0,3}\|[^\n|]{0,200}?(?:" + _READERS + ")"
)
_HERE = re.compile(
    r"(?:" + _READERS + r")[^\n|<]{0,80}<<<[ \t]{0,3}[\"']?(?:[\w.@-]{1,60}:)?(?P<secret>[^\s\"':]{6,512})"
)


def find_piped(text: str) -> Iterator[Span]:
    """Find what a shell feeds to a program that reads a password: `echo X | docker login --password-stdin`."""
    for pattern in (_PIPED, _HERE):
        for found in pattern.finditer(text):
            if _is_typed(found["secret"]):
                yield *found.span("secret"), "password"
