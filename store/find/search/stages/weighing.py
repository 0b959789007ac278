"""Stages that weigh: each returns new scores of the same candidates. -inf, no candidate any more, stays so."""

from __future__ import annotations

import numpy as np

from .... import score_stages as values
from .pool import CURRENT, NO_SESSION, PAST, Pool, Scores, best_first


def cosine_rerank(scores: Scores, pool: Pool, settings: values.CosineRerank) -> Scores:
    """Return (1 - blend) · score + blend · cosine, the cosine in [0, 1]; what has none keeps its score (Aleph)."""
    blended = (1 - settings.blend) * scores + settings.blend * pool.cosine.clip(0.0, 1.0)
    return np.where(np.isnan(pool.cosine), scores, blended)


def recency_boost(scores: Scores, pool: Pool, settings: values.RecencyBoost, now_s: float) -> Scores:
    """Return scores plus weight · 2^(-age / half-life) (Aleph), or weight / (1 + e^(steepness · (age - half-life)))
    (aquifer); of unknown age half of the weight, as the latter does.
    """
    age = pool.age_days(now_s)
    if settings.shape == "logistic":
        exponent = np.clip(settings.steepness * (age - settings.half_life_days), -500.0, 500.0)
        share = 1.0 / (1.0 + np.exp(exponent))
    else:
        share = np.exp2(-age / settings.half_life_days)
    return scores + settings.weight * np.where(np.isnan(age), 0.5, share)


def importance(scores: Scores, pool: Pool, settings: values.Importance) -> Scores:
    """Return scores times floor + (1 - floor) · certainty (Aleph)."""
    return scores * (settings.floor + (1 - settings.floor) * pool.certainty.clip(0.0, 1.0))


def tense(scores: Scores, pool: Pool, settings: values.Tense) -> Scores:
    """Return scores times the factor of their tense (agentx)."""
    factors = np.ones(len(pool))
    factors[pool.tense == CURRENT] = settings.current
    factors[pool.tense == PAST] = settings.past
    return scores * factors


def speakers(scores: Scores, pool: Pool, settings: values.Speakers) -> Scores:
    """Return scores with those of an assistant's words scaled: it paraphrases the question's words (our own)."""
    return scores * np.where(pool.is_assistant, settings.assistant, 1.0)


def session_prior(scores: Scores, pool: Pool, settings: values.SessionPrior) -> Scores:
    """Return scores plus weight · s / max s, where s is the sum of the best scores of a session (our own)."""
    sums: dict[int, float] = {}
    counted: dict[int, int] = {}
    for place in best_first(scores):
        session = int(pool.session[place])
        if session != NO_SESSION and counted.get(session, 0) < settings.best:
            counted[session] = counted.get(session, 0) + 1
            sums[session] = sums.get(session, 0.0) + max(0.0, float(scores[place]))
    most = max(sums.values(), default=0.0)
    if most <= 0.0:
        return scores
    return scores + settings.weight * np.array([sums.get(int(session), 0.0) / most for session in pool.session])


def neighbours(scores: Scores, pool: Pool, settings: values.Neighbours) -> Scores:
    """Return scores plus weight · the score of the best candidate right before or after, in its session (our own)."""
    place_of = {(int(s), int(o)): n for n, (s, o) in enumerate(zip(pool.session, pool.ordinal, strict=True))}
    added = np.zeros(len(pool))
    for place in best_first(scores)[: settings.best]:
        session, ordinal = int(pool.session[place]), int(pool.ordinal[place])
        for beside in (ordinal - 1, ordinal + 1):
            near = place_of.get((session, beside)) if session != NO_SESSION else None
            if near is not None:
                added[near] = max(added[near], settings.weight * float(scores[place]))
    return scores + added


def length_normalisation(scores: Scores, pool: Pool, settings: values.LengthNormalisation) -> Scores:
    """Return scores over 1 + slope · log2(length / anchor), short texts as they are (Aleph)."""
    return scores / (1.0 + settings.slope * np.log2(np.maximum(1.0, pool.chars / settings.anchor_chars)))


def time_decay(scores: Scores, pool: Pool, settings: values.TimeDecay, now_s: float) -> Scores:
    """Return scores times floor + (1 - floor) · 2^(-age / half-life) (Aleph); of unknown age as they are."""
    decay = np.exp2(-pool.age_days(now_s) / settings.half_life_days)
    return scores * np.where(np.isnan(decay), 1.0, settings.floor + (1 - settings.floor) * decay)
