"""People and things: the knowledge of one, the graph of all of them, and their names put right by hand.

What a person merged or split lies in the pages, so it survives a rebuild of the index, and no dream changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final, NamedTuple

from .. import okf
from ..channel import channels_in_reach
from ..core import Core
from ..door import outgoing
from ..index.graph import grouped
from ..index.projection import MENTIONS_LINK, REWORDS, Node
from ..index.repairs import repeated_after_repair
from ..index.tombstones import UNTOLD
from ..model import (
    ALL_CHANNELS,
    Action,
    ActionKind,
    Changeset,
    Conflict,
    InvalidInput,
    Kind,
    Level,
    Memory,
    NodeId,
    NotFound,
)
from ..okf.entity_page import (
    BY_PERSON,
    EntityPage,
    EntityRelation,
    EntityType,
    entity_of,
    entity_path,
    key_of,
    says_one_of,
    statement_of,
)
from ..okf.memory_file import BY_HAND, body_hash
from ..results import About, AboutLine, EntityGraph, EntityLine, Named, RelationLine
from ..roles import MACHINES
from ..search.search import Search
from ..text.dates import format_date
from ..text.sentences import first_sentences, on_one_line, sentences_of
from ..text.token_count import estimate_tokens
from ..text.words import query_terms
from .apply import Changes
from .edits import without_line
from .run_kinds import EDIT, new_run_id

MOST_READ: Final = 80
"""The newest turns that name an entity, of which facts and sentences are read."""

MOST_QUOTED: Final = 1
"""Sentences of a turn that are shown: many turns say more of a person than much of a few."""

DRAWN: Final = ("cites", REWORDS)
"""The kinds of the first link of a fact to its turn: in its words, or in others since."""

SHORT_ID: Final = 8
LONGEST_LINE: Final = 400
LONGEST_MENTION: Final = 200


class Entities:
    """Answers about people and things. Every method may be called from any thread."""

    def __init__(self, core: Core, search: Search) -> None:
        self.repairs = core.repairs
        self._core = core
        self._search = search
        self._catalog = core.catalog
        self.graph = core.opened.graph

    @repeated_after_repair
    def about(self, name: str, channel: str, budget_tokens: int) -> About:
        """Return the knowledge of the person or thing of a name, in a channel and the global one, or in all."""
        self._core.settle()
        channels = channels_of(channel)
        groups = grouped(self._shown(self.graph.named(name, channels))) or self._by_part(name, channels)
        if not groups:
            return self._about_words(name, channels, budget_tokens)
        pages = self._of_one_name(groups[0], channels)
        relations = self._relations(pages, channels)
        keys = self.graph.keys_of_pages([one.node_id for one in pages])
        notes = self._notes(self._search.with_words(query_terms(pages[0].name), channels, MOST_READ))
        lines, text, used = _within(
            budget_tokens, _head(pages), self._lines(relations, self._mentions(pages), notes, keys)
        )
        return About(
            name=pages[0].name,
            type=pages[0].type,
            entities=pages,
            relations=relations,
            lines=lines,
            text=text,
            tokens=used,
            others=tuple(f"{group[0].name} ({group[0].type})" for group in groups[1:]),
        )

    def _by_part(self, name: str, channels: Collection[str] | None) -> list[list[EntityLine]]:
        """Return the pages of the one person whose name is a part of a longer one: "Hedda" of "Hedda Lindqvist"."""
        parts = {part for part in key_of(name).split() if part != key_of(name)}
        named = [line for part in parts for line in self.graph.named(part, channels) if line.type == EntityType.PERSON]
        groups = grouped(self._shown(named))
        return groups if len(groups) == 1 else []

    def _about_words(self, name: str, channels: Collection[str] | None, budget_tokens: int) -> About:
        """Return what turns and notes say of a name that has no page: who asks for it knows that it names something."""
        keys = {key_of(name)} - {""}
        found = self._search.with_words(query_terms(name), channels, MOST_READ) if keys else ()
        turns, notes = (
            [one for one in some if says_one_of(one.text, keys)] for some in (self._newest(found), self._notes(found))
        )
        head = _named(name, "no page yet", len(turns), len(notes))
        lines, text, used = _within(budget_tokens, head, self._lines((), turns, notes, keys))
        if not lines:
            text, used = "", 0
        return About(name=name, type="", entities=(), relations=(), lines=lines, text=text, tokens=used)

    @repeated_after_repair
    def page(self, channel: str, kind: str | None, limit: int, offset: int) -> EntityGraph:
        """Return a page of the people and things of a channel, or of all, with the relations that begin at them."""
        self._core.settle()
        channels = channels_of(channel)
        found, total = self.graph.page(channels, kind, limit, offset)
        shown = self._shown(found)
        relations = self._visible(self.graph.from_pages([one.node_id for one in shown]))
        end = offset + len(found)
        return EntityGraph(entities=shown, relations=relations, total=total, next=end if end < total else None)

    def _of_one_name(self, pages: Sequence[EntityLine], channels: Collection[str] | None) -> list[EntityLine]:
        """Return some pages with those of the same name in other channels that are in scope."""
        known = {one.node_id for one in pages}
        others = [one for one in self.graph.sharing(list(known), channels) if one not in known]
        return [*pages, *self._shown(self.graph.by_ids(others))]

    def _shown(self, entities: Sequence[EntityLine]) -> list[EntityLine]:
        """Return the entities whose pages may be shown now."""
        living = self._catalog.living([one.node_id for one in entities])
        return [one for one in entities if one.node_id in living]

    def _relations(self, pages: Sequence[EntityLine], channels: Collection[str] | None) -> list[RelationLine]:
        return self._visible(self.graph.of_keys(self.graph.keys_of_pages([one.node_id for one in pages]), channels))

    def _visible(self, relations: Sequence[RelationLine]) -> list[RelationLine]:
        """Return the relations whose evidence and page may be shown now, ended where their fact was replaced."""
        living = self._catalog.living({end for one in relations for end in (one.turn, one.page)})
        shown = [one for one in relations if one.turn in living and one.page in living]
        revised = self._revised({one.turn for one in shown})
        return [found for one in shown if (found := _as_is_now(one, revised.get(one.turn))) is not None]

    def _revised(self, names: Collection[NodeId]) -> dict[NodeId, _Revised]:
        """Return those of some turns of which a fact was forgotten, reworded or replaced since."""
        untold = {name.removeprefix(UNTOLD) for name in self._core.tombstones.names if name.startswith(UNTOLD)}
        untold &= set(names)
        drawn = self.graph.facts_of(names) if names else []
        untold |= {turn for _, turn, is_reworded, _ in drawn if is_reworded}
        replaced = {fact for fact, _, _, is_replaced in drawn if is_replaced}
        changed = untold | {turn for fact, turn, _, _ in drawn if fact in replaced}
        revised = {turn: _Revised(turn in untold, [], []) for turn in changed}
        turn_of = {fact: turn for fact, turn, _, _ in drawn if turn in revised}
        for fact in self._catalog.nodes(turn_of).values():
            of_turn = revised[turn_of[fact.node_id]]
            (of_turn.replaced if fact.node_id in replaced else of_turn.holding).append(fact)
        return revised

    def _lines(
        self, relations: Sequence[RelationLine], turns: Sequence[Node], notes: Sequence[Node], keys: Collection[str]
    ) -> Iterator[AboutLine]:
        """Yield the lines, of most worth first; a sentence that was shown is not shown again."""
        told: set[str] = set()
        quoted: set[NodeId] = set()  # a turn is told once
        for one in sorted(relations, key=lambda one: not one.in_force):
            words = on_one_line(outgoing(one.words))
            quote = f": “{words}”" if words not in told and len(words) <= LONGEST_LINE else ""
            told.add(words)
            quoted.add(one.turn)
            part = "relation" if one.in_force else "past"
            yield AboutLine(part, f"{stated(one)}{quote} [{_short(one.turn)}]", one.turn, (one.turn,))
        facts = [*((note, ()) for note in notes), *self._facts([turn.node_id for turn in turns])]
        for fact, cited in sorted(facts, key=lambda one: -(one[0].time_s or 0)):
            words = on_one_line(outgoing(fact.text))
            if words in told or not quoted.isdisjoint(cited) or not says_one_of(words, keys):
                continue
            told.add(words)
            quoted.update(cited)
            shown = first_sentences(words, LONGEST_MENTION)
            yield AboutLine("fact", f"{_day(fact)}: “{shown}” [{fact.node_id}]", fact.node_id, cited)
        revised = self._revised([turn.node_id for turn in turns])
        for node in sorted(turns, key=lambda turn: turn.role in MACHINES):
            text = outgoing(node.text)
            said = [
                one for one in (*sentences_of(text), *map(on_one_line, text.splitlines())) if says_one_of(one, keys)
            ]
            if (state := revised.get(node.node_id)) is not None:
                said = [one for one in said if state.still_says(one)]
            said = said[:MOST_QUOTED]
            fresh = [one for one in said if one not in told and not any(one in line for line in told)]
            words = first_sentences(" ".join(fresh), LONGEST_MENTION)  # "" of a heading
            if words and node.node_id not in quoted:
                told.update(fresh)
                speaker = f", {node.role}" if node.role in MACHINES else ""
                yield AboutLine(
                    "mention",
                    f"{_day(node)}{speaker}: “{words}” [{_short(node.node_id)}]",
                    node.node_id,
                    (node.node_id,),
                )

    def _mentions(self, pages: Sequence[EntityLine]) -> list[Node]:
        """Return the newest turns that name an entity, the newest first."""
        links = (self._catalog.links(one.node_id, MENTIONS_LINK)[-MOST_READ:] for one in pages)
        return self._newest([turn for each in links for turn in each])

    def _newest(self, named: Collection[NodeId]) -> list[Node]:
        """Return the turns among some memories that may be shown, the newest first."""
        found = self._catalog.nodes(named).values()
        turns = [node for node in found if node.live and not node.forgotten and node.kind is Kind.TURN]
        return sorted(turns, key=lambda node: (-(node.time_s or 0), node.node_id))[:MOST_READ]

    def _notes(self, named: Collection[NodeId]) -> list[Node]:
        """Return the facts among some memories that hold and quote no turn."""
        facts = [node for node in self._catalog.nodes(named).values() if node.level is Level.FACT and node.live]
        evidence, waiting = self._catalog.evidence([fact.node_id for fact in facts]), {*self._catalog.waiting()}
        return [fact for fact in facts if not evidence[fact.node_id] and fact.node_id not in waiting]

    def _facts(self, turns: Sequence[NodeId]) -> list[tuple[Node, tuple[NodeId, ...]]]:
        """Return the facts that were drawn from some turns and hold, each with its turn."""
        links = self._catalog.fact_links(turns) if turns else []
        drawn = {link.source: link.target for link in links if link.kind in DRAWN and link.target in set(turns)}
        facts = [node for node in self._catalog.nodes(drawn).values() if node.live and not node.forgotten]
        return [(node, (drawn[node.node_id],)) for node in facts]


class _Revised(NamedTuple):
    """A turn whose facts have changed: those that were replaced, and the others; it is `untold` where words went."""

    is_untold: bool
    holding: list[Node]
    replaced: list[Node]

    def still_says(self, words: str) -> bool:
        """Return True for words of the turn that hold still, as far as is known."""
        said = on_one_line(words)
        if any(said in on_one_line(fact.text) for fact in self.holding):
            return True
        return not self.is_untold and not any(said in on_one_line(fact.text) for fact in self.replaced)


def _as_is_now(relation: RelationLine, turn: _Revised | None) -> RelationLine | None:
    """Return a relation by the facts of its turn: as it is, until when it held, or None where it was never so."""
    if turn is None or turn.still_says(relation.words):
        return relation
    said = on_one_line(relation.words)
    ends = (fact.valid_to for fact in turn.replaced if fact.valid_to and said in on_one_line(fact.text))
    ended = next(ends, None)
    return replace(relation, until=relation.until or ended) if ended else None


def _short(turn: NodeId) -> NodeId:
    """Return a turn's id as short as `show` knows it again."""
    session, mark, ordinal = turn.partition("#")
    return f"{session[:SHORT_ID] if len(session) > 2 * SHORT_ID else session}{mark}{ordinal}"


