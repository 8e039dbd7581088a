"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.propagate import MIN_PRESENCE, eye_distance_and_turn, find_mesh_in_box, mesh_box
from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee
from ksame.core.faces import FaceView
from ksame.core.parallel import map_pairs
from ksame.methods.shift.likeness import (
    DISSIMILAR_POOL_SHARES,
    apparent_attributes,
    gender_probability,
    trial_order,
    with_attribute_codes,
)
from ksame.methods.shift.margin import Embeddings, embed_view, embed_views, privacy_margin
from ksame.methods.shift.pool import Pool
from ksame.models import runtime
from ksame.render.overlay.brows import adjust_brows
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.frame_code import (
    SMALL_FACE_EYE_DISTANCE_PX,
    appearance_code,
    encode_frame,
    refined_landmarks,
)
from ksame.render.overlay.sampling import SHAPE_SHARE
from ksame.render.overlay.views import evenly_spaced
from ksame.render.tone import is_monochrome, to_tone
from ksame.replace import assign_identities
from ksame.spaces import AppearanceSpace

NEAREST_POOL_FACES = (
    12  # pool faces that anybody may get: the nearest one alone would say where the old face lies
)
RELAXED_MARGIN_SHARE = 0.96  # of the way that a new face should be from the old one, after some tries
# Further it should be where a person is seen from afar: there recognisers find strangers further away
SMALL_FACE_EXTRA_MARGIN = 0.4
BROW_MARGIN_LOSS = 0.05  # that settled brows may make a new face, where no face hides well
MIN_TRIALS = 3  # trials of each person in any case: the best of them is taken
TRIALS_PER_SHARE = (
    8  # tries among the first share, and as many among the second, for whom a little less will do
)
VIEWS_PER_EXCEPTION = 16  # views of which one may hide less, if nobody takes it for the old face
GENDER_CHECK_VIEWS = 3  # views with a new face on of which a network says whether it is a man's


