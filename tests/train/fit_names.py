"""Fit the reader of names: `python -m tests.train.fit_names rows FILE`, then `fit FILE [FOLDER --leave PERSON …]`.

`rows` writes the examples as token ids, each in several variants with other names; `fit` needs PyTorch alone and uses a
GPU where there is one (two minutes; some hours on two cores). `fit … --write` puts weights of everybody into the
package; with `--leave`, FOLDER gets a network for each PERSON that did not see them (several by commas are one fold).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from dreamd.store.embedding.quantized_model import HIDDEN
from dreamd.store.judges.name_reader import (
    ENDS,
    FAR,
    FEATURES,
    NAMED,
    PROJECT,
    RELATIONS,
    SPEAKER,
    WEIGHTS,
    NamesWindow,
    beside,
    between_of,
    distance_of,
    kind_ids,
    marked,
    windows_of,
)
from torch import Tensor, nn
from torch.nn import functional

from tests.train.names_data import NamesExample, invented, of_lives, pools_of, read
from tests.train.network import FROZEN, Lower, constants, layers_of, quantized_layers, warmed_up

VARIANTS = 8
RATE, HEAD_RATE = 2e-4, 1e-3
BATCH, EPOCHS = 32, 10
PAIRS = 2.0
"""How much relations count beside names."""
SEED = 26
INNER, PAIR = 128, 192


class NamesNetwork(nn.Module):
    """The upper layers and the two heads."""

    def __init__(self, of_file: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers_of(of_file)[FROZEN:])
        self.heads = nn.ModuleDict(
            {
                "tag_0": nn.Linear(HIDDEN + 3 * FEATURES, INNER),
                "tag_1": nn.Linear(INNER, 2 * len(NAMED) + 1),
                "subject": nn.Linear(HIDDEN + len(ENDS), PAIR, bias=False),
                "object": nn.Linear(HIDDEN + len(ENDS), PAIR, bias=False),
                "between": nn.Linear(HIDDEN, PAIR, bias=False),
                "far": nn.Linear(FAR, PAIR),
                "relation": nn.Linear(PAIR, len(RELATIONS)),
                "verify": nn.Linear(2 * HIDDEN, len(RELATIONS)),
            }
        )
        self.dropout = nn.Dropout(0.15)

    def encoded(self, rows: Tensor, mask: Tensor) -> Tensor:
        for layer in self.layers:
            rows = layer(rows, mask)
        return rows

    def tags(self, rows: Tensor, features: Tensor) -> Tensor:
        """Return the logits of the tags, float[batch, tokens, tags]."""
        inner = functional.gelu(self.heads["tag_0"](torch.cat([self.dropout(rows), features], -1)), approximate="tanh")
        return self.heads["tag_1"](self.dropout(inner))

    def pairs(self, subject: Tensor, object_: Tensor, between: Tensor, far: Tensor) -> Tensor:
        """Return the logits of the relations of pairs of ends, float[pairs, relations]."""
        inner = (
            self.heads["subject"](self.dropout(subject))
            + self.heads["object"](self.dropout(object_))
            + self.heads["between"](self.dropout(between))
            + self.heads["far"](far)
        )
        return self.heads["relation"](self.dropout(functional.gelu(inner, approximate="tanh")))

    def verified(self, rows: Tensor, subject: Tensor, object_: Tensor) -> Tensor:
        """Return the logits of the relations of sequences with two marked ends."""
        at = torch.arange(len(rows), device=rows.device)
        return self.heads["verify"](self.dropout(torch.cat([rows[at, subject], rows[at, object_]], 1)))


def row_of(example: NamesExample, window: NamesWindow) -> dict[str, np.ndarray]:
    """Return a window as arrays: ids, features, tags, the ends and the pairs with their relation."""
    tags = np.zeros(len(window.ids), np.int16)
    ends: list[tuple[str, int, list[int]]] = []
    for name in sorted(example.names, key=lambda one: (one.part, one.start)):
        tokens = [
            at
            for at, place in enumerate(window.places)
            if place is not None and place[0] == name.part and place[1] < name.end and name.start < place[2]
        ]
        if tokens:
            kind = NAMED.index(name.named)
            tags[tokens[0]] = 2 * kind + 1
            tags[tokens[1:]] = 2 * kind + 2
            ends.append((name.identity, kind, tokens))
    ends += [(SPEAKER, ENDS.index(SPEAKER), [window.speaker]), (PROJECT, ENDS.index(PROJECT), [0])]
    stated = {(subject, object_): relation for subject, relation, object_ in example.relations}
    part_of = [place[0] if (place := window.places[tokens[0]]) else None for _, _, tokens in ends]
    pairs, relations, far, between = [], [], [], []
    for one, (subject, _, own) in enumerate(ends):
        for other, (object_, _, its) in enumerate(ends):
            if one == other or subject == object_ or not {part_of[one], part_of[other]} & {1}:
                continue
            relation = stated.get((subject, object_), "")
            pairs.append((one, other))
            relations.append(RELATIONS.index(relation))
            far.append(distance_of(tuple(own), tuple(its), window))
            between.append(between_of(tuple(own), tuple(its)))
    # Of several mentions of an end, only the nearest pair is to be found: the others are not asked.
    nearest: dict[tuple[str, str], tuple[int, int]] = {}
    for number, (one, other) in enumerate(pairs):
        if relations[number]:
            key = (ends[one][0], ends[other][0])
            in_turn = sum(part_of[end] != 0 for end in (one, other))
            gap = between[number][1] - between[number][0] - 1000 * in_turn
            if key not in nearest or gap < nearest[key][0]:
                nearest[key] = (gap, number)
    best = {number for _, number in nearest.values()}
    kept = [n for n in range(len(pairs)) if not relations[n] or n in best]
    return {
        "ids": np.array(window.ids, np.int32),
        "features": beside(window.features).astype(np.float16),
        "tags": tags,
        "kinds": np.array([kind for _, kind, _ in ends], np.int16),
        "ends": np.array([(tokens[0], tokens[-1] + 1) for _, _, tokens in ends], np.int16),
        "pairs": np.array([pairs[n] for n in kept], np.int16).reshape(-1, 2),
        "relations": np.array([relations[n] for n in kept], np.int16),
        "far": np.array([far[n] for n in kept], np.float16).reshape(-1, FAR),
        "between": np.array([between[n] for n in kept], np.int16).reshape(-1, 2),
    }


def write_rows(path: Path) -> None:
    """Write the rows of every example, `VARIANTS` of each, the first as it is."""
    from dreamd.store.text.languages import first_names

    known = sorted(first_names())
    made = [*invented(), *read()]
    lives = list(of_lives())
    pools = pools_of(made, known)
    rng = random.Random(SEED)
    arrays: dict[str, list[np.ndarray]] = {}
    people, variants = [], []
    for example in [*made, *lives]:
        for variant in range(VARIANTS):
            varied = example if not variant else pools.varied(example, rng)
            for window in windows_of(varied.role, varied.text, varied.before):
                row = row_of(varied, window)
                if not row["tags"].any() and (variant > 1 or (variant and rng.random() < 0.5)):
                    continue  # a turn without names is the same in each variant
                for name, array in row.items():
                    arrays.setdefault(name, []).append(array)
                people.append(example.person)
                variants.append(variant)
    packed = {"person": np.array(people), "variant": np.array(variants)}
    for name, each in arrays.items():
        packed[name] = np.concatenate(each)
        packed[f"{name}_at"] = np.cumsum([0, *map(len, each)])
    np.savez_compressed(path, allow_pickle=False, **packed)
    print(len(people), "rows", path.stat().st_size // 2**20, "MiB", flush=True)


class Rows:
    """The rows of a file."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as packed:
            self._packed = dict(packed)
        self.person, self.variant = self._packed["person"], self._packed["variant"]
        self.lengths = np.diff(self._packed["ids_at"])

    def of(self, name: str, row: int) -> np.ndarray:
        start, end = self._packed[f"{name}_at"][row : row + 2]
        part: np.ndarray = self._packed[name][start:end]
        return part


