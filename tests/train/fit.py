"""Fit the judge: `make train`, or `python -m tests.train.fit FOLDER [--fold K] [--write]`.

Every person is left out once: FOLDER gets, of each fold, the weights of a network that saw none of its people, by which
`tests.train.measure` judges them. `--write` fits one on everybody instead and puts its weights into the package.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from dreamd.store.judges.judge import WEIGHTS
from torch import Tensor
from torch.nn import functional

from tests.train.examples import FOLDS, fold_of_people
from tests.train.network import Lower, Upper, constants, quantized, warmed_up
from tests.train.tasks import Row, rows, without_context

BATCH_TOKENS = 3_200
RATE, HEAD_RATE = 1e-4, 1e-3
SEED = 24
EPOCHS = 4
SHARES = {"kind": 0.5, "reply": 0.4}
SHARE_OF_REFUTED, SHARE_OF_WORDS = 0.5, 0.4
"""How much each head counts beside worth."""


class Batches:
    """The rows as padded batches of like lengths, their lower layers worked out once."""

    def __init__(self, data: Sequence[Row], lower: Lower) -> None:
        self.data = data
        self.lengths = np.array([len(row.given.ids) for row in data])
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self._hidden = torch.empty((int(self._starts[-1]), 384), dtype=torch.float16)
        with torch.inference_mode():
            for batch in self.by_length(np.arange(len(data)), 4 * BATCH_TOKENS):
                ids, mask = self._padded(batch)
                hidden = lower(ids, mask[:, None, None, :])
                for at, row in enumerate(batch):
                    start = self._starts[row]
                    self._hidden[start : start + self.lengths[row]] = hidden[at, : self.lengths[row]].half()

    def by_length(
        self, chosen: np.ndarray, tokens: int = BATCH_TOKENS, rng: np.random.Generator | None = None
    ) -> list[np.ndarray]:
        """Return batches of at most so many padded tokens."""
        jitter = rng.uniform(0.8, 1.25, len(chosen)) if rng is not None else np.ones(len(chosen))
        order = chosen[np.argsort(self.lengths[chosen] * jitter, kind="stable")]
        batches: list[np.ndarray] = []
        batch: list[int] = []
        longest = 0
        for row in order:
            longest_now = max(longest, self.lengths[row])
            if batch and longest_now * (len(batch) + 1) > tokens:
                batches.append(np.array(batch))
                batch, longest_now = [], self.lengths[row]
            batch.append(row)
            longest = longest_now
        return [*batches, np.array(batch)]

    def _padded(self, batch: np.ndarray) -> tuple[Tensor, Tensor]:
        longest = int(self.lengths[batch].max())
        ids = torch.zeros((len(batch), longest), dtype=torch.long)
        for at, row in enumerate(batch):
            ids[at, : self.lengths[row]] = torch.tensor(self.data[row].given.ids)
        return ids, ids != 0

    def inputs(self, batch: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the upper layers read: hidden rows, mask, and the tokens that count."""
        longest = int(self.lengths[batch].max())
        hidden = torch.zeros((len(batch), longest, 384))
        mask = torch.zeros((len(batch), longest), dtype=torch.bool)
        counted = torch.zeros((len(batch), longest))
        for at, row in enumerate(batch):
            start, length = self._starts[row], self.lengths[row]
            hidden[at, :length] = self._hidden[start : start + length].float()
            mask[at, :length] = True
            given = self.data[row].given
            first, end = (given.first, given.first + len(given.spans)) if given.spans else (0, int(length))
            counted[at, first:end] = 1
        return hidden, mask, counted


