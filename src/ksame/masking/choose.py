"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame import networks, weights
from ksame.ahead import by_two
from ksame.core import CannotGuarantee, FloatArray, IntArray, RandomState
from ksame.faces import attributes
from ksame.faces.follow import PRESENT, again, box_of, pose
from ksame.geometry import register, to_frame, transform
from ksame.masking.brows import settled
from ksame.masking.hiding import Known, codes_of, far_from, hides, seen_by
from ksame.masking.look import FINE, View, code_of, gamma_of, landmarks_of
from ksame.masking.looks import spread
from ksame.masking.mask import FORM, Mask, Texture
from ksame.pool import Pool
from ksame.replace import identities
from ksame.represent import AppearanceSpace
from ksame.tone import is_monochrome, to_tone

AMONG = 12  # pool faces that anybody may get: the nearest one alone would say where the old face lies
ENOUGH = 0.96  # of the way that a new face should be from the old one, after some tries
# Further it should be where a person is seen from afar: there recognisers find strangers further away
AFAR = 0.4
NEARER = 0.05  # that settled brows may make a new face, where no face hides well
NAMED = 3  # trials of each person in any case: the best of them is taken
UNLIKE = 0.4, 0.7  # shares of a pool's women or men, least like a person first: they are tried in this order
PATIENCE = 8  # tries among the first share, and as many among the second, for whom a little less will do
# How far a woman is from a man, 20 years from none, and a light face from a dark one, in usual distances
GENDER, AGE, LIGHT = 10.0, 2.0, 2.0
LEVELS = 50.0  # of grey from dark to light
SPARE = 16  # views of which one may hide less, if nobody takes it for the old face
ASKED = 3  # views with a new face on of which a network says whether it is a man's
# How surely somebody must be taken for a man to get a face of either gender. Of 142 people of london/ and
# canada/ at three sizes, 8 men and 1 woman were seen from 0.5 to 0.75, 2 men and 3 women from 0.25 to 0.5.
UNSURE = 0.25, 0.5


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
    taken for a man or a woman (``UNSURE``) gets the face of one, and of somebody of their age, as far as
    ``gender`` and ``age`` are here; and one that is about as light as their lightest view.

    Parameters
    ----------
    model : AppearanceSpace
        What they are drawn with.
    people : sequence of sequences of View
        Some good views of each person, spread over the time they are seen.
    pool : Pool
        Whose faces they get.
    recognisers : sequence of str
        Names in ``represent.embedding.RECOGNISERS`` of those that judge.
    texture : str
        How they will be drawn: see ``Mask.draw``.
    margin : float
        How far a new face should be from the old one: 1 is where recognisers begin to take two for one
        person, 2 where they seldom name one among a thousand strangers. After some tries a little less will
        do (``ENOUGH``), as it will on one of sixteen views (``SPARE``); where no face is as far away, the
        furthest is taken, if it is beyond 1.
    among, rng : see ``replace.identities``
    tries : int
        Pool faces that are tried for each person. Who is recognised in all gets None: they must be covered.
    """
    codes, gammas = ([by_two(partial(of, model), views) for views in people] for of in (code_of, gamma_of))
    apparent = [_apparent(views) for views in people]
    looks = _with_looks(gammas, apparent, pool, model)
    networks.let_go("age")
    old = [{name: codes_of(views, name) for name in recognisers} for views in people]
    turns = np.stack([_turns(known, pool) for known in old])
    given = _Given(
        model=model,
        people=people,
        monochrome=[[is_monochrome(view.rgb) for view in views] for views in people],
        codes=codes,
        gammas=gammas,
        male=[one[0] for one in apparent],
        afar=[_afar(views) for views in people],
        pool=pool,
        looks=looks,
        old=old,
        judges=recognisers,
        texture=texture,
        among=among,
        rng=np.random.default_rng(rng),
    )
    used = np.zeros((len(people), len(pool)), bool)
    chosen: dict[int, _Trial] = {}
    left = list(range(len(people)))
    empty: set[int] = set()  # whose tries were all for nothing, once: others took what was like theirs
    while left:
        named = _choose(given, left, turns, chosen, used, margin, tries)
        chosen |= _taken(named, old, chosen, well=_enough(margin))
        left = [i for i in left if i not in chosen and i not in empty]
        empty.update(i for i in left if i not in named)
    networks.let_go("gender")
    return [given.again(chosen[i]) if i in chosen else None for i in range(len(people))]


def _afar(views: Sequence[View]) -> float:
    """Return from how far somebody is seen mostly: 0 is near, where all can be seen of a face, 1 very far.

    By the distance between the eyes: a head that is turned away most of the time counts as further off.
    """
    return max(0.0, 1 - float(np.median([pose(view.points)[0] for view in views])) / FINE)


def _apparent(views: Sequence[View]) -> FloatArray:
    """Return how male and how young (2,) somebody looks, as a pool's labels say it.

    0 is unsure, which is as near to a woman as to a man; NaN is unknown: the network is not here.
    """
    male = young = np.nan
    if weights.cached("gender"):
        score = _male(views)
        male = float(score >= UNSURE[1]) - float(score <= UNSURE[0])
    if weights.cached("age"):
        young = float(np.clip((50 - np.median(_guessed(attributes.age, views))) / 20, -1, 1))
    return np.array([male, young])


def _male(views: Sequence[View]) -> float:
    """Return how surely somebody is taken for a man, from 0 to 1."""
    return float(_guessed(attributes.male, views).mean())


def _guessed(
    guess: Callable[[NDArray[np.uint8], FloatArray], FloatArray], views: Sequence[View]
) -> FloatArray:
    """Return what a network guesses (n,) of some views, one by one: together they would take 70 MB."""

    def of(view: View) -> FloatArray:
        points = transform(to_frame(view.points), view.points)
        return guess(register(view.rgb, view.points)[None], points[None])

    return np.concatenate(by_two(of, views))


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
    far, male = np.array([far_from(face, old) for face in faces]), pool.labels[:, 0] > 0
    for some in (male, ~male):
        place = np.argsort(np.argsort(-far[some])) / max(int(some.sum()), 1)  # 0: least alike
        turns[some] = np.searchsorted(UNLIKE, place, side="right")
    return turns


class _Trial(NamedTuple):
    """A pool face on a person, and how well it hides them; masks are too large to be kept."""

    person: int
    row: int
    move: FloatArray  # the mask's
    seen: Known  # nothing if it was given up
    apart: float  # see ``hides``; of one that was given up, no more than this
    settled: bool = False  # whether its brows are read as the person's, as far as that can be told


class _Given(NamedTuple):
    """What new faces are chosen from and by; lists have an entry for each person."""

    model: AppearanceSpace
    people: Sequence[Sequence[View]]
    monochrome: Sequence[Sequence[bool]]  # which views have no colour
    codes: Sequence[Sequence[FloatArray]]
    gammas: Sequence[Sequence[FloatArray]]
    male: Sequence[float]
    afar: Sequence[float]  # from how far they are seen mostly
    pool: Pool
    looks: tuple[FloatArray, FloatArray]  # of the people and of the pool: see ``_with_looks``
    old: Sequence[Known]
    judges: Sequence[str]
    texture: Texture
    among: int
    rng: np.random.Generator

    def near(self, left: Sequence[int], used: NDArray[np.bool_]) -> IntArray:
        """Return a row of the pool for each of some people: one that is not used, like them in looks."""
        old, new = self.looks
        still = np.append(self.model.nuisance, [False] * 3)
        return identities(old[left], new, nuisance=still, used=used, among=self.among, rng=self.rng)

    def settled(self, i: int, mask: Mask) -> Mask:
        """Return a person's mask whose brows are seen where theirs are."""
        return settled(mask, self.people[i], self.codes[i], texture=self.texture)

    def again(self, one: _Trial) -> Mask:
        """Return the mask that was tried."""
        return replace(self.mask(one.person, one.row), move=one.move)

    def mask(self, i: int, row: int) -> Mask:
        """Return a person's mask with a face of the pool; from afar with its whole form, which hides better.

        There is less to see of expressions there.
        """
        hat, hat_d, picture = self.pool.codes[row], self.pool.deidentified[row], self.pool.picture(row)
        known = {"codes": self.codes[i], "gamma": np.mean(self.gammas[i], axis=0)}
        upper = 1.0 if self.afar[i] else FORM
        return Mask.of(self.model, self.people[i], hat, hat_d, picture=picture, upper=upper, **known)

    def worn(self, i: int, mask: Mask, view: int) -> View:
        """Return a person's view with a mask on, without colour if it has none: as it is published.

        The mesh of a small face is the one that somebody finds who has the view only: it may lie elsewhere
        than it was drawn, and there recognisers found a face nearer that they would not have named.
        """
        (rgb, points), code = self.people[i][view], self.codes[i][view]
        new = mask.draw(rgb, points, code, texture=self.texture)
        new = to_tone(new, rgb) if self.monochrome[i][view] else new
        worn = mask.worn(landmarks_of(points, code, mask.model))
        found, presence = again(new, worn, box_of(worn)) if self.afar[i] else (worn, 0.0)
        return View(new, found if presence >= PRESENT else worn)

    def alike(self, i: int, mask: Mask) -> bool:
        """Return whether somebody who is surely taken for a man or a woman is so with a mask on."""
        if np.isnan(self.male[i]) or not self.male[i]:
            return True
        some = spread(range(len(self.people[i])), ASKED)
        return bool(self.male[i] * (_male([self.worn(i, mask, view) for view in some]) - 0.5) > 0)


