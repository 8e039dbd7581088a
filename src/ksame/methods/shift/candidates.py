"""Draw pool faces on a person's views and verify which of them protect the person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.analysis.tracking.propagate import MIN_PRESENCE, find_mesh_in_box, mesh_box
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import CannotGuarantee
from ksame.core.faces import FaceView
from ksame.core.parallel import map_pairs
from ksame.methods.shift.likeness import DISSIMILAR_POOL_SHARES, gender_probability
from ksame.methods.shift.margin import Embeddings, embed_view, privacy_margin
from ksame.methods.shift.pool import Pool
from ksame.render.overlay.brows import adjust_brows
from ksame.render.overlay.face_overlay import FaceOverlay, Texture
from ksame.render.overlay.frame_code import refined_landmarks
from ksame.render.overlay.sampling import SHAPE_SHARE
from ksame.render.overlay.views import evenly_spaced
from ksame.render.tone import to_tone
from ksame.replace import assign_identities
from ksame.spaces import AppearanceSpace

RELAXED_MARGIN_SHARE = 0.96  # of the target margin beyond 1, which suffices after some trials
SMALL_FACE_EXTRA_MARGIN = 0.4  # for small faces, where recognisers place strangers further apart
BROW_MARGIN_LOSS = 0.05  # that adjusting the brows may cost where no candidate reaches the target margin
MIN_TRIALS = 3  # per person in any case, of which the best is chosen
TRIALS_PER_SHARE = 8  # in each of DISSIMILAR_POOL_SHARES; after the first, the relaxed margin suffices
VIEWS_PER_EXCEPTION = 16  # views of which one may miss the margin, if it is not matched to the original
GENDER_CHECK_VIEWS = 3  # views with the new face on which apparent gender is measured


class Candidate(NamedTuple):
    """A pool face tried on a person and its privacy margin; overlays are too large to keep."""

    person: int
    row: int
    move: FloatArray  # the overlay's
    embeddings: Embeddings  # empty if it was rejected
    margin: float  # see ``privacy_margin``; of a rejected candidate, an upper bound
    brows_adjusted: bool = False  # whether its brows match the person's, as far as that can be measured


class ChoiceContext(NamedTuple):
    """The data from which new faces are chosen; lists have an entry per person."""

    model: AppearanceSpace
    people: Sequence[Sequence[FaceView]]
    monochrome: Sequence[Sequence[bool]]  # which views have no colour
    codes: Sequence[Sequence[FloatArray]]
    gammas: Sequence[Sequence[FloatArray]]
    male: Sequence[float]  # see ``apparent_attributes``
    small_face: Sequence[float]  # from 0 for a face of full detail to 1 for a tiny one
    pool: Pool
    attribute_codes: tuple[FloatArray, FloatArray]  # people, pool: see ``with_attribute_codes``
    old: Sequence[Embeddings]
    verifiers: Sequence[str]
    texture: Texture
    nearest_count: int
    rng: np.random.Generator

    def nearest_rows(self, people: Sequence[int], used: NDArray[np.bool_]) -> IntArray:
        """Return for each of some people an unused row of the pool with similar attributes."""
        old, new = self.attribute_codes
        fixed = np.append(self.model.nuisance, [False] * 3)
        return assign_identities(
            old[people], new, nuisance=fixed, used=used, nearest_count=self.nearest_count, rng=self.rng
        )

    def overlay(self, i: int, row: int) -> FaceOverlay:
        """Create a person's overlay with a pool face.

        A small face gets the whole shape of the pool face, which protects better: there is less detail of
        expressions to lose.
        """
        hat, hat_d, image = self.pool.codes[row], self.pool.deidentified[row], self.pool.image(row)
        known = {"codes": self.codes[i], "gamma": np.mean(self.gammas[i], axis=0)}
        upper = 1.0 if self.small_face[i] else SHAPE_SHARE
        return FaceOverlay.of(self.model, self.people[i], hat, hat_d, image=image, upper=upper, **known)

    def candidate_overlay(self, candidate: Candidate) -> FaceOverlay:
        """Create the overlay of a candidate again."""
        return replace(self.overlay(candidate.person, candidate.row), move=candidate.move)

    def adjust_brows(self, i: int, overlay: FaceOverlay) -> FaceOverlay:
        """Return a person's overlay with brows measured at the height of the person's own."""
        return adjust_brows(overlay, self.people[i], self.codes[i], texture=self.texture)

    def draw_view(self, i: int, overlay: FaceOverlay, view: int) -> FaceView:
        """Draw an overlay on a person's view as it is published, without colour if the view has none.

        The mesh of a small face is the one detected in the drawn view: it may differ from the mesh it was
        drawn by, and with the latter recognisers found matches that they would not have found otherwise.
        """
        (rgb, points), code = self.people[i][view], self.codes[i][view]
        new = overlay.draw(rgb, points, code, texture=self.texture)
        new = to_tone(new, rgb) if self.monochrome[i][view] else new
        drawn = overlay.warp_to_mesh(refined_landmarks(points, code, overlay.model))
        if not self.small_face[i]:
            return FaceView(new, drawn)
        found, presence = find_mesh_in_box(new, drawn, mesh_box(drawn))
        return FaceView(new, found if presence >= MIN_PRESENCE else drawn)

    def keeps_gender(self, i: int, overlay: FaceOverlay) -> bool:
        """Return whether a person's apparent gender is preserved by an overlay, where it is certain."""
        if np.isnan(self.male[i]) or not self.male[i]:
            return True
        sample = evenly_spaced(range(len(self.people[i])), GENDER_CHECK_VIEWS)
        probability = gender_probability([self.draw_view(i, overlay, view) for view in sample])
        return bool(self.male[i] * (probability - 0.5) > 0)


