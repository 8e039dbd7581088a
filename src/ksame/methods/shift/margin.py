"""How well a new face hides an old one, and that nobody else is taken for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.faces import FaceView
from ksame.core.parallel import map_pairs
from ksame.models.recognisers import RECOGNISERS, embed

# Two new faces in the same dim light look alike to recognisers; that one is taken for the other shows nobody.
SAME_PERSON_MARGIN = 0.85
STRANGER_DISTANCES = {name: net.stranger_ratio for name, net in RECOGNISERS.items()}
DEFAULT_STRANGER_RATIO = 1.3
Embeddings = Mapping[str, FloatArray]
"""What each recogniser makes of some views: name to (n, d)."""


def privacy_margin(seen: Embeddings, i: int, old: Sequence[Embeddings], new: Sequence[Embeddings]) -> float:
    """Return how far a face of person i is from their old one, and 0 if it is taken for anybody else's.

    1 is where a recogniser begins to take two for one person, 2 where it seldom names one among a thousand
    strangers. Other new faces may be a little nearer than one person's.
    """
    others = [known for j, known in enumerate(old) if j != i]
    if distance_ratio(seen, others) <= 1 or distance_ratio(seen, new) <= SAME_PERSON_MARGIN:
        return 0.0
    return margin_to_original(seen, old[i])


def margin_to_original(seen: Embeddings, old: Embeddings) -> float:
    """Return how far a face is from an old one: see ``privacy_margin``."""
    far = ((name, distance_ratio({name: codes}, [old])) for name, codes in seen.items() if name in old)
    return min(
        1 + (ratio - 1) / (STRANGER_DISTANCES.get(name, DEFAULT_STRANGER_RATIO) - 1) for name, ratio in far
    )


def distance_ratio(new: Embeddings, others: Sequence[Embeddings]) -> float:
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


def embed_views(views: Sequence[FaceView], recogniser: str) -> FloatArray:
    """Return what a recogniser makes of some views, (n, d)."""
    return np.concatenate(map_pairs(partial(embed_view, recogniser), views))


def embed_view(recogniser: str, view: FaceView) -> FloatArray:
    """Return what a recogniser makes of a view, (1, d)."""
    return embed(recogniser, view.rgb, view.points[None])
