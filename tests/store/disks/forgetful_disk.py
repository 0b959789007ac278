"""A disk that forgets, at a power cut, what was not synced: contents of files and names in folders alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from dreamd.store.vault.disk import Disk

from tests.store.disks.power import Power, PowerCut

Inode = int
FOLDER: Inode = 0
NOTHING: Inode = -1


class ForgetfulDisk(Disk):
    """The real disk under `root`, and beside it a record of what of it is durable.

    `materialise` writes into another folder what a power cut would have left. Of what was not synced, each change of
    a name may have happened or not (a rename is one change), and each content may be whole, a part, zeros, or absent.
    Only what goes through this object is known to it.
    """

    layer = "vault"

    def __init__(self, root: Path, power: Power) -> None:
        self._root = root
        self._power = power
        self._last_inode = 0
        self._inodes: dict[Path, Inode] = {}
        self._contents: dict[Inode, bytes] = {}
        self._synced_contents: dict[Inode, bytes] = {}
        self._synced_names: dict[Path, Inode] = {root: FOLDER}
        self._unsynced_names: list[dict[Path, Inode]] = []
        for path in root.rglob("*"):  # what is there from before is durable
            self._synced_names[path] = FOLDER if path.is_dir() else self._new_inode(path.read_bytes())
        self._inodes.update(self._synced_names)
        self._synced_contents.update(self._contents)

    def _new_inode(self, content: bytes) -> Inode:
        self._last_inode += 1
        self._contents[self._last_inode] = content
        return self._last_inode

    # ---- writing

    def make_folder(self, path: Path) -> None:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        super().make_folder(path)
        self._unsynced_names.extend({folder: FOLDER} for folder in reversed(missing))

    def write_temp(self, folder: Path, data: bytes) -> Path:
        cut = self._power.fails()
        temp = super().write_temp(folder, data)
        self._name({temp: self._new_inode(data)})
        if cut:
            raise PowerCut
        return temp

    def append(self, path: Path, data: bytes, offset: int | None = None) -> None:
        cut = self._power.fails()
        super().append(path, data, offset)
        self._contents[self._inodes[path]] = self.read(path)
        if cut:
            raise PowerCut

    def rename(self, source: Path, target: Path) -> None:
        cut = self._power.fails()
        super().rename(source, target)
        self._name({source: NOTHING, target: self._inodes[source]})
        if cut:
            raise PowerCut

    def exchange(self, a: Path, b: Path) -> bool:
        cut = self._power.fails()
        atomic = super().exchange(a, b)
        self._name({a: self._inodes[b], b: self._inodes[a]})
        if cut:
            raise PowerCut
        return atomic

    def unlink(self, path: Path) -> None:
        cut = self._power.fails()
        super().unlink(path)
        self._name({path: NOTHING})
        if cut:
            raise PowerCut

    def remove_folder(self, path: Path) -> None:
        """Whatever was in the folder went before it did; another one at its path has none of its names."""
        cut = self._power.fails()
        super().remove_folder(path)
        self._unsynced_names = [
            names for names in self._unsynced_names if not all(name.is_relative_to(path) for name in names)
        ]
        for name in [name for name in self._synced_names if name != path and name.is_relative_to(path)]:
            del self._synced_names[name]
        self._name({path: NOTHING})
        if cut:
            raise PowerCut

    def _name(self, names: dict[Path, Inode]) -> None:
        self._inodes.update(names)
        self._unsynced_names.append(names)

    # ---- syncing

    def fsync(self, path: Path) -> None:
        self.stat(path)
        if self._syncs() and self._inodes.get(path, NOTHING) > 0:
            self._synced_contents[self._inodes[path]] = self._contents[self._inodes[path]]

    def fsync_dir(self, path: Path) -> None:
        self.stat(path)
        if self._syncs():
            self._sync_names(lambda name: name.parent == path)

    def sync_filesystem(self, path: Path, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        if self._syncs():
            self._synced_contents.update(self._contents)
            self._sync_names(lambda name: True)

    def _syncs(self) -> bool:
        if self._power.fails():
            raise PowerCut
        return self.layer not in self._power.lying

    def _sync_names(self, chosen: Callable[[Path], bool]) -> None:
        waiting = []
        for names in self._unsynced_names:
            if all(chosen(name) for name in names):
                self._synced_names.update(names)
            else:
                waiting.append(names)
        self._unsynced_names = waiting

    # ---- after the cut

    def materialise(self, target: Path) -> None:
        """Write into the folder `target`, in the place of `root`, what is there when the power is back."""
        names = dict(self._synced_names)
        for change in self._unsynced_names:
            if self._power.keeps():
                names.update(change)
        for name, inode in names.items():
            if inode == FOLDER and self._is_reachable(name, names):
                (target / name.relative_to(self._root)).mkdir(parents=True, exist_ok=True)
        for name, inode in names.items():
            if inode > 0 and self._is_reachable(name, names):
                (target / name.relative_to(self._root)).write_bytes(self._left_of(inode))

    def _is_reachable(self, name: Path, names: dict[Path, Inode]) -> bool:
        return name == self._root or all(names.get(folder) == FOLDER for folder in _between(name, self._root))

    def _left_of(self, inode: Inode) -> bytes:
        held, synced = self._contents[inode], self._synced_contents.get(inode, b"")
        if held == synced or self._power.keeps():
            return held
        start = len(synced) if held.startswith(synced) else 0
        end = self._power.rng.randint(start, len(held))
        if self._power.keeps():
            return held[:end]
        return held[:start] + bytes(end - start)


def _between(name: Path, root: Path) -> list[Path]:
    folders = []
    while name != root:
        name = name.parent
        folders.append(name)
    return folders
