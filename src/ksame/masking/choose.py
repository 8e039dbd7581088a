"""Which new face a person gets: one that recognisers take neither for the old one nor for anybody else's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ksame.core import FloatArray, RandomState
from ksame.masking.look import View, code_of, landmarks_of
from ksame.masking.mask import Mask, Texture
from ksame.replace import identities
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, embed


def masks(
    model: AppearanceSpace,
    people: Sequence[Sequence[View]],
    pool_codes: FloatArray,
    pool_shifted: FloatArray,
    *,
    recognisers: Sequence[str],
    texture: Texture = "code",
    margin: float = 1.0,
    among: int = 1,
    tries: int = 20,
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
        How far faces must be apart, in the distances up to which recognisers take two for one person.
    among, rng : see ``replace.identities``
    tries : int
        Rounds until those who are still recognised get None: they must be covered.
    """
    source = np.random.default_rng(rng)
    old = [_known(views, recognisers) for views in people]
    gamma = np.array([np.mean([code_of(model, v) for v in views], axis=0) for views in people])[
        :, : len(model.nuisance)
    ]
    used = np.zeros((len(people), len(pool_codes)), bool)
    found: list[Mask | None] = [None] * len(people)
    new: list[Mapping[str, FloatArray]] = [{} for _ in people]
    for _ in range(tries):
        open_ = [i for i, mask in enumerate(found) if mask is None]
        if not open_ or used[open_].all(axis=1).any():
            break
        rows = identities(
            gamma[open_], pool_codes, nuisance=model.nuisance, used=used[open_], among=among, rng=source
        )
        for i, row in zip(open_, rows.tolist(), strict=True):
            mask = Mask.of(model, people[i], pool_codes[row], pool_shifted[row])
            seen = _known([_tried(mask, view, texture) for view in people[i]], recognisers)
            used[i, row] = True
            if far_enough(seen, [*old, *new], margin=margin):
                found[i], new[i] = mask, seen
                used[:, row] = True
    return found


def far_enough(
    new: Mapping[str, FloatArray], others: Sequence[Mapping[str, FloatArray]], *, margin: float = 1.0
) -> bool:
    """Whether no recogniser takes a new face for one of the others.

    Parameters
    ----------
    new, others : mapping of str to (n, d)
        What each recogniser makes of some views; faces without a code of a recogniser are not compared.
    margin : float
        Least distance, in those up to which a recogniser takes two codes for one person.
    """
    return all(
        np.linalg.norm(codes[:, None] - other[name], axis=2).min() > margin * RECOGNISERS[name].same_person
        for other in others
        for name, codes in new.items()
        if name in other
    )


def _known(views: Sequence[View], recognisers: Sequence[str]) -> dict[str, FloatArray]:
    """Return what each recogniser makes of some views: name to (n, d)."""
    return {
        name: np.concatenate([embed(name, view.rgb, view.points[None]) for view in views])
        for name in recognisers
    }


def _tried(mask: Mask, view: View, texture: Texture) -> View:
    """Return a person's view with the mask on."""
    code = code_of(mask.model, view)
    new = mask.draw(view.rgb, view.points, code, texture=texture)
    return View(new, mask.worn(landmarks_of(view.points, code, mask.model)))