def choose_identities(
    model: AppearanceSpace,
    people: Sequence[Sequence[FaceView]],
    pool: Pool,
    *,
    recognisers: Sequence[str],
    texture: Texture = "code",
    margin: float = 2.0,
    nearest_count: int = NEAREST_POOL_FACES,
    tries: int = 24,
    rng: RandomState = None,
) -> list[FaceOverlay | None]:
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
        Names in ``models.recognisers.RECOGNISERS`` of those that judge.
    texture : str
        How they will be drawn: see ``FaceOverlay.draw``.
    margin : float
        How far a new face should be from the old one: 1 is where recognisers begin to take two for one
        person, 2 where they seldom name one among a thousand strangers. After some tries a little less will
        do (``RELAXED_MARGIN_SHARE``), as it will on one of sixteen views (``VIEWS_PER_EXCEPTION``); where no
        face is as far away, the
        furthest is taken, if it is beyond 1.
    nearest_count, rng : see ``replace.assign_identities``
    tries : int
        Pool faces that are tried for each person. Who is recognised in all gets None: they must be covered.
    """
    codes, gammas = (
        [map_pairs(partial(of, model), views) for views in people] for of in (encode_frame, appearance_code)
    )
    apparent = [apparent_attributes(views) for views in people]
    looks = with_attribute_codes(gammas, apparent, pool, model)
    runtime.unload("age")
    old = [{name: embed_views(views, name) for name in recognisers} for views in people]
    turns = np.stack([trial_order(known, pool) for known in old])
    given = _ChoiceContext(
        model=model,
        people=people,
        monochrome=[[is_monochrome(view.rgb) for view in views] for views in people],
        codes=codes,
        gammas=gammas,
        male=[one[0] for one in apparent],
        small_face=[_small_face_level(views) for views in people],
        pool=pool,
        attribute_codes=looks,
        old=old,
        verifiers=recognisers,
        texture=texture,
        nearest_count=nearest_count,
        rng=np.random.default_rng(rng),
    )
    used = np.zeros((len(people), len(pool)), bool)
    chosen: dict[int, _Trial] = {}
    left = list(range(len(people)))
    empty: set[int] = set()  # whose tries were all for nothing, once: others took what was like theirs
    while left:
        named = _search_candidates(given, left, turns, chosen, used, margin, tries)
        chosen |= _assign_distinct(named, old, chosen, well=_relaxed_margin(margin))
        left = [i for i in left if i not in chosen and i not in empty]
        empty.update(i for i in left if i not in named)
    runtime.unload("gender")
    return [given.again(chosen[i]) if i in chosen else None for i in range(len(people))]


def _small_face_level(views: Sequence[FaceView]) -> float:
    """Return from how far somebody is seen mostly: 0 is near, where all can be seen of a face, 1 very far.

    By the distance between the eyes: a head that is turned away most of the time counts as further off.
    """
    return max(
        0.0,
        1
        - float(np.median([eye_distance_and_turn(view.points)[0] for view in views]))
        / SMALL_FACE_EYE_DISTANCE_PX,
    )


class _Trial(NamedTuple):
    """A pool face on a person, and how well it hides them; masks are too large to be kept."""

    person: int
    row: int
    move: FloatArray  # the mask's
    seen: Embeddings  # nothing if it was given up
    margin: float  # see ``privacy_margin``; of one that was given up, no more than this
    settled: bool = False  # whether its brows are read as the person's, as far as that can be told


class _ChoiceContext(NamedTuple):
    """What new faces are chosen from and by; lists have an entry for each person."""

    model: AppearanceSpace
    people: Sequence[Sequence[FaceView]]
    monochrome: Sequence[Sequence[bool]]  # which views have no colour
    codes: Sequence[Sequence[FloatArray]]
    gammas: Sequence[Sequence[FloatArray]]
    male: Sequence[float]
    small_face: Sequence[float]  # from how far they are seen mostly
    pool: Pool
    attribute_codes: tuple[
        FloatArray, FloatArray
    ]  # of the people and of the pool: see ``with_attribute_codes``
    old: Sequence[Embeddings]
    verifiers: Sequence[str]
    texture: Texture
    nearest_count: int
    rng: np.random.Generator

    def near(self, left: Sequence[int], used: NDArray[np.bool_]) -> IntArray:
        """Return a row of the pool for each of some people: one that is not used, like them in looks."""
        old, new = self.attribute_codes
        still = np.append(self.model.nuisance, [False] * 3)
        return assign_identities(
            old[left], new, nuisance=still, used=used, nearest_count=self.nearest_count, rng=self.rng
        )

    def settled(self, i: int, mask: FaceOverlay) -> FaceOverlay:
        """Return a person's mask whose brows are seen where theirs are."""
        return adjust_brows(mask, self.people[i], self.codes[i], texture=self.texture)

    def again(self, one: _Trial) -> FaceOverlay:
        """Return the mask that was tried."""
        return replace(self.mask(one.person, one.row), move=one.move)

    def mask(self, i: int, row: int) -> FaceOverlay:
        """Return a person's mask with a face of the pool; from afar with its whole form, which hides better.

        There is less to see of expressions there.
        """
        hat, hat_d, image = self.pool.codes[row], self.pool.deidentified[row], self.pool.image(row)
        known = {"codes": self.codes[i], "gamma": np.mean(self.gammas[i], axis=0)}
        upper = 1.0 if self.small_face[i] else SHAPE_SHARE
        return FaceOverlay.of(self.model, self.people[i], hat, hat_d, image=image, upper=upper, **known)

    def warp_to_mesh(self, i: int, mask: FaceOverlay, view: int) -> FaceView:
        """Return a person's view with a mask on, without colour if it has none: as it is published.

        The mesh of a small face is the one that somebody finds who has the view only: it may lie elsewhere
        than it was drawn, and there recognisers found a face nearer that they would not have named.
        """
        (rgb, points), code = self.people[i][view], self.codes[i][view]
        new = mask.draw(rgb, points, code, texture=self.texture)
        new = to_tone(new, rgb) if self.monochrome[i][view] else new
        worn = mask.warp_to_mesh(refined_landmarks(points, code, mask.model))
        found, presence = find_mesh_in_box(new, worn, mesh_box(worn)) if self.small_face[i] else (worn, 0.0)
        return FaceView(new, found if presence >= MIN_PRESENCE else worn)

    def alike(self, i: int, mask: FaceOverlay) -> bool:
        """Return whether somebody who is surely taken for a man or a woman is so with a mask on."""
        if np.isnan(self.male[i]) or not self.male[i]:
            return True
        some = evenly_spaced(range(len(self.people[i])), GENDER_CHECK_VIEWS)
        return bool(
            self.male[i] * (gender_probability([self.warp_to_mesh(i, mask, view) for view in some]) - 0.5) > 0
        )