def channels_of(channel: str) -> frozenset[str] | None:
    """Return the channels that a question from one reads: it and the global one; None for all."""
    return None if channel == ALL_CHANNELS else frozenset(channels_in_reach(channel))


def stated(relation: RelationLine) -> str:
    """Return a relation in words, with its time."""
    words = _in_words(relation)
    if relation.until:
        return f"{words} (until {format_date(relation.until.date())})"
    return f"{words} (since {format_date(relation.since.date())})" if relation.since else words


def _no_relation(statement: str, lines: Sequence[RelationLine]) -> InvalidInput:
    hint = f"Its relations: {'; '.join(map(_in_words, lines))}." if lines else "It has none."
    return InvalidInput(f"it has no relation “{outgoing(statement)}”", hint=hint)


def _in_words(relation: RelationLine) -> str:
    return outgoing(statement_of(relation.subject, relation.relation, relation.object, relation.what))


def _within(budget_tokens: int, head: str, lines: Iterable[AboutLine]) -> tuple[list[AboutLine], str, int]:
    """Return the lines that fit below a head, the text of all of it, and its tokens."""
    kept, used = list[AboutLine](), estimate_tokens(head)
    for line in lines:
        tokens = estimate_tokens(line.text) + 1
        if used + tokens <= budget_tokens:
            kept.append(line)
            used += tokens
    return kept, "\n".join([head, *(line.text for line in kept)]), used


