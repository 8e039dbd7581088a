"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksame import weights
from ksame.core import CannotGuarantee, FloatArray, IntArray, RandomState
from ksame.faces import attributes
from ksame.geometry import register, to_frame, transform
from ksame.masking.look import View, code_of, gamma_of, landmarks_of
from ksame.masking.looks import spread
from ksame.masking.mask import Mask, Texture
from ksame.pool import Pool
from ksame.replace import identities
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, embed

AMONG = 12  # pool faces that anybody may get: the nearest one alone would say where the old face lies
# Two new faces in the same dim light look alike to recognisers; that one is taken for the other shows nobody.
ALIKE = 0.85
# The distance to the nearest of 1,021 people of congress, in distances of one person: half of the people in
# the box (models/README.md) are nearer to somebody; for dlib as of new faces in frames, which are further;
# for SFace 0.05 more, by which a face that was written and found again is nearer to the old one.
STRANGERS = {"sface": 1.15, "mobilefacenet": 1.18, "facenet": 1.26, "dlib": 1.27}
USUAL = 1.2
OLD = -1
QUICK = 3  # recognisers that are asked about every trial
NAMED = 3  # trials of each person in any case: the others are asked about the best of them
UNLIKE = 0.4, 0.7  # shares of a pool's women or men, least like a person first: they are tried in this order
PATIENCE = 8  # tries among the first share, and as many among the second
SLOWLY = 8  # views that these are shown
# How far a woman is from a man, 20 years from none, and a light face from a dark one, in usual distances
GENDER, AGE, LIGHT = 10.0, 2.0, 2.0
LEVELS = 50.0  # of grey from dark to light
ASKED = 3  # views with a new face on of which a network says whether it is a man's
UNSURE = 0.25  # the share of doubt in which a person may get a face of either gender
T = TypeVar("T")
R = TypeVar("R")
_HANDS = ThreadPoolExecutor(2)  # the same two throughout: each new thread would keep memory of its own
Known = Mapping[str, FloatArray]
"""What each recogniser makes of some views: name to (n, d)."""


def masks(
    model: AppearanceSpace,
    people: Sequence[Sequence[View]],
    pool: Pool,
    *,
    recognisers: Sequence[str],
    texture: Texture = "code",
    margin: float = 2.0,
    among: int = AMONG,
    tries: int = 24,
    rng: RandomState = None,
) -> list[Mask | None]:
    """Return a mask for each person, drawn from distinct pool faces, that recognisers do not see through.

    Each is tried on the person's own views. Where a recogniser takes the new face for the old one, or for
    another person's, another pool face is taken; two new faces may be a little nearer than that. Whoever is
    surely taken for a man or a woman gets the face of one, and of somebody of their age, as far as ``gender``
    and ``age`` are here; and one that is about as light as their lightest view.

    Parameters
    ----------
    model : AppearanceSpace
        What they are drawn with.
    people : sequence of sequences of View
        Some good views of each person, spread over the time they are seen.
    pool : Pool
        Whose faces they get.
    recognisers : sequence of str
        Names in ``represent.embedding.RECOGNISERS`` of those that judge; of more than three, those after the
        third are only asked about faces that hide from the first: they are slow.
    texture : str
        How they will be drawn: see ``Mask.draw``.
    margin : float
        How far a new face should be from the old one: 1 is where recognisers begin to take two for one
        person, 2 where they find the nearest of a thousand strangers. Where no face that is tried is as far
        away, the furthest is taken, if it is beyond 1.
    among, rng : see ``replace.identities``
    tries : int
        Pool faces that are tried for each person. Who is recognised in all gets None: they must be covered.
    """
    codes, gammas = ([_by_two(partial(of, model), views) for views in people] for of in (code_of, gamma_of))
    source = np.random.default_rng(rng)
    apparent = [_apparent(views) for views in people]
    old_looks, new_looks = _with_looks(gammas, apparent, pool, model)
    weights.let_go("age")

    def near(left: Sequence[int], used: NDArray[np.bool_]) -> IntArray:
        still = np.append(model.nuisance, [False] * 3)
        return identities(old_looks[left], new_looks, nuisance=still, used=used, among=among, rng=source)

    def make(i: int, row: int) -> Mask:
        hat, hat_d = pool.codes[row], pool.deidentified[row]
        gamma = np.mean(gammas[i], axis=0)
        return Mask.of(model, people[i], hat, hat_d, codes=codes[i], gamma=gamma, picture=pool.picture(row))

    def wear(i: int, mask: Mask, view: int) -> View:
        return _worn(mask, people[i][view], codes[i][view], texture)

    def alike(i: int, mask: Mask) -> bool:
        male = apparent[i][0]
        if np.isnan(male) or not male:
            return True
        some = spread(range(len(people[i])), ASKED)
        return bool(male * (_male([wear(i, mask, view) for view in some]) - 0.5) > 0)

    quick, slow = recognisers[:QUICK], recognisers[QUICK:]
    old = [{name: _codes(views, name) for name in quick} for views in people]
    used = np.zeros((len(people), len(pool)), bool)
    chosen: dict[int, _Trial] = {}
    doubtful: list[_Trial] = []
    told: dict[tuple[int, int], dict[str, FloatArray]] = {}
    left = list(range(len(people)))
    empty: set[int] = set()  # whose tries were all for nothing, once: others took what was like theirs
    while left:
        turns = [_turns({**known, **told.get((i, OLD), {})}, pool) for i, known in enumerate(old)]
        given = _Given(people, old, np.stack(turns), quick, near, make, wear, alike)
        named = _choose(given, left, chosen, used, margin, tries)
        left = [i for i in left if i not in named and i not in empty]
        empty.update(left)
        for i, some in _asked(given, chosen, named, slow, told, margin).items():
            if i not in chosen:
                left.append(i)
                doubtful += some
    for one in sorted(doubtful, key=lambda one: -one.apart):  # better a face that hides enough than a cover
        if one.apart > 1 and one.person not in chosen and _distinct(one, old, chosen.values()):
            chosen[one.person] = one
    weights.let_go("gender")
    return [make(i, chosen[i].row) if i in chosen else None for i in range(len(people))]