def _choose(
    given: _Given,
    left: Sequence[int],
    turns: IntArray,
    chosen: Mapping[int, _Trial],
    used: NDArray[np.bool_],
    margin: float,
    tries: int,
) -> dict[int, list[_Trial]]:
    """Return new faces for those who are left, as far as there are any; what is tried becomes used.

    All that hide well among the first few, or else up to the first that does with brows that are read as the
    person's, or else the best. After some tries what hides nearly as well will do, with any brows. In the
    first half of them, a man must look like one with a face on that hides him, and a woman like a woman: in
    poor light and without its hair a portrait may not. ``turns`` (n, m) is that of ``_turns``.
    """
    kept, odd, rest = ({i: list[_Trial]() for i in left} for _ in range(3))
    order = {i: _order(given.judges, len(given.people[i])) for i in left}
    theirs = [one.seen for one in chosen.values()]
    wanted = {i: margin + AFAR * given.afar[i] for i in left}

    def look(i: int, row: int, least: float, *, picky: bool) -> None:
        mask = given.mask(i, row)
        one = _Trial(i, row, mask.move, *_tried(given, i, mask, theirs, least, order[i]))
        if one.seen and (other := given.settled(i, mask)) is mask:
            one = one._replace(settled=True)
        elif one.seen:
            # brows come second: where they are seen as the person's are, they may give somebody away
            enough = max(least, min(one.apart - NEARER, wanted[i]))
            seen, far = _tried(given, i, other, theirs, enough, order[i])
            mask, one = (other, _Trial(i, row, other.move, seen, far, True)) if seen else (mask, one)
        odder = one.seen and picky and not given.alike(i, mask)
        (odd if odder else kept if one.seen else rest)[i].append(one)

    def look_again(i: int, least: float, *, picky: bool) -> None:
        """Look at what was given up for something better and may be the best after all."""
        again, rest[i] = sorted(rest[i], key=lambda one: -one.apart), []
        for one in again:
            best = max([least, *(other.apart for other in kept[i])])
            if one.apart > best:
                look(i, one.row, best, picky=picky)
            else:
                rest[i].append(one)

    for turn in range(tries):
        picky = turn < tries // 2
        if turn == PATIENCE:
            wanted = {i: _enough(far) for i, far in wanted.items()}
            for i in left:
                if not kept[i]:
                    look_again(i, wanted[i], picky=picky)
        if turn == tries // 2:
            kept = {i: kept[i] or odd[i] for i in left}
        # where none has brows that are read as the person's, a few more are looked at
        done = {i for i in left if any(one.settled for one in kept[i]) or (kept[i] and turn >= PATIENCE)}
        still = [i for i in left if turn < NAMED or i not in done]
        if not still:
            break
        free = ~used[still]
        free[:, [one.row for one in chosen.values()]] = False
        for own, mine in zip(turns[still], free, strict=True):
            # wider and wider, and as many as there are people, so that each can have another face
            wide = range(turn // PATIENCE, len(UNLIKE))
            mine &= own <= next((n for n in wide if (mine & (own <= n)).sum() >= len(still)), len(UNLIKE))
        try:
            rows = given.near(still, ~free).tolist()
        except CannotGuarantee:  # not each of them can have another face
            break
        for i, row in zip(still, rows, strict=True):
            used[i, row] = True
            look(i, row, wanted[i], picky=picky)
    for i in left:
        if not kept[i] and not odd[i]:
            look_again(i, 1.0, picky=False)
    return {i: kept[i] or odd[i] for i in left if kept[i] or odd[i]}


def _enough(margin: float) -> float:
    """Return how far from the old face a new one will do, after some tries."""
    return 1 + ENOUGH * (margin - 1)


def _taken(
    named: Mapping[int, Sequence[_Trial]],
    old: Sequence[Known],
    chosen: Mapping[int, _Trial],
    *,
    well: float,
) -> dict[int, _Trial]:
    """Return the best face for each of those who have some to choose from, as far as they are distinct.

    Of those that hide ``well`` one whose brows are read as the person's, if there is one; else what hides
    best.
    """
    taken: dict[int, _Trial] = {}
    for i in sorted(named, key=lambda i: len(named[i])):  # who has least to choose from, first
        theirs = [*chosen.values(), *taken.values()]
        free = [one for one in named[i] if _distinct(one, old, theirs)]
        if free:
            taken[i] = max(free, key=lambda one: (one.settled and one.apart >= well, one.apart))
    return taken


def _distinct(one: _Trial, old: Sequence[Known], theirs: Collection[_Trial]) -> bool:
    """Return whether a face is still nobody's, old or new."""
    free = one.row not in [other.row for other in theirs]
    return free and hides(one.seen, one.person, old, [other.seen for other in theirs]) > 1


def _order(judges: Sequence[str], views: int) -> list[tuple[str, int]]:
    """Return who looks at which view, in this order: two views at a time, which are drawn side by side."""
    pairs = (range(at, min(at + 2, views)) for at in range(0, views, 2))
    return [(judge, view) for pair in pairs for judge in judges for view in pair]


def _tried(
    given: _Given, i: int, mask: Mask, theirs: Sequence[Known], least: float, order: list[tuple[str, int]]
) -> tuple[Known, float]:
    """Return what recognisers make of a person's views with a mask on, and how well it hides them.

    It is given up, and nothing is made of it, where one look says that it hides no better than ``least``; of
    many views one may: on a blurred half of a face at the picture's edge all faces are alike. ``order`` is
    that in which they look: who gave a mask away, and on which view, will be the first next.
    """
    new: dict[int, View] = {}

    def look(one: tuple[str, int]) -> FloatArray:
        name, view = one
        new[view] = new.get(view) or given.worn(i, mask, view)
        return seen_by(name, new[view])

    codes: dict[tuple[str, int], FloatArray] = {}
    nearer: dict[int, float] = {}  # views that do not hide well, and how well they do
    for at in range(0, len(order), 2):
        for one, code in zip(order[at : at + 2], by_two(look, order[at : at + 2]), strict=True):
            far = hides({one[0]: code}, i, given.old, theirs)
            if far <= least:
                nearer[one[1]] = min(far, nearer.get(one[1], far))
                order.remove(one)
                order.insert(0, one)
                if far <= 1 or len(nearer) > len(given.people[i]) // SPARE:
                    return {}, far if far <= 1 else max(nearer.values())
            codes[one] = code
    views = [view for view in range(len(given.people[i])) if view not in nearer]
    seen = {name: np.concatenate([codes[name, view] for view in views]) for name in given.judges}
    return seen, hides(seen, i, given.old, theirs)
