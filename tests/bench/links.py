"""Questions over links: notes of two invented people, beside public pages, with links followed and without.

Of a question the number says how many links its answer is away from the note that it names. The constants of recall
were chosen on the first person; the second was left out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dreamd.store.embedding.embedding import embedder_for
from dreamd.store.memory import MemoryStore
from dreamd.store.settings import SearchSettings, StorePaths, StoreSettings

Asked = tuple[str, str, int]

BUNDLES = ("okf/v0.1/stackoverflow", "okf/v0.2/acme_retail")
BUDGET_TOKENS, HITS = 500, 10

FIRST_NOTES = {
    "Export job": (
        "Runs nightly at 02:30 and writes the partner files. It is scheduled on [[Heron]] and paid "
        "for by [[Finance desk]]."
    ),
    "Heron": "A small server in the cellar, 16 GB, Debian 12. Looked after by [[Ilse]]. Disk was replaced in March.",
    "Ilse": "Reachable by phone until 17:00, afterwards only by text message. On leave in August.",
    "Finance desk": "Room 214. Invoices above 500 need two signatures.",
    "Partner files": "CSV with semicolons, one file for each partner. Made by the [[Export job]], read by [[Kestrel]].",
    "Kestrel": "Importer of the partner side. Rejects files with a byte order mark. Contact is [[Bram]].",
    "Bram": "Works from Utrecht, answers tickets within a day, dislikes calls.",
    "Login outage": "On 12 May nobody could sign in for two hours. Cause: see [[Clock drift]].",
    "Clock drift": (
        "The guest clocks ran ahead by four minutes since chrony was disabled in the image. Fixed "
        "by [[Golden image 7]]."
    ),
    "Golden image 7": "Built on 20 May with Packer, chrony enabled, root login off.",
    "Search page": "Slow since spring. The plan is in [[Index rewrite]].",
    "Index rewrite": "Move from like queries to trigram indexes, two weeks of work, blocked by [[Postgres 16]].",
    "Postgres 16": "Upgrade is booked for the first weekend of October, with a four hour window.",
    "Mail relay": "All notices go out over [[Sparrow]].",
    "Sparrow": "Limits us to 300 messages an hour. The password is rotated each quarter.",
    "Onboarding": "New people get a laptop from [[Dana]] and read [[House rules]].",
    "Dana": "Desk by the window on the third floor, in on Tuesdays and Thursdays.",
    "House rules": "No deploys after noon on Fridays. Reviews need one approval.",
    "Backup": "Restic every six hours to [[Cold store]].",
    "Cold store": "Two disks in a bank box, swapped on the first Monday of a month.",
    "Weather widget": "Shows the forecast on the start page; data by [[Met feed]].",
    "Met feed": "Licence ends on 31 December and costs 40 a year.",
}
FIRST_ASKED: Sequence[Asked] = [
    ("who do I call when the machine of the export job is down?", "Ilse", 2),
    ("until what time can the person who looks after Heron be phoned?", "Ilse", 1),
    ("on which machine does the export job run, and how much memory does it have?", "Heron", 1),
    ("which room does the desk have that pays for the export job?", "Finance desk", 1),
    ("what makes the reader of the partner files reject one?", "Kestrel", 1),
    ("how fast does the contact of Kestrel answer?", "Bram", 1),
    ("why did the login outage happen?", "Clock drift", 1),
    ("with what was the login outage's cause fixed, and when was that built?", "Golden image 7", 2),
    ("what is the plan for the slow search page?", "Index rewrite", 1),
    ("when is the thing booked that blocks the index rewrite?", "Postgres 16", 1),
    ("how many notices an hour may the mail relay send?", "Sparrow", 1),
    ("where does the person sit who hands laptops to new people?", "Dana", 1),
    ("what do new people have to read, and what does it forbid on Fridays?", "House rules", 1),
    ("when are the disks swapped that the backup goes to?", "Cold store", 1),
    ("when does the licence of the weather widget's data end?", "Met feed", 1),
    ("at what time does the export job run?", "Export job", 0),
    ("how much does the forecast data cost a year?", "Met feed", 0),
    ("when was the disk of Heron replaced?", "Heron", 0),
    ("which separator do the partner files have?", "Partner files", 0),
    ("how often does restic run?", "Backup", 0),
    ("is root login allowed in the golden image?", "Golden image 7", 0),
    ("how long is the window of the Postgres upgrade?", "Postgres 16", 0),
]
SECOND_NOTES = {
    "Spring play": "Opens on 4 April with eight evenings. Directed by [[Noor]], the set is [[Rotating stage]].",
    "Noor": "Prefers rehearsals in the morning; allergic to stage smoke.",
    "Rotating stage": "Six metres wide, turned by hand, borrowed from [[Opera workshop]].",
    "Opera workshop": "Open on weekdays from 8 to 14; wants things back cleaned. Ask for [[Tomasz]].",
    "Tomasz": "Carpenter, drives the blue lorry, paid in cash.",
    "Costumes": "Kept in the loft in numbered boxes. The list is with [[Greta]].",
    "Greta": "Takes measurements on Sundays; needs two weeks for a coat.",
    "Ticket sales": "Run over [[Boxline]] since last autumn.",
    "Boxline": "Takes 6 percent and pays out on the 15th. Their support is [[Helpdesk Lyon]].",
    "Helpdesk Lyon": "Speaks French and English, closed on Mondays.",
    "Garden party": "Planned for 20 June behind the hall; if it rains, see [[Old chapel]].",
    "Old chapel": "Holds ninety people, no heating, key at [[Parish office]].",
    "Parish office": "Opens at ten, a deposit of 100 is asked.",
    "Light desk": "48 channels, the manual is missing; cues are kept in [[Cue book]].",
    "Cue book": "Red binder on the shelf over the desk; the blackout is number 31.",
    "Choir": "Sings at the interval, led by [[Mireille]].",
    "Mireille": "Can be reached at the music school, room 7, not at home.",
    "Programme leaflet": "Four pages, printed by [[Quickprint]].",
    "Quickprint": "Needs the file as PDF/X with 3 mm bleed, three days ahead.",
    "Heating": "Breaks each winter. The contract is with [[Warmwerk]].",
    "Warmwerk": "Comes within 24 hours, 90 for a visit.",
    "Bar": "Earns more than the tickets; stock is bought at [[Riverside market]].",
    "Riverside market": "Members park behind the fish hall; card number 5512.",
}
SECOND_ASKED: Sequence[Asked] = [
    ("what is the director of the spring play allergic to?", "Noor", 1),
    ("how is the set of the spring play turned?", "Rotating stage", 1),
    ("when is the place open from which the rotating stage is borrowed?", "Opera workshop", 1),
    ("who at the lender of the spring play's stage drives it here, and how is he paid?", "Tomasz", 2),
    ("how long does the person with the costume list need for a coat?", "Greta", 1),
    ("what share does the company take that runs our ticket sales?", "Boxline", 1),
    ("on which day is the support of our ticket sales closed?", "Helpdesk Lyon", 2),
    ("where do we go with the garden party if it rains, and is it heated?", "Old chapel", 1),
    ("what deposit is asked for the key of the rain place of the garden party?", "Parish office", 2),
    ("which number is the blackout on the light desk?", "Cue book", 1),
    ("where can the leader of the choir be reached?", "Mireille", 1),
    ("in which form does the printer want the programme leaflet?", "Quickprint", 1),
    ("how soon does somebody come when the heating breaks?", "Warmwerk", 1),
    ("where do we park when we buy stock for the bar?", "Riverside market", 1),
    ("when does the spring play open?", "Spring play", 0),
    ("how many people does the old chapel hold?", "Old chapel", 0),
    ("where are the costumes kept?", "Costumes", 0),
    ("how many channels does the light desk have?", "Light desk", 0),
    ("when does Boxline pay out?", "Boxline", 0),
    ("what does a visit of Warmwerk cost?", "Warmwerk", 0),
    ("when does the parish office open?", "Parish office", 0),
    ("how wide is the rotating stage?", "Rotating stage", 0),
]


def main() -> None:
    """Print, of questions over links and of others, how many hits and envelopes have the answer."""
    data = Path(os.environ.get("SHARED_DATA_DIR", "shared/data"))
    for person, notes, asked in (("first", FIRST_NOTES, FIRST_ASKED), ("left out", SECOND_NOTES, SECOND_ASKED)):
        with tempfile.TemporaryDirectory() as folder:
            vault = Path(folder) / "vault"
            for name in BUNDLES:
                shutil.copytree(data / name, vault / Path(name).name)
            for title, text in notes.items():
                (vault / f"{title}.md").write_text(f"{text}\n")
            for followed in (False, True):
                for kind, found in _answered(Path(folder), asked, followed).items():
                    print(f"{person}, links {'' if followed else 'not '}followed, {kind}: {found}")


def _answered(folder: Path, asked: Sequence[Asked], followed: bool) -> Mapping[str, str]:
    counts: dict[str, list[int]] = {}
    with _opened(folder, StoreSettings(search=SearchSettings(follow_links=followed))) as store:
        for question, title, links in asked:
            gold = store.full_id(f"{title}.md")
            hits = [hit.node_id for hit in store.recall(question, channel="*", limit=HITS).hits]
            told = store.context(question, channel="*", budget_tokens=BUDGET_TOKENS).slots
            has = (gold in hits[:5], gold in hits, any(slot.node_id == gold for slot in told), True)
            of = counts.setdefault("over links" if links else "named", [0, 0, 0, 0])
            of[:] = [number + more for number, more in zip(of, has, strict=True)]
    return {kind: f"@5 {five}, @10 {ten}, told {told} of {all_}" for kind, (five, ten, told, all_) in counts.items()}


@contextmanager
def _opened(folder: Path, settings: StoreSettings) -> Iterator[MemoryStore]:
    index = folder / "index"
    paths = StorePaths(
        vault=folder / "vault",
        ledger=folder / "ledger.db",
        index=index / "index.db",
        embeddings=index / "embeddings.db",
        runs=folder / "runs",
    )
    embedder = embedder_for(settings.embedding, folder / "models")
    store = MemoryStore.open(paths, settings, embedder, lambda: datetime.now(UTC))
    try:
        store.reconcile()
        store.settle()
        store.embed([node.node_id for node in store.catalog.listing()])
        yield store
    finally:
        store.close()


if __name__ == "__main__":
    main()
