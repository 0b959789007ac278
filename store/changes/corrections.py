"""Corrections by hand, each a run that can be undone: forget, restore, link, tag, and the decisions of a review."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .. import okf
from ..channel import of_one_project
from ..core import Core
from ..door import outgoing
from ..index.projection import CURATED, Node
from ..index.repairs import repeated_after_repair
from ..index.tombstones import TURN, UNTOLD, fingerprint, pair_key
from ..ledger import records
from ..ledger.journal import sha256
from ..limits import LONGEST_CURATED
from ..model import (
    COLLEAGUE,
    GLOBAL_CHANNEL,
    SKILL,
    SKILL_DRAFT,
    Action,
    ActionKind,
    Changeset,
    Conflict,
    Edit,
    InvalidInput,
    Kind,
    Memory,
    NodeId,
    NotFound,
    Relation,
    Status,
    StoreBusy,
)
from ..redaction import REDACTED
from ..results import Decided, Edited, Forgotten, Goal, Linked, Restored, Tagged
from ..text.fence import plain
from ..text.quotes import title_of
from .agent_statements import INFERRED, Waiting, acceptance, waiting
from .apply import Changes
from .decisions import Choice, Decision, Decisions, Marks, restoring
from .deletions import Deletions, bringing_back
from .edits import EDITED, TITLE_CHARS, edited, version_of_file
from .links import LinkEdits, last_successor, successors
from .run_kinds import EDIT, FORGET, REJECTED, RESTORE, REVIEW, TURN_FORGOTTEN, AppliedRun, Overtaken, new_run_id

# Stands for the name in an acceptance by a person's own words.
SAID_BY_THEM = "said"

# Tags of one memory.
MOST_TAGS = 64

# The tense of a fact about the future.
FUTURE = "future"

# Attempts at a change that other runs of dreamd overtake: a new memory is linked by one run, so the second attempt
# nearly always succeeds.
MOST_PLANS = 3


class Corrections:
    """Plans and applies the corrections of a person. Every method may be called from any thread."""

    def __init__(self, core: Core, changes: Changes, deletions: Deletions) -> None:
        self.repairs = core.repairs
        self._core = core
        self._door = core.door
        self._writer = core.writer
        self._vault = core.vault
        self._catalog = core.catalog
        self._lookup = core.lookup
        self.on_forgotten: Callable[[NodeId, str], None] = lambda node_id, text: None
        """Called with a memory or turn that was forgotten."""
        self.link_accepted: Callable[[Node, LinkEdits], None] = lambda node, edits: None
        """Adds the links of a memory that is accepted to the facts that it replaces or disputes."""
        self._tombstones = core.tombstones
        self._now = core.now
        self._changes = changes
        self._decisions = Decisions(core)
        self._deletions = deletions

    def forget(self, node_id: NodeId, reason: str = "") -> Forgotten:
        """Remove a memory from the vault and all answers, as a run that `undo` reverts; no dream proposes it again.

        A turn stays in its session's file, hidden; facts that rest on it alone are removed with it. The predecessors of
        the memory are live again. A second call is answered as the first: an agent may ask again after a crash lost
        the answer. Raises NotFound, and InvalidInput for a session.
        """
        if (before := self._forgotten_before(node_id)) is not None:
            return before
        node = self._core.node(node_id)
        if node.kind is Kind.SESSION:
            raise InvalidInput(f"{node_id} is a whole session", hint="Forget its turns, by their ids SESSION#N.")
        reason = self._door.redacted(plain(reason)).text or "forgotten by its person"
        # Facts that cite the node and no other would be without evidence.
        also = [other for other in self._lookup.resting_only_on(node_id) if other.node_id != node_id]
        doomed = also if node.kind is Kind.TURN else [node, *also]
        summary = {"node_id": node_id, "note": f"forgot {node_id}"}
        summary |= {TURN_FORGOTTEN: node_id} if node.kind is Kind.TURN else {}
        run_id = self._apply(
            lambda: [*(self._deletion(other, reason) for other in doomed), *self._releases(doomed)], FORGET, summary
        ).run_id
        if node.kind is Kind.TURN:  # after the run: a hidden turn has no facts left
            self._writer.write(records.leave_tombstone(f"{TURN}{node_id}", run_id, self._now(), reason)).result()
        with contextlib.suppress(StoreBusy):  # it is closing: the index follows at the next start
            self._tombstones.read_and_follow(self._core.opened, self._core.indexer, [node_id])
        for other in (node, *also):
            self.on_forgotten(other.node_id, other.text)
        return Forgotten(node_id, run_id, tuple(other.node_id for other in also))

    def restore(self, node_id: NodeId) -> Restored:
        """Restore a memory that is archived or replaced, or whose file is gone, as a run that `undo` reverts.

        It counts as used now. Its successors stay live, and no dream compares it with them again. Raises NotFound,
        InvalidInput for a live or a forgotten memory, and Conflict if another file has the place of a deleted one.
        """
        self._core.settle()
        deleted = self._deletions.find(node_id)
        if deleted is None and (gone := self._forgotten_before(node_id)) is not None:
            raise InvalidInput(f"{node_id} was forgotten", hint=f"`dreamctl undo {gone.run_id}` brings it back.")
        if deleted is None:
            node = self._core.node(node_id)
            path, lifted = node.path, None
            if (beside := last_successor(node_id, self._lookup.read)) is not None:
                return self._restore_beside(node, beside)
            restored = partial(self._restoring, node)
            restored()  # raises before the memory counts as used
        else:
            path, lifted = deleted.path, deleted.fingerprint
            restored = partial(bringing_back, node_id, deleted)
        self._writer.write(
            *records.log_usage([node_id], self._now()), *([records.lift_tombstone(lifted)] if lifted else ())
        ).result()
        applied = self._apply(lambda: [restored()], RESTORE, {"note": f"restored {node_id}"})
        _raise_if_refused(applied)
        self._tombstones.read()
        return Restored(node_id, applied.run_id, path)

    def _restoring(self, node: Node) -> Action:
        return restoring(node, self._vault.read(node.path))

    def _restore_beside(self, node: Node, successor: NodeId) -> Restored:
        """Make a memory live again beside its successors."""

        def part(edits: LinkEdits) -> None:
            for newer in self._catalog.nodes(successors(node.node_id, self._lookup.read)).values():
                edits.part(node, newer, pair_key(node.node_id, newer.node_id))

        run_id = self._edit(part, f"restored {node.node_id} beside {successor}", RESTORE)
        if run_id is None:
            raise Conflict(f"{node.path} stays as it is", hint="Its frontmatter cannot be edited: look at it.")
        self._writer.write(*records.log_usage([node.node_id], self._now())).result()
        return Restored(node.node_id, run_id, node.path, successor)

    @repeated_after_repair
    def decisions(self) -> Sequence[Decision]:
        """Return the contradictions that a person has to decide, newest first."""
        self._core.settle()
        return self._decisions.open()

    @repeated_after_repair
    def marks(self, offset: int = 0, limit: int | None = None) -> Marks:
        """Return a page of the pairs that dreams or `remember` marked: the doubtful first, then the newest."""
        self._core.settle()
        return self._decisions.marks(offset, limit)

    def decide(self, name: str, choice: Choice, by: str, text: str = "") -> Decided:
        """Settle an open decision or a mark, as a run that `undo` reverts; no dream raises it, or marks the two, again.

        Raises NotFound if none of this name is open, InvalidInput for an edit without a text, and Conflict if a file
        changed meanwhile.
        """
        self._core.settle()
        decision = self._decisions.find(name)
        kept = self._door.statement(text) if choice == "edit" else ""
        now = self._now()
        title, person = title_of(kept, TITLE_CHARS), self._door.name(by)
        applied = self._apply(
            lambda: self._decisions.actions(decision, choice, person, now, kept, title),
            REVIEW,
            {"note": f"decided {decision.decision_id}: {choice}"},
        )
        _raise_if_refused(applied)
        self._tombstones.read()
        if decision.mark:  # else the older, long unused, would fade the next night
            self._writer.write(*records.log_usage({decision.older.node_id, decision.newer.node_id}, now)).result()
        return Decided(decision.decision_id, applied.run_id, choice, (decision.older.path, decision.newer.path))

    @repeated_after_repair
    def waiting(self) -> Sequence[Waiting]:
        """Return the statements of agents that wait for review, newest first."""
        self._core.settle()
        nodes = self._catalog.nodes(names := self._catalog.waiting())
        files = [(nodes[name].path, self._vault.read_if_any(nodes[name].path)) for name in names if name in nodes]
        found = [waiting(okf.to_memory(path, okf.parse(data))) for path, data in files if data is not None]
        return [replace(one, text=outgoing(one.text), because=outgoing(one.because)) for one in found]

    def accept(self, node_id: NodeId, by: str) -> Decided:
        """Make a waiting memory the kind that its agent wanted, as a run that `undo` reverts.

        The run replaces and disputes the facts that the memory would if it was remembered now. Raises NotFound for one
        that does not wait, and Conflict if its file changed meanwhile.
        """
        node, accepted = self._waiting(node_id, LinkEdits(self._vault.read_if_any, REVIEW))

        def accept(edits: LinkEdits) -> None:
            nonlocal accepted
            memory = edits.edited(node)
            said = f"{memory.said_by} shared" if memory.provenance == COLLEAGUE else "an agent wrote down"
            edits.edit(node, acceptance(memory, by, self._now()), f"a person accepted what {said}")
            self.link_accepted(node._replace(channel=edits.edited(node).channel), edits)
            accepted = edits.edited(node)

        run_id = self._edit(accept, f"accepted {node_id}", REVIEW)
        assert run_id is not None
        return Decided(node_id, run_id, "accept", (node.path,), accepted.supersedes, accepted.contradicts)

    def reject(self, node_id: NodeId) -> Decided:
        """Forget a waiting memory. Raises NotFound for one that does not wait."""
        node, _ = self._waiting(node_id, LinkEdits(self._vault.read_if_any, REVIEW))
        return Decided(node_id, self.forget(node_id, REJECTED).run_id, "reject", (node.path,))

    def _waiting(self, node_id: NodeId, edits: LinkEdits) -> tuple[Node, Memory]:
        self._core.settle()
        node = self._catalog.node(node_id)
        if node is None or not node.live or not (memory := edits.edited(node)).is_waiting:
            raise NotFound(f"no memory {node_id} waits", hint="`dreamctl review --list` shows those that do.")
        return node, memory

    def vouch(self, memory: Memory) -> None:
        """Accept a waiting memory whose words its person has said as well, if it still waits."""
        with contextlib.suppress(NotFound):
            self.accept(memory.node_id, SAID_BY_THEM)

    def link(self, source: NodeId, target: NodeId, relation: Relation) -> Linked:
        """Write a relation of a memory to another node into its file, as a run that `undo` reverts.

        Raises NotFound, InvalidInput for nodes that cannot be linked (turns, sessions, files without frontmatter, nodes
        of two channels, a memory and its own successor), and Conflict if a file changed meanwhile.
        """
        one, other = self._editable(source), self._core.node(target)
        _refuse_link(one, other)
        if relation != "RelatesTo":
            other = self._editable(target)

        def link(edits: LinkEdits) -> None:
            if relation == "RelatesTo":
                edits.relate(one, other, "it was linked by hand")
            elif relation == "Supersedes":
                self._refuse_circle(one, other)
                edits.supersede(other, one, pair_key(other.node_id, one.node_id))
            else:
                edits.contradict(other, one, None)  # without a tombstone, which would say that a person decided it

        return Linked(source, target, relation, self._edit(link, f"linked {source} to {target}"))

    def _refuse_circle(self, newer: Node, older: Node) -> None:
        if older.node_id in successors(newer.node_id, self._lookup.read):
            raise InvalidInput(
                f"{older.node_id} has taken the place of {newer.node_id}",
                hint=f"`dreamctl restore {newer.node_id}` has both hold; then link them the other way round.",
            )

    def tag(self, node_id: NodeId, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Tagged:
        """Change the tags of a memory, as a run that `undo` reverts. Raises as `link` does."""
        self._door.check_names(GLOBAL_CHANNEL, labels=(*add, *remove))
        node = self._editable(node_id)
        added = [self._door.name(tag) for tag in add]
        tags: tuple[str, ...] = ()

        def tagging(edits: LinkEdits) -> None:
            nonlocal tags
            tags = edits.tag(node, added, remove)
            if len(tags) > MOST_TAGS:
                raise InvalidInput(f"{node_id} would have {len(tags)} tags", hint=f"{MOST_TAGS} are the most.")

        run_id = self._edit(tagging, f"tagged {node_id}")
        return Tagged(node_id, tags, run_id)

    def edit(self, node_id: NodeId, edit: Edit, seen: str = "", by: str = "") -> Edited:
        """Change a memory's words, title, kind, tags or priority, as a run that `undo` reverts.

        `seen` is the version that was shown. Raises Conflict if another is there now, and otherwise as `link` does.
        """
        self._door.check_names(GLOBAL_CHANNEL, (by or None,), edit.tags or ())
        node = self._core.node(node_id)
        if node.kind in {Kind.TURN, Kind.SESSION}:
            raise InvalidInput(f"{node_id} is a {node.kind}, which is kept as it was said", hint="Edit a fact of it.")
        if node.kind is Kind.DOCUMENT:
            raise InvalidInput(f"{node_id} is an agent's document", hint="Its agent changes it by its key.")
        clean = replace(
            edit,
            title=None if edit.title is None else self._door.title(edit.title),
            tags=None if edit.tags is None else tuple(dict.fromkeys(map(self._door.name, edit.tags))),
        )

        def plan() -> Sequence[Action]:
            data = self._vault.read(node.path)
            if seen and version_of_file(node.path, data) != seen:
                raise Conflict(f"{node_id} has changed since it was shown", hint="Look at it, and edit it again.")
            memory = okf.to_memory(node.path, okf.parse(data))
            content = edited(memory, data, clean, self._now(), self._door.statement)
            if content == data:
                return ()
            return (Action.replacing(node.path, node_id, data, content, stage=EDIT, reason=EDITED),)

        summary = {"note": f"edited {node_id}", "node_id": node_id} | ({"by": self._door.name(by)} if by else {})
        applied = self._apply(plan, EDIT, summary)
        _raise_if_refused(applied)
        self._core.settle()
        now_there = self._core.node(node_id)
        redacted = max(0, now_there.text.count(REDACTED) - (edit.text or now_there.text).count(REDACTED))
        version = version_of_file(node.path, self._vault.read(node.path))
        return Edited(
            node_id,
            applied.run_id or None,
            version,
            now_there.kind,
            now_there.title,
            now_there.tags,
            now_there.curated,
            redacted,
        )

    def curate(self, node_id: NodeId, priority: int) -> str | None:
        """Put a memory into every envelope of its channel, as a run; return its id, None if it is there already.

        Raises as `link` does, and InvalidInput for one that is too long.
        """
        node = self._editable(node_id)
        if len(node.text) > LONGEST_CURATED:
            raise InvalidInput(f"{node_id} is too long for every envelope", hint=f"{LONGEST_CURATED} characters fit.")
        why = "it stands in every envelope"
        return self._edit(
            lambda edits: edits.edit(node, {CURATED: priority}, why), f"{node_id} stands in every envelope"
        )

    def mark_skill(self, node_id: NodeId, skill: Mapping[str, str]) -> Decided:
        """Note the file of the skill that was made of a procedure, or {} for none, as a run that `undo` reverts.

        Raises NotFound for a page that is no draft.
        """
        node = self._editable(node_id)

        def mark(edits: LinkEdits) -> None:
            page = edits.edited(node)
            if SKILL_DRAFT not in page.tags:
                raise NotFound(f"{node_id} is no draft of a skill", hint="`dreamctl review --list` shows the drafts.")
            tags = [tag for tag in page.tags if tag != SKILL_DRAFT]
            edits.edit(node, {SKILL: dict(skill), "tags": tags}, "a person decided about a skill")

        choice = "accept" if skill else "reject"
        run_id = self._edit(mark, f"{choice}ed a skill of {node_id}", REVIEW)
        assert run_id is not None
        return Decided(node_id, run_id, choice, (skill["path"],) if skill else (node.path,))

    def close_thread(self, goal: Goal) -> None:
        """Archive the fact that `Intake.keep_thread` made of a goal; a person's own words stay as they are."""
        self._core.settle()
        node = self._catalog.node(okf.fact_id(goal.channel, goal.text))
        if node is None or not node.live:
            return
        archived = {"status": Status.DEPRECATED.value, "archived_at": self._now().isoformat(), "tense": "past"}

        def close(edits: LinkEdits) -> None:
            memory = edits.edited(node)
            if (memory.provenance, memory.tense) == (INFERRED, FUTURE):
                edits.edit(node, archived, f"the goal was {goal.state}")

        self._edit(close, f"{goal.goal_id} was {goal.state}")

    def _forgotten_before(self, node_id: NodeId) -> Forgotten | None:
        """Return the answer of an earlier `forget`; None for a node that is there, or was never forgotten."""
        # A forgotten turn is still in its session's file, hidden by its tombstone; a memory's file is gone.
        if f"{TURN}{node_id}" not in self._tombstones.names:
            with contextlib.suppress(NotFound):
                self._core.node(node_id)
                return None
        if (run := self._core.ledger.run_about(FORGET, node_id)) is None:
            return None
        gone = (one.node_id for one in self._core.ledger.actions(run.run_id) if one.kind == ActionKind.DELETE)
        return Forgotten(node_id, run.run_id, tuple(other for other in gone if other != node_id))

    def _editable(self, node_id: NodeId) -> Node:
        """Return a memory whose file can be edited. Raises InvalidInput for any other node."""
        node = self._core.node(node_id)
        if node.kind in {Kind.TURN, Kind.SESSION}:
            raise InvalidInput(f"{node_id} is a {node.kind}, which is kept as it was said", hint="Name a memory.")
        if not okf.parse(self._vault.read(node.path)).meta:
            raise InvalidInput(f"{node.path} has no frontmatter", hint="Give it one: '---', a 'type', '---'.")
        return node

    def _edit(self, make: Callable[[LinkEdits], None], note: str, stage: str = EDIT) -> str | None:
        """Apply the edits that `make` gathers as one run and return its id; None if they change nothing."""

        def actions() -> Sequence[Action]:
            edits = LinkEdits(self._vault.read_if_any, stage)
            make(edits)
            return edits.actions()

        applied = self._apply(actions, EDIT, {"note": note})
        _raise_if_refused(applied)
        self._tombstones.read()
        return applied.run_id or None

    def _apply(self, plan: Callable[[], Sequence[Action]], kind: str, summary: Mapping[str, Any]) -> AppliedRun:
        """Plan a run from the files as they are, and apply it; an edit that changes nothing is no run (id "").

        If another run of dreamd, such as the linking of a new memory, changes a file in between, the change is planned
        again. Raises Overtaken if that happens MOST_PLANS times.
        """
        # `plan` reads the files each time, so that a second attempt builds on the run that overtook the first.
        for left in reversed(range(MOST_PLANS)):
            actions, now = tuple(plan()), self._now()
            if not actions and kind == EDIT:
                break
            changeset = Changeset(run_id=new_run_id(now, kind), actions=actions)
            try:
                return self._changes.apply(changeset, kind=kind, now=now, summary=summary, may_be_overtaken=False)
            except Overtaken:
                if not left:
                    raise
        return AppliedRun("", 0)

    def _releases(self, doomed: Sequence[Node]) -> Sequence[Action]:
        """Return the edits that revive the predecessors of removed memories, or give them the next successor."""
        gone = {node.node_id for node in doomed}
        edits = LinkEdits(self._vault.read_if_any, FORGET)
        for node in doomed:
            for older in self._lookup.replaced_by(node.node_id):
                if older.node_id not in gone:
                    heir = last_successor(older.node_id, self._lookup.read, gone)
                    edits.release(older, node, self._catalog.node(heir) if heir else None)
        return edits.actions()

    def _deletion(self, node: Node, reason: str) -> Action:
        data = self._vault.read(node.path)
        memory = okf.to_memory(node.path, okf.parse(data), self._now())
        return Action(
            kind=ActionKind.DELETE,
            path=node.path,
            node_id=node.node_id,
            stage=FORGET,
            reason=reason,
            pre_sha256=sha256(data),
            fingerprint="\n".join((fingerprint(memory), *(f"{UNTOLD}{one}" for one in memory.sources if "#" in one))),
        )


def _raise_if_refused(applied: AppliedRun) -> None:
    for refused in applied.skipped:
        raise Conflict(f"{refused.path} stays as it is: {refused.reason}", hint="Look at it, and try again.")


def _refuse_link(one: Node, other: Node) -> None:
    if one.node_id == other.node_id:
        raise InvalidInput(f"{one.node_id} cannot be linked to itself")
    if other.channel not in of_one_project(one.channel) and GLOBAL_CHANNEL not in (one.channel, other.channel):
        raise InvalidInput(
            f"{one.node_id} is of {one.channel} and {other.node_id} of {other.channel}",
            hint="Memories of two projects are not linked.",
        )
