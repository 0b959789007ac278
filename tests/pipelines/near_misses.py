"""Near misses: pairs of statements that lie close and are about different things: neither may replace the other.

Five sorts: another colour, person, project, date, and a negation. The later one of each pair even sounds like news.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

PEOPLE = ("Ana", "Boris", "Chiara", "Dmitri", "Esra", "Farid", "Greta", "Hugo", "Ines", "Jonas")
PROJECTS = ("Apollo", "Borealis", "Cascade", "Dynamo", "Everest", "Falcon", "Granite", "Horizon", "Icarus", "Juniper")
SERVICES = ("billing", "search", "checkout", "profile", "report", "catalogue", "mail", "login", "export", "audit")
COLOURS = ("purple", "cyan", "crimson", "teal", "amber", "navy", "olive", "coral", "indigo", "beige")
THINGS = ("bicycle", "kitchen", "kayak", "front door", "notebook", "sofa", "helmet", "tent", "curtain", "lamp")
DAYS = (
    "3 May",
    "10 May",
    "17 June",
    "24 June",
    "1 July",
    "8 July",
    "15 August",
    "22 August",
    "5 October",
    "12 October",
)

Pair = tuple[str, str]


def near_misses(count: int = 200) -> list[tuple[str, str, str]]:
    """So many (sort, earlier, later), the five sorts in turn."""
    sorts = {
        "colour": _colours(),
        "person": _people(),
        "project": _projects(),
        "date": _dates(),
        "negation": _negations(),
    }
    return [(sort, *next(sorts[sort])) for sort in islice(cycle(sorts), count)]


def _colours() -> Iterator[Pair]:
    for n in cycle(range(1000)):
        thing, one, other = THINGS[n % 10], COLOURS[n % 10], COLOURS[(n // 10 + n + 1) % 10]
        yield f"My {one} {thing} has {n + 2} scratches.", f"My {other} {thing} now has {n + 5} scratches."


def _people() -> Iterator[Pair]:
    for n in cycle(range(1000)):
        one, other = PEOPLE[n % 10], PEOPLE[(n // 10 + n + 1) % 10]
        yield (
            f"{one} has read {n + 3} books about sailing in the reading club.",
            f"{other} has now read {n + 7} books about sailing in the reading club.",
        )


def _projects() -> Iterator[Pair]:
    for n in cycle(range(1000)):
        one, other = (PROJECTS, SERVICES)[n % 2][n % 10], (PROJECTS, SERVICES)[n % 2][(n + 2 * (n // 10) + 2) % 10]
        yield (
            f"We deploy the {one} service with {n + 2} replicas on the cluster.",
            f"We now deploy the {other} service with {n + 4} replicas on the cluster.",
        )


def _dates() -> Iterator[Pair]:
    for n in cycle(range(1000)):
        one, other = DAYS[n % 10], DAYS[(n // 10 + n + 1) % 10]
        yield (
            f"The harbour tour on {one} 2026 has {n + 10} guests and starts at {n % 4 + 7} AM.",
            f"The harbour tour on {other} 2026 now has {n + 14} guests and starts at {n % 4 + 8} AM.",
        )


def _negations() -> Iterator[Pair]:
    for n in cycle(range(1000)):
        person, thing = PEOPLE[n % 10], THINGS[(n // 10 + n) % 10]
        yield (
            f"{person} wants to sell the {thing} before winter.",
            f"{person} does not want to sell the {thing} before winter.",
        )