class _CandidateSearch:
    """The state of a search: accepted, wrong-gender and rejected candidates of each person."""

    def __init__(
        self, context: ChoiceContext, people: Sequence[int], chosen: Mapping[int, Candidate], margin: float
    ) -> None:
        self.context, self.people = context, people
        self.accepted: dict[int, list[Candidate]] = {i: [] for i in people}
        self.wrong_gender: dict[int, list[Candidate]] = {i: [] for i in people}
        self.rejected: dict[int, list[Candidate]] = {i: [] for i in people}
        self.order = {i: verification_order(context.verifiers, len(context.people[i])) for i in people}
        self.others = [candidate.embeddings for candidate in chosen.values()]
        self.target = {i: margin + SMALL_FACE_EXTRA_MARGIN * context.small_face[i] for i in people}
        self.check_gender = True

    def verify(self, i: int, row: int, least: float) -> None:
        """Try a pool face on a person, with its brows adjusted if that still protects."""
        context, overlay = self.context, self.context.overlay(i, row)
        result = verify_candidate(context, i, overlay, self.others, least, self.order[i])
        candidate = Candidate(i, row, overlay.move, *result)
        if candidate.embeddings and (adjusted := context.adjust_brows(i, overlay)) is overlay:
            candidate = candidate._replace(brows_adjusted=True)
        elif candidate.embeddings:
            # protection has priority: adjusted brows may identify the person
            enough = max(least, min(candidate.margin - BROW_MARGIN_LOSS, self.target[i]))
            embeddings, reached = verify_candidate(context, i, adjusted, self.others, enough, self.order[i])
            if embeddings:
                overlay, candidate = adjusted, Candidate(i, row, adjusted.move, embeddings, reached, True)
        if not candidate.embeddings:
            self.rejected[i].append(candidate)
        elif self.check_gender and not context.keeps_gender(i, overlay):
            self.wrong_gender[i].append(candidate)
        else:
            self.accepted[i].append(candidate)

    def retry_rejected(self, i: int, least: float) -> None:
        """Verify rejected candidates again that may exceed a lower margin and all accepted ones."""
        again, self.rejected[i] = sorted(self.rejected[i], key=lambda one: -one.margin), []
        for candidate in again:
            best = max([least, *(other.margin for other in self.accepted[i])])
            if candidate.margin > best:
                self.verify(i, candidate.row, best)
            else:
                self.rejected[i].append(candidate)

    def relax_margins(self) -> None:
        """Lower the target margins and retry people without a candidate."""
        self.target = {i: relaxed_margin(margin) for i, margin in self.target.items()}
        for i in self.people:
            if not self.accepted[i]:
                self.retry_rejected(i, self.target[i])

    def accept_wrong_gender(self) -> None:
        """Accept candidates of the wrong gender for people without any other."""
        self.accepted = {i: self.accepted[i] or self.wrong_gender[i] for i in self.people}

    def unfinished(self, trial: int) -> list[int]:
        """Return the people who need a further trial: too few so far, or none with adjusted brows."""
        finished = {
            i
            for i in self.people
            if any(one.brows_adjusted for one in self.accepted[i])
            or (self.accepted[i] and trial >= TRIALS_PER_SHARE)
        }
        return [i for i in self.people if trial < MIN_TRIALS or i not in finished]

    def results(self) -> dict[int, list[Candidate]]:
        """Return the accepted candidates, or any that is not matched to the original."""
        self.check_gender = False
        for i in self.people:
            if not self.accepted[i] and not self.wrong_gender[i]:
                self.retry_rejected(i, 1.0)
        self.accept_wrong_gender()
        return {i: candidates for i, candidates in self.accepted.items() if candidates}