def batch_of(rows: Rows, chosen: Sequence[int], device: torch.device) -> dict[str, Tensor]:
    """Return the padded tensors of some rows; ends and pairs are numbered over the whole batch."""
    longest = int(rows.lengths[list(chosen)].max())
    ids = np.zeros((len(chosen), longest), np.int64)
    tags = np.full((len(chosen), longest), -1, np.int64)
    features = np.zeros((len(chosen), longest, 3 * FEATURES), np.float32)
    spans, kinds, pairs, relations, far, between, of_row = [], [], [], [], [], [], []
    count = 0
    for at, row in enumerate(chosen):
        length = rows.lengths[row]
        ids[at, :length], tags[at, :length] = rows.of("ids", row), rows.of("tags", row)
        features[at, :length] = rows.of("features", row)
        own = rows.of("ends", row)
        spans += [(at, s, e) for s, e in own]
        kinds += list(rows.of("kinds", row))
        two = rows.of("pairs", row).astype(np.int64)
        pairs.append(two + count)
        relations.append(rows.of("relations", row))
        far.append(rows.of("far", row))
        between.append(np.concatenate([np.full((len(two), 1), at), rows.of("between", row)], 1))
        of_row.append(np.full(len(two), at))
        count += len(own)
    tensors = {
        "ids": ids,
        "tags": tags,
        "features": features,
        "spans": np.array(spans, np.int64),
        "kinds": np.array(kinds, np.int64),
        "pairs": np.concatenate(pairs),
        "relations": np.concatenate(relations).astype(np.int64),
        "far": np.concatenate(far).astype(np.float32),
        "between": np.concatenate(between).astype(np.int64),
    }
    return {name: torch.as_tensor(array).to(device) for name, array in tensors.items()}


