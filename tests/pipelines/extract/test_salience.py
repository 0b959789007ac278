from __future__ import annotations

import pytest
from dreamd.pipelines.extract.salience import Speaker, judge
from dreamd.pipelines.extract.trimming import trim, without_request

NAMES = frozenset({"caroline", "melanie"})


@pytest.mark.parametrize(
    "text",
    [
        "I went to a support group yesterday.",
        "My kids love dinosaurs.",
        "She seemed so sad.",
        "The meeting moved to 14:30.",
        "I chose them because they help folks with adoption.",
        "Sunflowers mean warmth and happiness, right?",
        "Researching adoption agencies.",
    ],
)
def test_kept_among_people(text: str) -> None:
    assert judge(text, Speaker.PEER, NAMES).kept


@pytest.mark.parametrize(
    "text",
    [
        "Wow, that's amazing!",
        "Thanks, Melanie!",
        "You're doing great!",
        "What's up?",
        "Did you hear any inspiring stories?",
        "Good luck with everything!",
        "Congrats on finishing your degree!",
        "Let's keep supporting each other.",
        "Keep it up!",
        "Have a nice day!",
        "👍",
    ],
)
def test_dropped_among_people(text: str) -> None:
    assert not judge(text, Speaker.PEER, NAMES).kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Always use type hints.", True),
        ("I prefer pnpm over npm in this repository.", True),
        ("How do I rotate the signing key of the staging cluster?", True),
        ("Here's what I have so far:", False),
        ("Can you fix it?", False),
        ("ok", False),
    ],
)
def test_a_user(text: str, kept: bool) -> None:
    assert judge(text, Speaker.USER).kept is kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The root cause was a stale lock file in the cache folder.", True),
        ("I've updated config.py to read the port from the environment.", True),
        ("Certainly! I'd be happy to help.", False),
        ("Let me know if you have questions.", False),
        ("Here is the code:", False),
        ("Python is a widely used language.", False),
    ],
)
def test_an_assistant(text: str, kept: bool) -> None:
    assert judge(text, Speaker.ASSISTANT).kept is kept


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        ("Wow, Mel, I painted it.", "I painted it."),
        ("Hey Melanie, since we last chatted, I moved.", "since we last chatted, I moved."),
        ("I agree, Melanie.", "I agree."),
        ("Yeah, no problem - I got it.", "I got it."),
        ("Thanks so much!", ""),
        ("Thanks Mel!", ""),
        ("Hello Claude!", ""),
        ("Oliver, Luna, Bailey", "Oliver, Luna, Bailey"),
    ],
)
def test_trimming(text: str, trimmed: str) -> None:
    assert trim(text, "Melanie") == trimmed


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("I'm building a weather app with Flask, can you help me with that?", "I'm building a weather app with Flask."),
        ("I use Redis 7.0 for rate limits, here's what I have so far:", "I use Redis 7.0 for rate limits"),
        (
            "I'm lost in the logs, can you help me find the memory leak in worker.py?",
            "I'm lost in the logs; asked: find the memory leak in worker.py?",
        ),
    ],
)
def test_requests(text: str, left: str) -> None:
    assert without_request(text) == left