def _search_candidates(
    given: _ChoiceContext,
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
    poor light and without its hair a portrait may not. ``turns`` (n, m) is that of ``trial_order``.
    """
    kept, odd, rest = ({i: list[_Trial]() for i in left} for _ in range(3))
    order = {i: _verification_order(given.verifiers, len(given.people[i])) for i in left}
    theirs = [one.seen for one in chosen.values()]
    wanted = {i: margin + SMALL_FACE_EXTRA_MARGIN * given.small_face[i] for i in left}

    def look(i: int, row: int, least: float, *, picky: bool) -> None:
        mask = given.mask(i, row)
        one = _Trial(i, row, mask.move, *_verify_candidate(given, i, mask, theirs, least, order[i]))
        if one.seen and (other := given.settled(i, mask)) is mask:
            one = one._replace(settled=True)
        elif one.seen:
            # brows come second: where they are seen as the person's are, they may give somebody away
            enough = max(least, min(one.margin - BROW_MARGIN_LOSS, wanted[i]))
            seen, far = _verify_candidate(given, i, other, theirs, enough, order[i])
            mask, one = (other, _Trial(i, row, other.move, seen, far, True)) if seen else (mask, one)
        odder = one.seen and picky and not given.alike(i, mask)
        (odd if odder else kept if one.seen else rest)[i].append(one)

    def look_again(i: int, least: float, *, picky: bool) -> None:
        """Look at what was given up for something better and may be the best after all."""
        again, rest[i] = sorted(rest[i], key=lambda one: -one.margin), []
        for one in again:
            best = max([least, *(other.margin for other in kept[i])])
            if one.margin > best:
                look(i, one.row, best, picky=picky)
            else:
                rest[i].append(one)

    for turn in range(tries):
        picky = turn < tries // 2
        if turn == TRIALS_PER_SHARE:
            wanted = {i: _relaxed_margin(far) for i, far in wanted.items()}
            for i in left:
                if not kept[i]:
                    look_again(i, wanted[i], picky=picky)
        if turn == tries // 2:
            kept = {i: kept[i] or odd[i] for i in left}
        # where none has brows that are read as the person's, a few more are looked at
        done = {
            i for i in left if any(one.settled for one in kept[i]) or (kept[i] and turn >= TRIALS_PER_SHARE)
        }
        still = [i for i in left if turn < MIN_TRIALS or i not in done]
        if not still:
            break
        free = ~used[still]
        free[:, [one.row for one in chosen.values()]] = False
        for own, mine in zip(turns[still], free, strict=True):
            # wider and wider, and as many as there are people, so that each can have another face
            wide = range(turn // TRIALS_PER_SHARE, len(DISSIMILAR_POOL_SHARES))
            mine &= own <= next(
                (n for n in wide if (mine & (own <= n)).sum() >= len(still)), len(DISSIMILAR_POOL_SHARES)
            )
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


def _relaxed_margin(margin: float) -> float:
    """Return how far from the old face a new one will do, after some tries."""
    return 1 + RELAXED_MARGIN_SHARE * (margin - 1)


def _assign_distinct(
    named: Mapping[int, Sequence[_Trial]],
    old: Sequence[Embeddings],
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
        free = [one for one in named[i] if _is_distinct(one, old, theirs)]
        if free:
            taken[i] = max(free, key=lambda one: (one.settled and one.margin >= well, one.margin))
    return taken


def _is_distinct(one: _Trial, old: Sequence[Embeddings], theirs: Collection[_Trial]) -> bool:
    """Return whether a face is still nobody's, old or new."""
    free = one.row not in [other.row for other in theirs]
    return free and privacy_margin(one.seen, one.person, old, [other.seen for other in theirs]) > 1


def _verification_order(verifiers: Sequence[str], views: int) -> list[tuple[str, int]]:
    """Return who looks at which view, in this order: two views at a time, which are drawn side by side."""
    pairs = (range(at, min(at + 2, views)) for at in range(0, views, 2))
    return [(judge, view) for pair in pairs for judge in verifiers for view in pair]


def _verify_candidate(
    given: _ChoiceContext,
    i: int,
    mask: FaceOverlay,
    theirs: Sequence[Embeddings],
    least: float,
    order: list[tuple[str, int]],
) -> tuple[Embeddings, float]:
    """Return what recognisers make of a person's views with a mask on, and how well it hides them.

    It is given up, and nothing is made of it, where one look says that it hides no better than ``least``; of
    many views one may: on a blurred half of a face at the picture's edge all faces are alike. ``order`` is
    that in which they look: who gave a mask away, and on which view, will be the first next.
    """
    new: dict[int, FaceView] = {}

    def look(one: tuple[str, int]) -> FloatArray:
        name, view = one
        new[view] = new.get(view) or given.warp_to_mesh(i, mask, view)
        return embed_view(name, new[view])

    codes: dict[tuple[str, int], FloatArray] = {}
    nearer: dict[int, float] = {}  # views that do not hide well, and how well they do
    for at in range(0, len(order), 2):
        for one, code in zip(order[at : at + 2], map_pairs(look, order[at : at + 2]), strict=True):
            far = privacy_margin({one[0]: code}, i, given.old, theirs)
            if far <= least:
                nearer[one[1]] = min(far, nearer.get(one[1], far))
                order.remove(one)
                order.insert(0, one)
                if far <= 1 or len(nearer) > len(given.people[i]) // VIEWS_PER_EXCEPTION:
                    return {}, far if far <= 1 else max(nearer.values())
            codes[one] = code
    views = [view for view in range(len(given.people[i])) if view not in nearer]
    seen = {name: np.concatenate([codes[name, view] for view in views]) for name in given.verifiers}
    return seen, privacy_margin(seen, i, given.old, theirs)