NEGATIVES = 3


def marked_of(
    rows: Rows, chosen: Sequence[int], rng: np.random.Generator | None, device: torch.device
) -> tuple[dict[str, Tensor], np.ndarray] | None:
    """Return sequences with two marked ends: each stated pair, and of the others some, or all without `rng`."""
    kinds = kind_ids()
    sequences, labels = [], []
    for row in chosen:
        ids, ends, kind = rows.of("ids", row).tolist(), rows.of("ends", row).tolist(), rows.of("kinds", row).tolist()
        pairs, relations = rows.of("pairs", row), rows.of("relations", row)
        stated = np.where(relations > 0)[0]
        others = np.where(relations == 0)[0]
        if rng is not None and len(others):
            touching = {int(end) for n in stated for end in pairs[n]}
            odds = np.array([3.0 if touching & {int(pairs[n][0]), int(pairs[n][1])} else 1.0 for n in others])
            size = min(len(others), NEGATIVES + len(stated) if len(stated) else 2)
            others = rng.choice(others, size, replace=False, p=odds / odds.sum())
        for n in [*stated, *others]:
            one, other = pairs[n]
            sequences.append(marked(ids, (kind[one], *ends[one]), (kind[other], *ends[other]), kinds))
            labels.append(int(relations[n]))
    if not sequences:
        return None
    longest = max(len(one) for one, _, _ in sequences)
    packed = np.zeros((len(sequences), longest), np.int64)
    for at, (one, _, _) in enumerate(sequences):
        packed[at, : len(one)] = one
    tensors = {
        "ids": packed,
        "subject": np.array([one for _, one, _ in sequences]),
        "object": np.array([one for _, _, one in sequences]),
        "relations": np.array(labels),
    }
    return {name: torch.as_tensor(array).to(device) for name, array in tensors.items()}, np.array(labels)


def verify(network: NamesNetwork, lower: Lower, batch: Mapping[str, Tensor]) -> Tensor:
    """Return the logits of the relations of marked sequences."""
    mask = (batch["ids"] != 0)[:, None, None, :]
    with torch.no_grad():
        hidden = lower(batch["ids"], mask)
    return network.verified(network.encoded(hidden, mask), batch["subject"], batch["object"])