def _apparent(views: Sequence[View]) -> FloatArray:
    """Return how male and how young (2,) somebody looks, as a pool's labels say it.

    0 is unsure, which is as near to a woman as to a man; NaN is unknown: the network is not here.
    """
    male = young = np.nan
    if weights.cached("gender"):
        score = _male(views)
        male = float(np.sign(score - 0.5)) * (abs(score - 0.5) > 0.5 - UNSURE)
    if weights.cached("age"):
        young = float(np.clip((50 - np.median(attributes.age(*_registered(views)))) / 20, -1, 1))
    return np.array([male, young])


def _male(views: Sequence[View]) -> float:
    """Return how surely somebody is taken for a man, from 0 to 1."""
    return float(attributes.male(*_registered(views)).mean())


def _registered(views: Sequence[View]) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return the faces (n, 320, 256, 3) of some views and their meshes (n, 468, 2) on the canonical frame."""
    points = np.stack([transform(to_frame(view.points), view.points) for view in views])
    return np.stack([register(view.rgb, view.points) for view in views]), points


def _with_looks(
    gammas: Sequence[Sequence[FloatArray]], looks: Sequence[FloatArray], pool: Pool, model: AppearanceSpace
) -> tuple[FloatArray, FloatArray]:
    """Return codes (m, d + 3) of people and (p, d + 3) of a pool, in which looks are far apart.

    So the nearest are those of the same gender and age and in as much light as the person's lightest view,
    and others come only where there are no more of them. A dark picture that is drawn light looks harsh.
    """
    usual = float(np.linalg.norm(pool.codes - pool.codes.mean(axis=0), axis=1).mean())
    textured = slice(len(model.shape_axes), len(model.nuisance))
    lighter = np.asarray(model.texture_axes, np.float64).mean(axis=1) / LEVELS  # (d_t,)
    most = [max(float(code[textured] @ lighter) for code in own) for own in gammas]
    gamma = np.array([np.mean(own, axis=0) for own in gammas])
    seen = np.column_stack([np.stack(looks), most])
    theirs = np.column_stack([pool.labels[:, :2], pool.codes[:, textured] @ lighter])
    much = np.where(np.isnan(seen).any(axis=0), 0, usual * np.array([GENDER, AGE, LIGHT]))
    return np.hstack([gamma, much * np.nan_to_num(seen)]), np.hstack([pool.codes, much * theirs])


def _turns(old: Known, pool: Pool) -> IntArray:
    """Return whose turn (m,) it is to be tried on a person: 0 of the women and men who are least alike, ...

    On a person faces are nearer to the old one than beside it, but in much the same order; so fewer need be
    tried, and those that are hide better.
    """
    turns = np.zeros(len(pool), np.intp)
    if not pool.seen.keys() & old.keys():
        return turns
    faces = ({name: codes[[row]] for name, codes in pool.seen.items()} for row in range(len(pool)))
    far, male = np.array([_far(face, old) for face in faces]), pool.labels[:, 0] > 0
    for some in (male, ~male):
        place = np.argsort(np.argsort(-far[some])) / max(int(some.sum()), 1)  # 0: least alike
        turns[some] = np.searchsorted(UNLIKE, place, side="right")
    return turns


class _Given(NamedTuple):
    """What new faces are chosen from and by."""

    people: Sequence[Sequence[View]]
    old: Sequence[Known]
    turns: IntArray  # (n, m): see ``_turns``
    judges: Sequence[str]
    near: Callable[[Sequence[int], NDArray[np.bool_]], IntArray]  # people, rows that are not free -> rows
    make: Callable[[int, int], Mask]  # person, row of the pool
    wear: Callable[[int, Mask, int], View]  # person, mask, view
    alike: Callable[[int, Mask], bool]  # whether a man with it on still looks like a man


class _Trial(NamedTuple):
    """A pool face that hides a person on all views, and how well; masks are too large to be kept."""

    person: int
    row: int
    seen: Known
    apart: float


def _choose(
    given: _Given,
    left: Sequence[int],
    chosen: Mapping[int, _Trial],
    used: NDArray[np.bool_],
    margin: float,
    tries: int,
) -> dict[int, list[_Trial]]:
    """Return new faces for those who are left, as far as there are any; what is tried becomes used.

    All that hide well among the first few, or else the first that does. In the first half of the tries a man
    must look like one with it on, and a woman like a woman: in poor light and without its hair a portrait
    may not. Then what was odd may come again: to hide counts for more.
    """
    found: dict[int, list[_Trial]] = {}
    fair: list[_Trial] = []
    odd: list[tuple[int, int]] = []
    order = {i: list(range(len(given.people[i]))) for i in left}

    def taken(but: int | None = None) -> list[_Trial]:
        return [*chosen.values(), *(one for i, some in found.items() if i != but for one in some)]

    for turn in range(tries):
        picky = turn < tries // 2
        if turn == tries // 2:
            for i, row in odd:
                used[i, row] = False
            odd.clear()
        still = [i for i in left if turn < NAMED or i not in found]
        if not still:
            break
        free = ~used[still]
        free[:, [one.row for one in taken()]] = False
        for own, mine in zip(given.turns[still], free, strict=True):
            # wider and wider, and as many as there are people, so that each can have another face
            wide = range(turn // PATIENCE, len(UNLIKE))
            mine &= own <= next((n for n in wide if (mine & (own <= n)).sum() >= len(still)), len(UNLIKE))
        try:
            rows = given.near(still, ~free).tolist()
        except CannotGuarantee:  # not each of them can have another face
            if not odd:
                break
            continue
        for i, row in zip(still, rows, strict=True):
            used[i, row] = True
            mask, theirs = given.make(i, row), [one.seen for one in taken(i)]
            if picky and not given.alike(i, mask):
                odd.append((i, row))
                continue
            least = max(
                [1.0, *(min(one.apart, margin) for one in (*fair, *found.get(i, ())) if one.person == i)]
            )
            seen = _tried(given, i, mask, theirs, least, order[i])
            if seen is not None:
                one = _Trial(i, row, seen, _hides(seen, i, given.old, theirs))
                (found.setdefault(i, []) if one.apart > margin else fair).append(one)
    for one in sorted(fair, key=lambda one: -one.apart):
        if one.person not in found and _distinct(one, given.old, taken()):
            found[one.person] = [one]
    return found


def _distinct(one: _Trial, old: Sequence[Known], theirs: Collection[_Trial]) -> bool:
    """Return whether a face is still nobody's, old or new."""
    free = one.row not in [other.row for other in theirs]
    return free and _hides(one.seen, one.person, old, [other.seen for other in theirs]) > 1