def loss_of(found: dict[str, Tensor], batch: Sequence[Row], counted: Tensor) -> Tensor:
    """Return the sum of the heads' losses over a batch, each of the rows that it is asked of."""
    weight = torch.tensor([row.weight for row in batch])
    good = torch.tensor([float(row.good) for row in batch])
    is_user = torch.tensor([row.example.role == "user" for row in batch])
    worth = torch.where(is_user, found["user"][:, 0], found["assistant"][:, 0])
    total = (functional.binary_cross_entropy_with_logits(worth, good, reduction="none") * weight).sum()
    for name, share in SHARES.items():
        target = torch.tensor([getattr(row, name) if name == "reply" or row.good else -1 for row in batch])
        each = functional.cross_entropy(found[name], target.clamp(min=0), reduction="none", label_smoothing=0.05)
        total = total + share * (each * weight)[target >= 0].sum()
    asked = ~is_user & torch.tensor([row.is_invented for row in batch])
    refuted = torch.tensor([float(row.example.refuted) for row in batch])
    each = functional.binary_cross_entropy_with_logits(found["refuted"][:, 0], refuted, reduction="none")
    total = total + SHARE_OF_REFUTED * each[asked].sum()
    spoken = [at for at, row in enumerate(batch) if row.good and any(row.kept)]
    if spoken:
        kept = torch.zeros_like(counted)
        for at in spoken:
            kept[at, batch[at].given.first :][: len(batch[at].kept)] = torch.tensor(batch[at].kept, dtype=torch.float)
        each = functional.binary_cross_entropy_with_logits(found["kept"], kept, reduction="none") * counted
        total = total + SHARE_OF_WORDS * (each.sum(1) / counted.sum(1).clamp(min=1))[spoken].sum()
    return total / len(batch)


def fit(batches: Batches, chosen: np.ndarray, name: str) -> Upper:
    """Train a network on the chosen rows."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    network = Upper(constants())
    heads = [*network.heads.parameters(), *network.kept.parameters()]
    optimizer = torch.optim.AdamW(
        [
            {"params": network.layers.parameters(), "lr": RATE, "weight_decay": 0.01},
            {"params": heads, "lr": HEAD_RATE, "weight_decay": 0.01},
        ]
    )
    plan = [batches.by_length(chosen, rng=rng) for _ in range(EPOCHS)]
    steps, done, began, smooth = sum(map(len, plan)), 0, time.monotonic(), None
    schedule = warmed_up(optimizer, steps)
    network.train()
    for epoch in plan:
        for at in rng.permutation(len(epoch)):
            batch = epoch[at]
            hidden, mask, counted = batches.inputs(batch)
            found = network(hidden, mask[:, None, None, :], counted)
            loss = loss_of(found, [batches.data[row] for row in batch], counted)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            smooth = loss.item() if smooth is None else 0.97 * smooth + 0.03 * loss.item()
            if done in (5, 25) or done % 100 == 0:
                print(
                    f"{name}: step {done} of {steps}, loss {smooth:.3f}, {time.monotonic() - began:.0f} s", flush=True
                )
    network.eval()
    return network


def hash_of(data: Sequence[Row]) -> str:
    """Return a hash of all that is learned from, for the model card."""
    digest = hashlib.sha256()
    for row in data:
        digest.update(repr((row.example, row.given.ids, row.kept)).encode())
    return digest.hexdigest()


def main() -> None:
    """Fit what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fold", type=int, choices=range(FOLDS))
    parser.add_argument("--write", action="store_true", help="fit on everybody and write the package's weights")
    given = parser.parse_args()
    judged = rows()
    print(f"{len(judged)} windows, SHA-256 {hash_of(judged)}, seed {SEED}", flush=True)
    data = judged + [replace(row, reply=-1) for row in without_context(judged)]
    place = fold_of_people(list({row.example.person for row in data}))
    folds = np.array([place[row.example.person] for row in data])
    batches = Batches(data, Lower(constants()).eval())
    given.folder.mkdir(exist_ok=True, parents=True)
    if given.write:
        save(WEIGHTS, fit(batches, np.arange(len(data)), "everybody"))
        return
    for fold in range(FOLDS):
        if given.fold in (None, fold):
            save(given.folder / f"fold{fold}-weights.npz", fit(batches, np.where(folds != fold)[0], f"fold {fold}"))


def save(path: Path, network: Upper) -> None:
    """Write a network's weights as the package has them."""
    np.savez_compressed(path, allow_pickle=False, **quantized(network))


if __name__ == "__main__":
    main()