def _head(pages: Sequence[EntityLine]) -> str:
    first = pages[0]
    others = dict.fromkeys(name for one in pages for name in (one.name, *one.aliases) if name != first.name)
    also = f"; also {', '.join(list(others)[:6])}" if others else ""
    turns = sum(one.mentions for one in pages)
    return _named(first.name, f"{first.type}{also}", turns)


def _named(name: str, what: str, turns: int, notes: int = 0) -> str:
    numbers = ((turns, "turn"), (notes, "note"))
    counts = [f"{number} {noun}{'s' * (number != 1)}" for number, noun in numbers if number]
    return outgoing(f"{name} ({what}), named in {' and '.join(counts) or 'no turn'}")


def _day(node: Node) -> str:
    return format_date(node.created_at.date()) if node.created_at else "Undated"


# ---- names by hand

STAGE = "by hand"


class NamesByHand:
    """Merges and splits people and things, and denies relations. Every method may be called from any thread."""

    def __init__(self, core: Core, changes: Changes) -> None:
        self._core = core
        self._changes = changes

    def merge(self, kept: NodeId, other: NodeId) -> Named:
        """Give a page the names, relations and mentions of another, which goes; both are of one channel.

        Raises NotFound, and InvalidInput for what is no page of a person or thing, or of another channel.
        """
        one, page, data = self._page(kept)
        two, also, gone = self._page(other)
        if one.node_id == two.node_id:
            raise InvalidInput("a page cannot be merged with itself")
        if one.channel != two.channel:
            raise InvalidInput(
                f"{other} is of another channel, {two.channel}", hint="Pages of one name are shown as one anyway."
            )
        # A name that was split off from one of them comes back if the person merges it.
        refused = tuple(
            name for name in (*page.not_names, *also.not_names) if key_of(name) not in {*page.keys, *also.keys}
        )
        joined = replace(
            replace(page, not_names=refused).with_names(also.names),
            relations=_in_order([*page.relations, *also.relations]),
            not_relations=_in_order([*page.not_relations, *also.not_relations]),
            mentions=tuple(sorted({*page.mentions, *also.mentions}, key=_place)),
        )
        actions = (
            self._replaced(one, data, joined, f"{two.title} is the same, a person decided"),
            Action(
                kind=ActionKind.DELETE,
                path=two.path,
                node_id=two.node_id,
                stage=STAGE,
                reason=f"it is the same as {one.title}, a person decided",
                pre_sha256=sha256(gone).hexdigest(),
            ),
        )
        return self._applied(one.node_id, joined, actions, f"merged {other} into {kept}")

    def split(self, node_id: NodeId, names: Sequence[str]) -> Named:
        """Take names away from a page, and give them a page of their own; no dream puts them together again.

        Raises NotFound, and InvalidInput for a name that the page has not, or the only one that it has.
        """
        memory, page, data = self._page(node_id)
        given = {key_of(name) for name in names}
        off = [name for name in page.names if key_of(name) in given]
        if missing := given - {key_of(name) for name in off}:
            raise InvalidInput(f"it has no name {sorted(missing)[0]}", hint=f"Its names: {', '.join(page.names)}.")
        left = [name for name in page.names if key_of(name) not in given]
        if not left:
            raise InvalidInput("no name would be left", hint=f"Its names: {', '.join(page.names)}.")
        own = [one for one in page.relations if given & {key_of(one.subject), key_of(one.object)}]
        rest = replace(page, name=left[0], aliases=tuple(left[1:]), not_names=(*page.not_names, *off))
        rest = replace(rest, relations=tuple(one for one in page.relations if one not in own))
        other = EntityPage(off[0], page.type, tuple(off[1:]), tuple(left), tuple(own), ())
        new_id = okf.fact_id(memory.channel, f"entity {key_of(other.name)}")
        if new_id == memory.node_id or self._core.catalog.node(new_id) is not None:
            new_id = okf.fact_id(memory.channel, f"entity {key_of(other.name)} {memory.node_id}")
        text = f"# {other.name}"
        extra = {name: value for name, value in other.as_keys().items() if value is not None}
        written = replace(
            memory,
            node_id=new_id,
            title=other.name,
            text=text,
            description=page.type.value.capitalize(),
            path=entity_path(other, new_id, memory.channel),
            extra={**extra, BY_PERSON: "human:owner", BY_HAND: body_hash(text)},
        )
        create = Action(
            kind=ActionKind.CREATE,
            path=written.path,
            node_id=new_id,
            stage=STAGE,
            reason=f"it is another than {rest.name}, a person decided",
            content=okf.from_memory(written),
        )
        changed = self._replaced(memory, data, rest, f"{other.name} is another, a person decided")
        return self._applied(new_id, other, (changed, create), f"split {other.name} off {node_id}")

    def deny(self, node_id: NodeId, statement: str) -> Named:
        """Take a relation of a page away, given in words ("Ana owns billing"); no dream brings it back.

        What is said later may state it again. Raises NotFound, and InvalidInput for what is no such page or relation.
        """
        memory, page, _ = self._page(node_id)
        self._core.settle()
        wanted = key_of(statement)
        lines = self._relations_of(memory.node_id, memory.channel)
        denied = {one.page: _in_words(one) for one in lines if key_of(_in_words(one)) == wanted}
        if not denied:
            raise _no_relation(statement, lines)
        actions = tuple(self._without(node, wanted) for node in denied)
        return self._applied(memory.node_id, page, actions, f"denied: {next(iter(denied.values()))}")

    def page_with(self, name: str, statement: str, channel: str) -> NodeId:
        """Return the page of a name, in a channel and the global one or in all, with a relation; of an id itself.

        Raises NotFound for a name without a page, and InvalidInput where no page has the relation, or those of several
        channels have it.
        """
        self._core.settle()
        if self._core.catalog.node(name) is not None:
            return name
        named = self._core.opened.graph.named(name, channels_of(channel))
        living = self._core.catalog.living([one.node_id for one in named])
        lines = {one: self._relations_of(one.node_id, one.channel) for one in named if one.node_id in living}
        if not lines:
            hint = "`dreamctl entities` lists the pages of a channel, and those of all with --channel '*'."
            raise NotFound(f"there is no page of {outgoing(name)}", hint=hint)
        wanted = key_of(statement)
        # Pages of one channel with the relation are those of its ends: from either it is taken off the same.
        found = {
            one.channel: one.node_id for one, some in lines.items() if wanted in (key_of(_in_words(x)) for x in some)
        }
        if not found:
            raise _no_relation(statement, [one for some in lines.values() for one in some])
        if len(found) > 1:
            pages = "; ".join(f"{node_id} of {place}" for place, node_id in sorted(found.items()))
            raise InvalidInput("pages of several channels have this relation", hint=f"Name one by its id: {pages}.")
        return next(iter(found.values()))

    def _relations_of(self, node_id: NodeId, channel: str) -> list[RelationLine]:
        graph = self._core.opened.graph
        return graph.of_keys(graph.keys_of_pages([node_id]), {channel})

    def _without(self, node_id: NodeId, wanted: str) -> Action:
        """Return the change of a page by which relations go from its keys, its description and its text."""
        memory, page, data = self._page(node_id)
        gone = [one for one in page.relations if key_of(outgoing(one.statement)) == wanted]
        denied = (replace(one, words="", until=self._core.now(), ended_by=None) for one in gone)
        left = tuple(one for one in page.relations if one not in gone)
        rest = replace(page, relations=left, not_relations=(*page.not_relations, *denied))
        described = {"description": rest.description} if memory.description == page.description else {}
        after = okf.edit(data, {**rest.as_keys(), **described})
        for one in gone:
            after = without_line(after, one.head, one.turn)
        return Action.replacing(
            memory.path, memory.node_id, data, after, stage=STAGE, reason="it is not so, a person decided"
        )

    def _page(self, node_id: NodeId) -> tuple[Memory, EntityPage, bytes]:
        node = self._core.node(node_id)
        data = self._core.vault.read_if_any(node.path)
        if node.kind is not Kind.ENTITY or data is None:
            raise InvalidInput(
                f"{node_id} is no page of a person or thing", hint="`dreamctl entities` lists those that are."
            )
        memory = okf.to_memory(node.path, okf.parse(data))
        page = entity_of(memory)
        if page is None:
            raise NotFound(f"there is no page {node_id}")
        return memory, page, data

    def _replaced(self, memory: Memory, data: bytes, page: EntityPage, reason: str) -> Action:
        changes = {**page.as_keys(), "title": page.name, BY_PERSON: "human:owner"}
        return Action.replacing(memory.path, memory.node_id, data, okf.edit(data, changes), stage=STAGE, reason=reason)

    def _applied(self, node_id: NodeId, page: EntityPage, actions: tuple[Action, ...], note: str) -> Named:
        now = self._core.now()
        run_id = new_run_id(now, EDIT)
        summary = {"node_id": node_id, "note": note}
        changeset = Changeset(run_id=run_id, actions=actions)
        done = self._changes.apply(changeset, kind=EDIT, now=now, summary=summary, may_be_overtaken=False)
        if done.skipped:
            first = done.skipped[0]
            raise Conflict(f"{first.path}: {first.reason}", hint=f"`dreamctl undo {run_id}` takes the rest back.")
        self._core.settle()
        return Named(node_id, page.name, page.aliases, run_id)


def _place(turn: NodeId) -> tuple[str, int]:
    session, _, ordinal = turn.partition("#")
    return session, int(ordinal) if ordinal.isdecimal() else 0


def _in_order(relations: Sequence[EntityRelation]) -> tuple[EntityRelation, ...]:
    return tuple(sorted(dict.fromkeys(relations), key=lambda one: one.since.timestamp() if one.since else 0.0))
