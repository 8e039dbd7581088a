"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from ksame.core import FloatArray, RandomState
from ksame.masking.look import View, code_of, landmarks_of
from ksame.masking.mask import Mask, Texture
from ksame.replace import identities
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, embed

Known = Mapping[str, FloatArray]
"""What each recogniser makes of some views: name to (n, d)."""


def masks(
    model: AppearanceSpace,
    people: Sequence[Sequence[View]],
    pool_codes: FloatArray,
    pool_shifted: FloatArray,
    *,
    recognisers: Sequence[str],
    texture: Texture = "code",
    margin: float = 1.2,
    among: int = 1,
    tries: int = 24,
    rng: RandomState = None,
) -> list[Mask | None]:
    """Return a mask for each person, drawn from distinct pool faces, that recognisers do not see through.

    Each is tried on the person's own views. Where a recogniser takes the new face for the old one, or for
    another person's old or new face, another pool face is taken.

    Parameters
    ----------
    model : AppearanceSpace
        What they are drawn with.
    people : sequence of sequences of View
        Some good views of each person, as unlike as can be had.
    pool_codes, pool_shifted : (p, d)
        gamma_hat and gamma_hat_d of the pool.
    recognisers : sequence of str
        Names in ``represent.embedding.RECOGNISERS`` of those that judge.
    texture : str
        How they will be drawn: see ``Mask.draw``.
    margin : float
        How far faces should be apart, in the distances up to which recognisers take two for one person.
        Where no face that is tried is as far away, four smaller margins are asked for, the last of them 1.
    among, rng : see ``replace.identities``
    tries : int
        Pool faces that are tried, nearest first. Who is recognised in all gets None: they must be covered.
    """
    source = np.random.default_rng(rng)
    codes = [[code_of(model, view) for view in views] for views in people]
    gamma = np.array([np.mean(own, axis=0)[: len(model.nuisance)] for own in codes])
    old = [_known(views, recognisers) for views in people]
    new: list[Known] = [{} for _ in people]
    found: list[Mask | None] = [None] * len(people)
    taken = np.zeros(len(pool_codes), bool)

    @cache
    def tried(person: int, row: int) -> tuple[Mask, Known | None]:
        mask = Mask.of(model, people[person], pool_codes[row], pool_shifted[row], codes=codes[person])
        each: list[Known] = []
        for view, code in zip(people[person], codes[person], strict=True):
            each.append(_known([_worn(mask, view, code, texture)], recognisers))
            if apart(each[-1], old) <= 1:  # one view that gives the person away is enough
                return mask, None
        return mask, {name: np.concatenate([known[name] for known in each]) for name in recognisers}

    for needed in np.linspace(max(margin, 1.0), 1.0, 5):
        used = np.tile(taken, (len(people), 1))
        for _ in range(tries):
            left = [i for i, mask in enumerate(found) if mask is None]
            if (
                not left
                or np.count_nonzero(~used[left].all(axis=0)) < len(left)
                or used[left].all(axis=1).any()
            ):
                break
            rows = identities(
                gamma[left], pool_codes, nuisance=model.nuisance, used=used[left], among=among, rng=source
            )
            for i, row in zip(left, rows.tolist(), strict=True):
                mask, seen = tried(i, row)
                used[i, row] = True
                if seen is not None and apart(seen, [*old, *new]) > needed:
                    found[i], new[i] = mask, seen
                    used[:, row] = taken[row] = True
    return found


def apart(new: Known, others: Sequence[Known]) -> float:
    """Return how far a new face is from others, for the recogniser that finds it nearest; infinity for none.

    In the distances up to which recognisers take two codes for one person: above 1 none of them does.

    Parameters
    ----------
    new, others : mapping of str to (n, d)
        What each recogniser makes of some views; faces without a code of a recogniser are not compared.
    """
    ratios = (
        np.linalg.norm(codes[:, None] - other[name], axis=2).min() / RECOGNISERS[name].same_person
        for other in others
        for name, codes in new.items()
        if name in other
    )
    return float(min(ratios, default=np.inf))


def _known(views: Sequence[View], recognisers: Sequence[str]) -> Known:
    """Return what each recogniser makes of some views: name to (n, d)."""
    return {
        name: np.concatenate([embed(name, view.rgb, view.points[None]) for view in views])
        for name in recognisers
    }


def _worn(mask: Mask, view: View, code: FloatArray, texture: Texture) -> View:
    """Return a person's view with the mask on."""
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    return View(new, mask.worn(landmarks_of(view.points, code, mask.model)))