def means(rows: Tensor, spans: Tensor) -> Tensor:
    """Return the mean of the tokens of each span (row, start, end), zero for an empty one."""
    sums = torch.cat([torch.zeros_like(rows[:, :1]), rows.cumsum(1)], 1)
    row, start, end = spans.unbind(1)
    total = sums[row, end] - sums[row, start]
    return total / (end - start).clamp(min=1)[:, None]


def outputs(network: NamesNetwork, lower: Lower, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the logits of tags and of pairs."""
    mask = (batch["ids"] != 0)[:, None, None, :]
    with torch.no_grad():
        hidden = lower(batch["ids"], mask)
    hidden = network.encoded(hidden, mask)
    ends = torch.cat([means(hidden, batch["spans"]), functional.one_hot(batch["kinds"], len(ENDS)).float()], 1)
    subject, object_ = batch["pairs"].unbind(1)
    pairs = network.pairs(ends[subject], ends[object_], means(hidden, batch["between"]), batch["far"])
    return network.tags(hidden, batch["features"]), pairs


def fit(rows: Rows, chosen: np.ndarray, given: argparse.Namespace, device: torch.device, name: str) -> NamesNetwork:
    """Train a network on the chosen rows."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    of_file = constants()
    lower, network = Lower(of_file).eval().to(device), NamesNetwork(of_file)
    network.to(device)
    optimizer = torch.optim.AdamW(
        [
            {"params": network.layers.parameters(), "lr": given.rate, "weight_decay": 0.01},
            {"params": network.heads.parameters(), "lr": HEAD_RATE, "weight_decay": 0.01},
        ]
    )
    plan = []
    for epoch in range(given.epochs):
        variant = rows.variant[chosen]
        own = chosen[(variant == epoch % VARIANTS) | ((variant < 2) & (rng.random(len(chosen)) < 0.15))]
        order = own[np.argsort(rows.lengths[own] * rng.uniform(0.8, 1.25, len(own)), kind="stable")]
        batches = [order[at : at + given.batch] for at in range(0, len(order), given.batch)]
        plan += [batches[at] for at in rng.permutation(len(batches))]
    schedule = warmed_up(optimizer, len(plan))
    network.train()
    began, smooth = time.monotonic(), None
    for step, rows_of_batch in enumerate(plan):
        batch = batch_of(rows, rows_of_batch, device)
        tags, pairs = outputs(network, lower, batch)
        loss = functional.cross_entropy(tags.flatten(0, 1), batch["tags"].flatten(), ignore_index=-1)
        asked = torch.where(batch["relations"] > 0, 2.0, 1.0)
        each = functional.cross_entropy(pairs, batch["relations"], reduction="none")
        loss = 4 * loss + given.pairs * (each * asked).sum() / (4 * len(rows_of_batch))
        again = marked_of(rows, rows_of_batch, rng, device)
        if again is not None:
            each = functional.cross_entropy(
                verify(network, lower, again[0]), again[0]["relations"], label_smoothing=0.03
            )
            loss = loss + 2 * given.pairs * each
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        smooth = loss.item() if smooth is None else 0.97 * smooth + 0.03 * loss.item()
        if step % 200 == 0:
            print(
                f"{name}: step {step} of {len(plan)}, loss {smooth:.3f}, {time.monotonic() - began:.0f} s", flush=True
            )
    network.eval()
    network.cpu()
    return network


@torch.inference_mode()
def evaluate(rows: Rows, chosen: np.ndarray, network: NamesNetwork, device: torch.device, name: str) -> None:
    """Print precision and recall of tags, and of relations between the marked names, on rows as they are written."""
    network = network.to(device)
    lower = Lower(constants()).eval().to(device)
    tags_right = tags_found = tags_wanted = kinds = 0
    scores: list[tuple[float, bool]] = []
    wanted = 0
    for at in range(0, len(chosen), 64):
        batch = batch_of(rows, chosen[at : at + 64].tolist(), device)
        tags, pairs = outputs(network, lower, batch)
        own, gold = tags.argmax(-1), batch["tags"]
        counted = gold >= 0
        tags_right += int(((own > 0) & (gold > 0) & counted).sum())
        kinds += int((((own + 1) // 2 == (gold + 1) // 2) & (gold > 0)).sum())
        tags_found += int(((own > 0) & counted).sum())
        tags_wanted += int((gold > 0).sum())
        chances = pairs.softmax(-1)
        best = chances.argmax(-1)
        relations = batch["relations"]
        wanted += int((relations > 0).sum())
        scores += [
            (float(chance[kind]), bool(kind == right))
            for chance, kind, right in zip(chances.cpu(), best.tolist(), relations.tolist(), strict=True)
            if kind
        ]
    found, wanted_tags = tags_right / max(1, tags_found), tags_right / max(1, tags_wanted)
    parts = [f"tags {found:.3f}/{wanted_tags:.3f} kinds {kinds / max(1, tags_right):.3f}"]
    for bound in (0.3, 0.5, 0.7, 0.8, 0.9):
        kept = [right for chance, right in scores if chance >= bound]
        parts.append(f"{bound}: {sum(kept) / max(1, len(kept)):.2f}/{sum(kept) / max(1, wanted):.2f}")
    print(name, ", ".join(parts), flush=True)
    scores, wanted = [], 0
    for at in range(0, len(chosen), 16):
        again = marked_of(rows, chosen[at : at + 16].tolist(), None, device)
        if again is None:
            continue
        batch, labels = again
        read = []
        for start in range(0, len(labels), 256):
            part = {key: value[start : start + 256] for key, value in batch.items()}
            read.append(verify(network, lower, part).softmax(-1).cpu())
        chances = torch.cat(read)
        best = chances.argmax(-1)
        wanted += int((labels > 0).sum())
        scores += [(float(c[k]), bool(k == r)) for c, k, r in zip(chances, best.tolist(), labels, strict=True) if k]
    parts = []
    for bound in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
        kept = [right for chance, right in scores if chance >= bound]
        parts.append(f"{bound}: {sum(kept) / max(1, len(kept)):.2f}/{sum(kept) / max(1, wanted):.2f}")
    print(name, "verified", ", ".join(parts), flush=True)
    network.cpu()


def quantized(network: NamesNetwork) -> dict[str, np.ndarray]:
    """Return the trained weights as the package has them: matrices int8[in, out], and heads in half precision."""
    found = quantized_layers(network.layers)
    for name, head in network.heads.items():
        name = name.replace("_", ".") if name.startswith("tag") else name
        found[f"head.{name}.weight"] = head.weight.detach().numpy().astype(np.float16)
        if head.bias is not None:
            found[f"head.{name}.bias"] = head.bias.detach().numpy()
    return found


def main() -> None:
    """Write rows, or fit what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rows", "fit"))
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--leave", nargs="*", default=[], help="people left out")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--pairs", type=float, default=PAIRS, help="weight of relations beside names")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--name", default="")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.what == "rows":
        write_rows(given.file)
        return
    rows = Rows(given.file)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if given.write:
        network = fit(rows, np.arange(len(rows.person)), given, device, "everybody")
        np.savez_compressed(WEIGHTS, allow_pickle=False, **quantized(network))
    for fold in given.leave:
        chosen = np.where(~np.isin(rows.person, fold.split(",")))[0]
        network = fit(rows, chosen, given, device, given.name or fold)
        left = np.where(np.isin(rows.person, fold.split(",")) & (rows.variant == 0))[0]
        evaluate(rows, left, network, device, given.name or fold)
        given.folder.mkdir(exist_ok=True, parents=True)
        np.savez_compressed(
            given.folder / f"{given.name or fold.split(',')[0]}.npz", allow_pickle=False, **quantized(network)
        )


if __name__ == "__main__":
    main()