def _hides(seen: Known, i: int, old: Sequence[Known], new: Sequence[Known]) -> float:
    """Return how far a face of person i is from their old one, and 0 if it is taken for anybody else's.

    1 is where a recogniser begins to take two for one person, 2 where it finds the nearest of a thousand
    strangers. Other new faces may be a little nearer than one person's.
    """
    others = [known for j, known in enumerate(old) if j != i]
    if apart(seen, others) <= 1 or apart(seen, new) <= ALIKE:
        return 0.0
    return _far(seen, old[i])


def _far(seen: Known, old: Known) -> float:
    """Return how far a face is from an old one: see ``_hides``."""
    far = ((name, apart({name: codes}, [old])) for name, codes in seen.items() if name in old)
    return min(1 + (ratio - 1) / (STRANGERS.get(name, USUAL) - 1) for name, ratio in far)


def _tried(
    given: _Given, i: int, mask: Mask, theirs: Sequence[Known], best: float, order: list[int]
) -> Known | None:
    """Return what recognisers make of a person's views with a mask on; None if another was as good.

    ``order`` is that in which views are looked at: one that gave a mask away will be the first next time.
    """
    new: dict[int, View] = {}

    def look(name: str, view: int) -> FloatArray:
        new[view] = new.get(view) or given.wear(i, mask, view)
        return _code(name, new[view])

    seen: dict[str, FloatArray] = {}
    for name in given.judges:
        each: list[FloatArray] = []
        for at in range(0, len(order), 2):
            each += _by_two(partial(look, name), order[at : at + 2])
            for view, code in zip(order[at : at + 2], each[at:], strict=True):
                if _hides({name: code}, i, given.old, theirs) <= best:  # one look that tells is enough
                    order.remove(view)
                    order.insert(0, view)
                    return None
        seen[name] = np.concatenate(each)
    return seen