def search_candidates(
    context: ChoiceContext,
    people: Sequence[int],
    tiers: IntArray,
    chosen: Mapping[int, Candidate],
    used: NDArray[np.bool_],
    margin: float,
    trials: int,
) -> dict[int, list[Candidate]]:
    """Return candidates for some people, where there are any; mark the pool faces tried as used.

    Returns all that reach the margin among the first few, or else up to the first that does with adjusted
    brows, or else the best. After some trials a slightly lower margin and any brows suffice. In the first
    half of the trials a candidate must preserve apparent gender: in poor light and without its hair a
    portrait may not. ``tiers`` (n, m) is that of ``dissimilarity_tiers``.
    """
    search = _CandidateSearch(context, people, chosen, margin)
    for trial in range(trials):
        search.check_gender = trial < trials // 2
        if trial == TRIALS_PER_SHARE:
            search.relax_margins()
        if trial == trials // 2:
            search.accept_wrong_gender()
        unfinished = search.unfinished(trial)
        if not unfinished:
            break
        free = ~used[unfinished]
        free[:, [candidate.row for candidate in chosen.values()]] = False
        _limit_tiers(free, tiers[unfinished], trial // TRIALS_PER_SHARE)
        try:
            rows = context.nearest_rows(unfinished, ~free).tolist()
        except CannotGuarantee:  # not enough free faces for all
            break
        for i, row in zip(unfinished, rows, strict=True):
            used[i, row] = True
            search.verify(i, row, search.target[i])
    return search.results()


def _limit_tiers(free: NDArray[np.bool_], tiers: IntArray, first: int) -> None:
    """Limit free faces (n, m) to the first tiers that have enough for all n people, in place."""
    last = len(DISSIMILAR_POOL_SHARES)
    for own_tiers, own_free in zip(tiers, free, strict=True):
        enough = (n for n in range(first, last) if (own_free & (own_tiers <= n)).sum() >= len(free))
        own_free &= own_tiers <= next(enough, last)


def relaxed_margin(margin: float) -> float:
    """Return the margin that suffices after some trials."""
    return 1 + RELAXED_MARGIN_SHARE * (margin - 1)


def verification_order(verifiers: Sequence[str], views: int) -> list[tuple[str, int]]:
    """Return the order of (verifier, view): two views at a time, which are drawn in parallel."""
    pairs = (range(at, min(at + 2, views)) for at in range(0, views, 2))
    return [(verifier, view) for pair in pairs for verifier in verifiers for view in pair]


def verify_candidate(
    context: ChoiceContext,
    i: int,
    overlay: FaceOverlay,
    others: Sequence[Embeddings],
    least: float,
    order: list[tuple[str, int]],
) -> tuple[Embeddings, float]:
    """Embed a person's views with an overlay; return the embeddings and the privacy margin.

    A candidate is rejected, with empty embeddings, when a view does not exceed the margin ``least``; of many
    views one may fail: all faces look alike on a blurred half face at the edge of a frame. ``order`` is the
    order of verification; a pair that fails moves to the front, to be tested first next time.
    """
    new: dict[int, FaceView] = {}

    def embed(one: tuple[str, int]) -> FloatArray:
        name, view = one
        new[view] = new.get(view) or context.draw_view(i, overlay, view)
        return embed_view(name, new[view])

    codes: dict[tuple[str, int], FloatArray] = {}
    failed: dict[int, float] = {}  # views that miss the margin, and their margins
    for at in range(0, len(order), 2):
        for one, code in zip(order[at : at + 2], map_pairs(embed, order[at : at + 2]), strict=True):
            margin = privacy_margin({one[0]: code}, i, context.old, others)
            if margin <= least:
                failed[one[1]] = min(margin, failed.get(one[1], margin))
                order.remove(one)
                order.insert(0, one)
                if margin <= 1 or len(failed) > len(context.people[i]) // VIEWS_PER_EXCEPTION:
                    return {}, margin if margin <= 1 else max(failed.values())
            codes[one] = code
    views = [view for view in range(len(context.people[i])) if view not in failed]
    embeddings = {name: np.concatenate([codes[name, view] for view in views]) for name in context.verifiers}
    return embeddings, privacy_margin(embeddings, i, context.old, others)
