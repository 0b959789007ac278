"""The table of all methods: the store's and the daemon's own, each with the part of the daemon that answers it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...ipc.call import Method
from ...ipc.methods import STORE_METHODS
from ..agents.hooks import Hooks
from ..dreaming.dreamer import Dreamer
from ..importing.following.follower import Follower
from ..page.opening import PAGE_METHODS, WebPage
from .control import CONTROL_METHODS, ControlMethods, Process
from .doctor import DOCTOR_METHODS, DoctorMethods
from .dream_methods import DREAM_METHODS, DreamMethods
from .export_methods import EXPORT_METHODS, ExportMethods
from .hook_methods import HOOK_METHODS
from .learn_methods import LEARN_METHODS, LearnMethods
from .proof import PROOF_METHODS, ProofMethods
from .purge_methods import PURGE_METHODS, PurgeMethods
from .review_methods import REVIEW_METHODS, TEAM_METHODS, ReviewMethods, TeamMethods
from .sync_methods import SYNC_METHODS, SyncMethods
from .transcript_methods import TRANSCRIPT_METHODS, TranscriptMethods

if TYPE_CHECKING:
    from ...store import MemoryStore
    from ..dreaming.schedule import Schedule
    from ..host.folder_watch import VaultWatch
    from ..settings import Settings

METHODS: tuple[Method[Any, Any], ...] = (
    *STORE_METHODS,
    *CONTROL_METHODS,
    *HOOK_METHODS,
    *DREAM_METHODS,
    *PURGE_METHODS,
    *TRANSCRIPT_METHODS,
    *REVIEW_METHODS,
    *PAGE_METHODS,
    *EXPORT_METHODS,
    *PROOF_METHODS,
    *LEARN_METHODS,
    *SYNC_METHODS,
    *TEAM_METHODS,
    *DOCTOR_METHODS,
)


def methods_of(
    store: MemoryStore,
    dreamer: Dreamer,
    schedule: Schedule,
    watcher: VaultWatch,
    hooks: Hooks,
    follower: Follower,
    settings: Settings,
    process: Process,
    page: WebPage,
    sync: SyncMethods,
) -> Iterator[Method[Any, Any]]:
    """Yield every method with its home."""
    # `status` reports on dreams and transcripts too, so these two are shared.
    dreams, transcripts = DreamMethods(store, dreamer), TranscriptMethods(follower)
    homes = (
        (STORE_METHODS, store),
        (CONTROL_METHODS, ControlMethods(store, dreams, transcripts, schedule, watcher, settings, process)),
        (HOOK_METHODS, hooks),
        (DREAM_METHODS, dreams),
        (EXPORT_METHODS, ExportMethods(store)),
        (PROOF_METHODS, ProofMethods(store)),
        (LEARN_METHODS, LearnMethods(store, dreamer)),
        (PURGE_METHODS, PurgeMethods(store, dreamer)),
        (TRANSCRIPT_METHODS, transcripts),
        (REVIEW_METHODS, ReviewMethods(store, settings)),
        (PAGE_METHODS, page),
        (SYNC_METHODS, sync),
        (TEAM_METHODS, TeamMethods(store)),
        (DOCTOR_METHODS, DoctorMethods()),
    )
    for methods, home in homes:
        yield from (method.of(home) for method in methods)
