"""One machine as a peer of the others: it reads their segments, and writes its own.

Only the machine itself writes its segments, so a remote that has something else there is a fault, and each has a way
out by which nothing is lost (`look_at_own`):

| the remote's end of our segment | is | consequence |
|---|---|---|
| missing, or older than ours | a remote that was emptied, or forced back | ours is pushed again |
| newer than ours | this machine was restored from a backup | it goes on under a new id, and reads its old segment |
| apart from ours, and readable | another machine has our id | the same, and its entries are written again |
| apart from ours, not readable | somebody else's push | ours is pushed over it |

A segment of another machine that vanished from the remote is pushed again as it was last seen, and entries that are no
longer in one are written again by every machine that knows them, unless they were purged.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from .entries import Known, Standing, SyncEntry, read_lines
from .segments import OURS, THEIRS, Batch, Repository, Sealer, SyncError, machine_of

BATCH_BYTES: Final = 512 * 1024
BATCHES_HELD: Final = 16


@dataclass(slots=True)
class News:
    """Entries that were not read before, each with segment and batch, and how far the segments are read with them.

    `rewritten` are the segments that were written anew; their old objects are still here.
    """

    entries: list[tuple[SyncEntry, str, str]] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    rewritten: set[str] = field(default_factory=set)


def new_machine_id() -> str:
    """Return an id by which no other machine is known."""
    return f"{secrets.randbits(32):08x}"


class Peer:
    """One machine's side of the segments. One thread at a time."""

    def __init__(
        self,
        repository: Repository,
        sealer: Sealer,
        known: Known,
        machine: str,
        host: str,
        now: Callable[[], datetime],
    ) -> None:
        self.machine = machine
        self._host = host
        self._repository = repository
        self._sealer = sealer
        self._known = known
        self._now = now
        self._held: OrderedDict[str, dict[str, SyncEntry]] = OrderedDict()
        self._remote: dict[str, str] = {}
        self.written = 0
        """Entries that were written since the start."""

    def introduction(self, was: str | None = None, *, stays: bool = False) -> SyncEntry:
        """Return the entry that says who this machine is; `was`: the id that it no longer has; `stays`: it has it."""
        body = {"kind": "machine", "machine": self.machine, "host": self._host, "was": was}
        return SyncEntry(body | ({"stays": True} if stays else {}))

    # ---- reading

    def fetch(self) -> None:
        """Fetch the segments of the remote, if any has changed. Raises RemoteAway."""
        self._remote = self._repository.remote_tips()
        here, ours = self._repository.tips(THEIRS), self._repository.tips(OURS)
        if any(tip not in (here.get(_theirs(ref)), ours.get(ref)) for ref, tip in self._remote.items()):
            self._repository.fetch()

    def look_at_own(self) -> bool:
        """Compare our segments with the remote's; True where this machine must go on under a new id."""
        places, ours = self._known.places(), self._repository.tips(f"{OURS}{self.machine}/")
        is_rewritten = False
        for ref, tip in ours.items():
            there = self._remote.get(ref)
            pushed = places[ref][1] if ref in places else None
            if there in (None, tip, pushed):
                continue
            assert there is not None
            if self._repository.is_ancestor(there, tip) or (pushed and self._repository.is_ancestor(there, pushed)):
                continue
            is_rewritten = is_rewritten or self._is_readable(there)
        unknown = (tip for ref, tip in self._remote.items() if machine_of(ref) == self.machine and ref not in ours)
        is_another = is_rewritten or any(map(self._is_readable, unknown))
        # A second ref to our own batches would keep them after a purge.
        for ref in self._repository.tips(f"{THEIRS}{self.machine}/") if not is_another else ():
            self._repository.point(ref, None)
        return is_another

    def _is_readable(self, tip: str) -> bool:
        return any(isinstance(one, SyncEntry) for one in self._lines(self._repository.batch(tip), "", aside=False))

    def begin_anew(self, machine: str) -> list[SyncEntry]:
        """Go on under a new id: our segments are another's from now on. Returns the entries that the remote lacks."""
        lost, old = list[SyncEntry](), self.machine
        for ref, tip in self._repository.tips(f"{OURS}{old}/").items():
            there = self._remote.get(ref)
            if there is None or not self._repository.is_ancestor(tip, there):
                lost += [one for batch in self._repository.batches(tip, None) for one in self._entries(batch, ref)]
            self._repository.point(ref, None)
        self._known.forget_places([ref for ref in self._known.places() if machine_of(ref) == old])
        self.machine = machine
        return [entry for entry in lost if entry.kind != "machine"]

    def news(self) -> News:
        """Return the entries that were not read before, of all segments; also of our own, after a crash."""
        news, places = News(), self._known.places()
        for ref, tip in self._repository.tips("refs/").items():
            if ref.startswith(THEIRS) and machine_of(ref) == self.machine:
                continue
            after = places[ref][0] if ref in places else None
            if after == tip:
                continue
            if after is not None and not self._repository.is_ancestor(after, tip):
                after = None  # after a purge, or by somebody else's push
                news.rewritten.add(ref)
            for batch in self._repository.batches(tip, after):
                news.entries.extend((entry, ref, batch.commit) for entry in self._entries(batch, ref))
            news.places[ref] = tip
        return news

    def entry(self, entry_id: str) -> SyncEntry | None:
        """Return an entry by its id, None where its batch is gone or cannot be read."""
        place = self._known.place_of(entry_id)
        if place is None:
            return None
        _, commit = place
        if commit not in self._held:
            read = self._lines(self._repository.batch(commit), "", aside=False)
            self._hold(commit, {one.entry_id: one for one in read if isinstance(one, SyncEntry)})
        self._held.move_to_end(commit)
        return self._held[commit].get(entry_id)

    def _hold(self, commit: str, entries: dict[str, SyncEntry]) -> None:
        self._held[commit] = entries
        while len(self._held) > BATCHES_HELD:
            self._held.popitem(last=False)

    def _entries(self, batch: Batch, ref: str) -> list[SyncEntry]:
        found = [one for one in self._lines(batch, ref, aside=True) if isinstance(one, SyncEntry)]
        self._hold(batch.commit, {one.entry_id: one for one in found})
        return found

    def _lines(self, batch: Batch, ref: str, *, aside: bool) -> Iterable[SyncEntry | str]:
        """Return the entries of a batch; a broken one is set aside and named."""
        name = f"batch {batch.commit[:10]} of machine {machine_of(ref)}"
        read: list[SyncEntry | str] = []
        try:
            read = ["it has no entries"] if batch.sealed is None else list(read_lines(self._sealer.open(batch.sealed)))
        except SyncError as error:
            read = [str(error)]
        if aside:
            broken = [one for one in read if isinstance(one, str)]
            self._known.set_aside(name, "; ".join(broken[:3]) if broken else None)
        return read

    # ---- writing

    def write(self, channel: str, pieces: Sequence[tuple[SyncEntry, Mapping[str, Standing]]]) -> None:
        """Append entries to our segment of a channel, each with the state that it stands for; a crash loses none."""
        ref = f"{OURS}{self.machine}/{self._sealer.name_of(channel)}"
        tip = self._repository.tips(ref).get(ref)
        seq = self._known.places().get(ref, ("", None, 0))[2]
        for batch in _batches(pieces):
            lines = bytearray()
            for entry, _ in batch:
                seq += 1
                lines += entry.line(seq, self._now().isoformat())
            tip = self._repository.append(tip, self._sealer.seal(bytes(lines)))
            self._repository.point(ref, tip)
            self.written += len(batch)
            standing = {node: one for _, stands in batch for node, one in stands.items()}
            self._known.add([(entry, ref, tip) for entry, _ in batch], {ref: tip}, standing)
            self._known.set_place(ref, tip, seq)

    def push(self) -> bool:
        """Push our segments where the remote has them not, and those of others that vanished there; True if any was.

        Raises RemoteAway and Contended.
        """
        places = self._known.places()
        wanted: dict[str, tuple[str, str | None]] = {}
        for ref, tip in self._repository.tips(f"{OURS}{self.machine}/").items():
            if self._remote.get(ref) != tip:
                wanted[ref] = tip, self._remote.get(ref)
            elif ref in places and places[ref][1] != tip:
                self._known.set_pushed(ref, tip)
        for theirs, tip in self._repository.tips(THEIRS).items():
            ref = f"{OURS}{theirs.removeprefix(THEIRS)}"
            if ref not in self._remote and machine_of(ref) != self.machine:
                wanted[ref] = tip, None
        self._repository.push(wanted)
        for ref, (tip, _) in wanted.items():
            self._remote[ref] = tip
            if machine_of(ref) == self.machine:
                self._known.set_pushed(ref, tip)
        return bool(wanted)

    def rewrite(self, kept: Callable[[SyncEntry], SyncEntry | None]) -> None:
        """Write our segments anew, each entry as it is `kept`, and remove the old bytes from this machine."""
        for ref, tip in self._repository.tips(f"{OURS}{self.machine}/").items():
            entries = [one for batch in self._repository.batches(tip, None) for one in self._entries(batch, ref)]
            left = [(one, after) for one in entries if (after := kept(one)) is not None]
            # A ref that is kept shows the others that its entries of before are gone.
            left = left or [(one, one) for one in (self.introduction(),)]
            new: str | None = None
            noted: list[tuple[SyncEntry, str, str]] = []
            for batch in _batches([(after, {}) for _, after in left]):
                numbers = {id(after): one.seq or 1 for one, after in left}
                at = {id(after): one.at or self._now().isoformat() for one, after in left}
                lines = b"".join(entry.line(numbers[id(entry)], at[id(entry)]) for entry, _ in batch)
                new = self._repository.append(new, self._sealer.seal(lines))
                noted += [(entry, ref, new) for entry, _ in batch]
            gone = {one.entry_id for one in entries} - {entry.entry_id for entry, _, _ in noted}
            assert new is not None
            self._repository.point(ref, new)
            self._known.add(noted, {ref: new})
            self._known.drop(gone)
        self.prune()

    def prune(self) -> None:
        """Remove the bytes of batches that no segment has any more from this machine."""
        self._held.clear()
        self._repository.prune()

    def times(self) -> dict[str, str]:
        """Return of each machine when it wrote its last batch."""
        found: dict[str, str] = {}
        for ref, at in self._repository.times("refs/").items():
            machine = machine_of(ref)
            if not (ref.startswith(THEIRS) and machine == self.machine):
                found[machine] = max(found.get(machine, ""), at)
        return found

    def shares_nothing(self) -> bool:
        """Return True while no entry of any machine can be read, although the remote has some: the key is another."""
        tips = self._repository.tips(THEIRS).values()
        return bool(tips) and not any(self._is_readable(tip) for tip in tips)


def _theirs(ref: str) -> str:
    return f"{THEIRS}{ref.removeprefix(OURS)}"


def _batches(
    pieces: Sequence[tuple[SyncEntry, Mapping[str, Standing]]],
) -> Iterable[Sequence[tuple[SyncEntry, Mapping[str, Standing]]]]:
    some: list[tuple[SyncEntry, Mapping[str, Standing]]] = []
    size = 0
    for piece in pieces:
        length = len(str(piece[0].body.get("text", ""))) + 400
        if some and size + length > BATCH_BYTES:
            yield some
            some, size = [], 0
        some.append(piece)
        size += length
    if some:
        yield some