def _asked(
    given: _Given,
    chosen: dict[int, _Trial],
    named: Mapping[int, Sequence[_Trial]],
    judges: Sequence[str],
    told: dict[tuple[int, int], dict[str, FloatArray]],
    margin: float,
) -> dict[int, list[_Trial]]:
    """Choose the best of some new faces, to further judges too; return what they were asked about.

    Each with how far it is apart to all of them, from everybody old and new. The best to the quick judges is
    the first, and none that cannot be better any more is asked about. ``told`` is what they made of each
    person's pool faces by their rows, and of the old face, whose row is ``OLD``; it becomes more.
    """
    if not judges or not named:
        chosen |= {i: max(trials, key=lambda one: one.apart) for i, trials in named.items()}
        return {}
    weights.let_go("gender", *given.judges)  # the slow one takes 200 MB, twice that if asked twice at once
    some = [spread(range(len(views)), SLOWLY) for views in given.people]
    old = [told.setdefault((i, OLD), {}) for i in range(len(given.people))]
    for judge in judges:
        for i, views in enumerate(given.people):
            if judge not in old[i]:
                old[i][judge] = np.concatenate([_code(judge, views[view]) for view in some[i]])
    asked: dict[int, list[_Trial]] = {}
    for i, trials in named.items():
        asked[i] = []
        for one in sorted(trials, key=lambda one: -one.apart):
            if i in chosen and one.apart <= chosen[i].apart:
                break
            mask = given.make(i, one.row)
            known = told.setdefault((i, one.row), {})
            for judge in judges:
                known[judge] = np.concatenate([_code(judge, given.wear(i, mask, view)) for view in some[i]])
            others = [told[j, other.row] for j, other in chosen.items() if j != i]
            asked[i].append(one._replace(apart=min(one.apart, _hides(known, i, old, others))))
            if asked[i][-1].apart >= min(margin, one.apart):
                chosen[i] = max(asked[i], key=lambda one: one.apart)
    weights.let_go(*judges)
    return asked


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
    return np.concatenate(_by_two(partial(_code, recogniser), views))


def _code(recogniser: str, view: View) -> FloatArray:
    return embed(recogniser, view.rgb, view.points[None])


def _by_two(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the results of some work, two at a time: as often as a network is open at no cost."""
    return list(_HANDS.map(work, items))


def _worn(mask: Mask, view: View, code: FloatArray, texture: Texture) -> View:
    """Return a person's view with the mask on."""
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    return View(new, mask.worn(landmarks_of(view.points, code, mask.model)))
