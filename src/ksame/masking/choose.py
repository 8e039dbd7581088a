"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksame import weights
from ksame.core import FloatArray, IntArray, RandomState
from ksame.faces.attributes import male as _male
from ksame.geometry import register, to_frame, transform
from ksame.masking.look import View, code_of, landmarks_of
from ksame.masking.mask import Mask, Texture
from ksame.replace import identities
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, embed

UNSURE = 0.25  # the share of doubt in which a person may get a face of either gender
T = TypeVar("T")
R = TypeVar("R")
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
    male: FloatArray | None = None,
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
    male : (p,), optional
        How male the pool's faces are, even at 0: whoever is surely taken for a man or a woman, and by the
        weight ``gender`` if it is here, gets the face of one.
    """
    codes = [_by_two(partial(code_of, model), views) for views in people]
    gamma = np.array([np.mean(own, axis=0)[: len(model.nuisance)] for own in codes])
    source = np.random.default_rng(rng)

    def near(left: Sequence[int], used: NDArray[np.bool_]) -> IntArray:
        still = model.nuisance
        return identities(gamma[left], pool_codes, nuisance=still, used=used, among=among, rng=source)

    def make(i: int, row: int) -> Mask:
        return Mask.of(model, people[i], pool_codes[row], pool_shifted[row], codes=codes[i])

    def wear(i: int, mask: Mask, view: int) -> View:
        return _worn(mask, people[i][view], codes[i][view], texture)

    # the last judge is the slowest and takes 200 MB: it is asked only about those whom the others chose
    quick, slow = (recognisers[:-1], recognisers[-1]) if len(recognisers) > 1 else (recognisers, None)
    old = [dict(zip(quick, _by_two(partial(_codes, views), quick), strict=True)) for views in people]
    given = _Given(people, old, quick, near, make, wear)
    used = np.zeros((len(people), len(pool_codes)), bool)
    if male is not None and weights.cached("gender"):
        used |= np.stack([_unlike(views, male) for views in people])
    chosen: dict[int, _Trial] = {}
    left = list(range(len(people)))
    while left:
        new = _choose(given, left, chosen, used, margin, tries)
        chosen |= new
        left = _seen_through(given, chosen, slow, margin) if slow and new else []
        for i in left:
            del chosen[i]
    return [chosen[i].mask if i in chosen else None for i in range(len(people))]


def _unlike(views: Sequence[View], male: FloatArray) -> NDArray[np.bool_]:
    """Return which pool faces (p,) are of another apparent gender than a person; none if that is not sure."""
    points = [transform(to_frame(view.points), view.points) for view in views]
    score = _male(np.stack([register(view.rgb, view.points) for view in views]), np.stack(points)).mean()
    other: NDArray[np.bool_] = (male < 0) & (score > 1 - UNSURE) | (male > 0) & (score < UNSURE)
    return other


class _Given(NamedTuple):
    """What new faces are chosen from and by."""

    people: Sequence[Sequence[View]]
    old: Sequence[Known]
    judges: Sequence[str]
    near: Callable[[Sequence[int], NDArray[np.bool_]], IntArray]  # people, rows that are not free -> rows
    make: Callable[[int, int], Mask]  # person, row of the pool
    wear: Callable[[int, Mask, int], View]  # person, mask, view


class _Trial(NamedTuple):
    """A pool face that hides a person on all views, and how well."""

    person: int
    row: int
    mask: Mask
    seen: Known
    apart: float


def _choose(
    given: _Given,
    left: Sequence[int],
    chosen: Mapping[int, _Trial],
    used: NDArray[np.bool_],
    margin: float,
    tries: int,
) -> dict[int, _Trial]:
    """Return the new faces of those who are left, as far as there are any; what is tried becomes used."""
    found: dict[int, _Trial] = {}
    fair: list[_Trial] = []
    order = {i: list(range(len(given.people[i]))) for i in left}
    for _ in range(tries):
        still = [i for i in left if i not in found]
        free = ~used[still]
        free[:, [one.row for one in (*chosen.values(), *found.values())]] = False
        if not still or np.count_nonzero(free.any(axis=0)) < len(still) or not free.any(axis=1).all():
            break
        for i, row in zip(still, given.near(still, ~free).tolist(), strict=True):
            used[i, row] = True
            others = [*given.old, *(one.seen for one in (*chosen.values(), *found.values()))]
            best = max([1.0, *(one.apart for one in fair if one.person == i)])
            mask = given.make(i, row)
            seen = _tried(given, i, mask, others, best, order[i])
            if seen is not None:
                fair.append(_Trial(i, row, mask, seen, apart(seen, others)))
                if fair[-1].apart > margin:
                    found[i] = fair[-1]
    for one in sorted(fair, key=lambda one: -one.apart):
        theirs = [*chosen.values(), *found.values()]
        free_still = one.person not in found and one.row not in [other.row for other in theirs]
        if free_still and apart(one.seen, [*given.old, *(other.seen for other in theirs)]) > 1:
            found[one.person] = one
    return found


def _tried(
    given: _Given, i: int, mask: Mask, others: Sequence[Known], best: float, order: list[int]
) -> Known | None:
    """Return what recognisers make of a person's views with a mask on; None if another was as good.

    ``order`` is that in which views are looked at: one that gave a mask away will be the first next time.
    """
    new: dict[int, View] = {}

    def look(name: str, view: int) -> FloatArray:
        new[view] = new.get(view) or given.wear(i, mask, view)
        return _codes([new[view]], name)

    seen: dict[str, FloatArray] = {}
    for name in given.judges:
        each: list[FloatArray] = []
        for at in range(0, len(order), 2):
            each += _by_two(partial(look, name), order[at : at + 2])
            for view, code in zip(order[at : at + 2], each[at:], strict=True):
                if apart({name: code}, others) <= best:  # one look that gives the person away is enough
                    order.remove(view)
                    order.insert(0, view)
                    return None
        seen[name] = np.concatenate(each)
    return seen


def _seen_through(given: _Given, chosen: Mapping[int, _Trial], judge: str, margin: float) -> list[int]:
    """Return whose new face one more judge finds nearer to somebody than the others did."""
    weights.let_go(*given.judges)
    known = {-1 - i: {judge: _codes(views, judge)} for i, views in enumerate(given.people)}
    for i, one in chosen.items():
        worn = _by_two(partial(given.wear, i, one.mask), range(len(given.people[i])))
        known[i] = {judge: _codes(worn, judge)}
    return [
        i
        for i, one in chosen.items()
        if apart(known[i], [known[j] for j in known if j != i]) <= min(margin, one.apart)
    ]


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


def _codes(views: Sequence[View], recogniser: str) -> FloatArray:
    """Return what a recogniser makes of some views, (n, d)."""
    return np.concatenate([embed(recogniser, view.rgb, view.points[None]) for view in views])


def _by_two(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of some work, two at a time: as often as a network is open at no cost."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, items))


def _worn(mask: Mask, view: View, code: FloatArray, texture: Texture) -> View:
    """Return a person's view with the mask on."""
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    return View(new, mask.worn(landmarks_of(view.points, code, mask.model)))
