"""Fit the embedding: `python -m tests.train.fit_embedding FILE`, on questions and the turns that answer them.

The four upper layers of the package's model are trained, each question against the turns of its batch (InfoNCE at .05)
and with half as much weight on staying near the package's vectors; then their weights are mixed with the package's own.
Left out are the people of fold 0, every third of RealMem, `readers-2`, LoCoMo and BEAM. Some twenty minutes;
writes the constants as `store/embedding/weights.npz` has them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice, pairwise, takewhile
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from dreamd.store.judges.judge import CLS, SEP, tokenizer
from torch import Tensor, nn
from torch.nn import functional

from tests.bench.options import SHARED_DATA
from tests.train.examples import DATA, Group, People, fold_of_people, groups_in, texts_of, turns_of
from tests.train.network import FROZEN, Lower, constants, layers_of, quantized_layers, warmed_up

EPOCHS, RATE, SEED = 3, 1e-4, 1
BATCH, OTHERS, SMALLEST_BATCH = 48, 16, 29
"""Questions of a batch, and turns beside their answers; the fewest questions of one."""

TEMPERATURE, STAY = 0.05, 0.5
QUESTION_TOKENS, TURN_TOKENS = 96, 128
SHARE = 0.8
"""Of the mixture, the share of the trained weights: all of them find less on RealMem than the package's, so mixed as
much as it does."""


PROMPT_CHARS, ANSWER_CHARS = (12, 600), 150
"""Of real sessions prompts of such a length are learned from, and answers of more than so many characters."""

_WHEN = re.compile(r"^【[^】]*】\s*")


@dataclass(frozen=True, slots=True)
class Lesson:
    """A question with the texts that answer it, and the texts of its person."""

    text: str
    answers: tuple[str, ...]
    among: Sequence[str]


class Encoder(nn.Module):
    """The package's model with its upper layers to be trained: ids to vectors of unit length."""

    def __init__(self, of_file: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.lower = Lower(of_file).eval().requires_grad_(False)
        self.layers = nn.ModuleList(layers_of(of_file)[FROZEN:])

    def forward(self, texts: Sequence[str], most: int) -> Tensor:
        """Return float[texts, 384]; of a text only its first `most` tokens are read."""
        rows = [[CLS, *tokenizer().encode(text, add_special_tokens=False).ids[: most - 2], SEP] for text in texts]
        ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = torch.tensor(row)
        mask = ids != 0
        hidden = self.lower(ids, mask[:, None, None, :])
        for layer in self.layers:
            hidden = layer(hidden, mask[:, None, None, :])
        read = mask.float()[..., None]
        return functional.normalize((hidden * read).sum(1) / read.sum(1), dim=-1)


def questions() -> dict[str, list[Lesson]]:
    """Return what is learned from, by its person: all who are not left out, and the groups of statements."""
    people = People()
    found: dict[str, list[Lesson]] = {}
    for name, fold in fold_of_people(list(people.lives)).items():
        if fold:
            said = {key: turn["text"] for key, turn in turns_of(people.lives[name]).items() if turn["role"] != "tool"}
            asked = ((one.text, tuple(said[turn] for turn in one.turns if turn in said)) for one in people.asked(name))
            found[name] = [Lesson(text, answers, list(said.values())) for text, answers in asked if answers]
    for file, groups in groups_in(DATA).items():
        among = [text for group in groups for text in (group.earlier, *(later for later, _ in group.laters))]
        found[file] = [Lesson(text, _answers(group), among) for group in groups for text in group.asked]
    for person, lessons in (*_of_readers(SHARED_DATA / "readers"), *_of_realmem(SHARED_DATA / "realmem")):
        found[person] = lessons
    found["entire"] = _of_entire(SHARED_DATA / "entire")
    return found


def _of_readers(folder: Path) -> Iterator[tuple[str, list[Lesson]]]:
    """Yield the questions of the readers' benchmark by project."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for file in sorted((folder / "sessions").iterdir()):
        entries = map(json.loads, file.read_text(encoding="utf-8").splitlines())
        project = next(entry["cwd"] for entry in entries if "cwd" in entry)
        said[project] |= {uuid: text for _, uuid, text in texts_of(file)}
    asked = json.loads((folder / "questions.json").read_text(encoding="utf-8"))
    for project, turns in said.items():
        evidence = ((one, [turns[turn] for turn in one["evidence"] if turn in turns]) for one in asked)
        yield (
            project,
            [
                Lesson(one["question"], tuple(answers), list(turns.values()))
                for one, answers in evidence
                if answers and one["project"] == project
            ],
        )


def _of_realmem(folder: Path) -> Iterator[tuple[str, list[Lesson]]]:
    """Yield what two of three people asked, with the memories that served the answer."""
    for at, file in enumerate(sorted(folder.glob("*.gz"))):
        if at % 3:
            with gzip.open(file, "rt", encoding="utf-8") as told:
                dialogues = json.load(told)["dialogues"]
            turns = [pair for one in dialogues for pair in pairwise(one["dialogue_turns"])]
            served = [
                (asked["content"], tuple(_WHEN.sub("", one["content"]) for one in answer.get("memory_used") or ()))
                for asked, answer in turns
                if asked.get("is_query")
            ]
            among = [memory for _, memories in served for memory in memories]
            yield file.name, [Lesson(text, memories, among) for text, memories in served if memories]


def _of_entire(folder: Path) -> list[Lesson]:
    """Return the prompts of real sessions, with the last that the assistant said to each."""
    lessons: list[tuple[str, str]] = []
    among: list[str] = []
    for file in sorted((folder / "sessions").glob("*.gz")):
        rows = list(texts_of(file))
        among += [text for _, _, text in rows]
        for at, (role, _, text) in enumerate(rows):
            answers = [said for _, _, said in takewhile(lambda row: row[0] == "assistant", rows[at + 1 :])]
            is_prompt = role == "user" and PROMPT_CHARS[0] < len(text) < PROMPT_CHARS[1] and text[0] not in "<["
            if is_prompt and answers and len(answers[-1]) > ANSWER_CHARS:
                lessons.append((text, answers[-1]))
    return [Lesson(text, (answer,), among) for text, answer in lessons]


def _answers(group: Group) -> tuple[str, ...]:
    return group.earlier, *(text for text, relation in group.laters if relation in ("same", "updates"))


def batches(of_people: Mapping[str, Sequence[Lesson]], rng: random.Random) -> Iterator[list[Lesson]]:
    """Yield an epoch's batches: each of one person, whose other turns are the hardest to tell apart; rests together."""
    found = []
    for asked in of_people.values():
        shuffled = rng.sample(list(asked), len(asked))
        found += [shuffled[at : at + BATCH] for at in range(0, len(shuffled), BATCH)]
    rng.shuffle(found)
    rest: list[Lesson] = []
    for some in found:
        if len(some) < SMALLEST_BATCH:
            rest += some
        else:
            yield some
        if len(rest) >= SMALLEST_BATCH:
            yield rest
            rest = []


Near = Mapping[tuple[str, int], Tensor]
"""The package's vector of a text of which so many tokens are read at most."""


def vectors_of(package: Encoder, of_people: Mapping[str, Sequence[Lesson]]) -> Near:
    """Return the package's vectors of all questions and answers, which training shall stay near."""
    lessons = [one for asked in of_people.values() for one in asked]
    texts = {(one.text, QUESTION_TOKENS) for one in lessons}
    texts |= {(answer, TURN_TOKENS) for one in lessons for answer in one.answers}
    ordered = sorted(texts, key=lambda text: (text[1], len(text[0]), text))
    near: dict[tuple[str, int], Tensor] = {}
    for most, same in groupby(ordered, key=itemgetter(1)):
        while some := list(islice(same, 4 * OTHERS)):
            with torch.no_grad():
                near |= zip(some, package([text for text, _ in some], most), strict=True)
    return near


def loss_of(network: Encoder, near: Near, batch: Sequence[Lesson], rng: random.Random) -> Tensor:
    """Return the loss of a batch: what answers against what does not, and how far all is from the package's vectors."""
    answers = [rng.choice(one.answers) for one in batch]
    turns = answers + [rng.choice(one.among) for one in batch[:OTHERS]]
    asked = network([one.text for one in batch], QUESTION_TOKENS)
    said = network(turns, TURN_TOKENS)
    also = [[at != row and turn in one.answers for at, turn in enumerate(turns)] for row, one in enumerate(batch)]
    scores = (asked @ said.T / TEMPERATURE).masked_fill(torch.tensor(also), -1e4)
    right = torch.arange(len(batch))
    stay = (
        torch.stack([near[one.text, QUESTION_TOKENS] for one in batch]),
        torch.stack([near[answer, TURN_TOKENS] for answer in answers]),
    )
    far = (1 - (asked * stay[0]).sum(1)).mean() + (1 - (said[: len(batch)] * stay[1]).sum(1)).mean()
    back = functional.cross_entropy(scores[:, : len(batch)].T, right)
    return functional.cross_entropy(scores, right) + 0.5 * back + STAY * far


def fit(of_people: Mapping[str, Sequence[Lesson]]) -> Encoder:
    """Train, some minutes an epoch, and mix with the package's weights."""
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    network, package = Encoder(constants()), Encoder(constants()).eval()
    near = vectors_of(package, of_people)
    optimizer = torch.optim.AdamW(network.layers.parameters(), lr=RATE, weight_decay=0.01)
    plan = [batch for _ in range(EPOCHS) for batch in batches(of_people, rng)]
    schedule = warmed_up(optimizer, len(plan))
    network.layers.train()
    for step, batch in enumerate(plan, 1):
        loss = loss_of(network, near, batch, rng)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.layers.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 10 == 0:
            print(f"step {step} of {len(plan)}, loss {loss.item():.3f}", flush=True)
    own, trained = package.layers.state_dict(), network.layers.state_dict()
    network.layers.load_state_dict({name: (1 - SHARE) * own[name] + SHARE * trained[name] for name in own})
    network.eval()
    return network


def main() -> None:
    """Fit, and write what was fitted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    of_people = questions()
    print(f"{sum(map(len, of_people.values()))} questions, seed {SEED}", flush=True)
    np.savez_compressed(given.file, allow_pickle=False, **quantized_layers(fit(of_people).layers))


if __name__ == "__main__":
    main()
