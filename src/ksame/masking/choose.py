"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

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
        Where no face that is tried is as far away, the furthest is taken, if it is beyond 1.
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
    fair: list[_Trial] = []
    order = [list(range(len(views))) for views in people]
    used, taken = np.zeros((len(people), len(pool_codes)), bool), np.zeros(len(pool_codes), bool)

    def take(one: _Trial) -> None:
        found[one.person], new[one.person], taken[one.row] = one.mask, one.seen, True

    for _ in range(tries):
        left = [i for i, mask in enumerate(found) if mask is None]
        free = ~(used[left] | taken)
        if not left or np.count_nonzero(free.any(axis=0)) < len(left) or not free.any(axis=1).all():
            break
        rows = identities(
            gamma[left], pool_codes, nuisance=model.nuisance, used=~free, among=among, rng=source
        )
        for i, row in zip(left, rows.tolist(), strict=True):
            used[i, row] = True
            mask = Mask.of(model, people[i], pool_codes[row], pool_shifted[row], codes=codes[i])
            worn = partial(_worn, mask, texture=texture)
            bar = max([1.0, *(one.apart for one in fair if one.person == i)])
            seen = _tried(people[i], codes[i], worn, recognisers, [*old, *new], bar, order[i])
            if seen is not None:
                fair.append(_Trial(i, row, mask, seen, apart(seen, [*old, *new])))
                if fair[-1].apart > margin:
                    take(fair[-1])
    for one in sorted(fair, key=lambda one: -one.apart):
        if found[one.person] is None and not taken[one.row] and apart(one.seen, [*old, *new]) > 1:
            take(one)
    return found


class _Trial(NamedTuple):
    """A pool face that hides a person on all views, and how well."""

    person: int
    row: int
    mask: Mask
    seen: Known
    apart: float


def _tried(
    views: Sequence[View],
    codes: Sequence[FloatArray],
    worn: Callable[[View, FloatArray], View],
    recognisers: Sequence[str],
    others: Sequence[Known],
    bar: float,
    order: list[int],
) -> Known | None:
    """Return what recognisers make of a person's views with a mask on; None once one is too near to others.

    ``order`` is that in which views are looked at: one that gave a mask away will be the first next time.
    """
    new: dict[int, View] = {}
    seen: dict[str, FloatArray] = {}
    for name in recognisers:
        each = []
        for view in list(order):
            new[view] = new.get(view) or worn(views[view], codes[view])
            each.append(embed(name, new[view].rgb, new[view].points[None]))
            if apart({name: each[-1]}, others) <= bar:  # one look that gives the person away is enough
                order.remove(view)
                order.insert(0, view)
                return None
        seen[name] = np.concatenate(each)
    return seen


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


def _worn(mask: Mask, view: View, code: FloatArray, *, texture: Texture) -> View:
    """Return a person's view with the mask on."""
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    return View(new, mask.worn(landmarks_of(view.points, code, mask.model)))
