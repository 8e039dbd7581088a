"""Measure how well a new face protects a person, and that it matches nobody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ksame.core.arrays import FloatArray
from ksame.core.faces import FaceView
from ksame.core.parallel import map_pairs
from ksame.models.recognisers import RECOGNISERS, embed

# Two new faces in the same dim light are similar to recognisers; confusing them identifies nobody.
SAME_PERSON_MARGIN = 0.85
STRANGER_DISTANCES = {name: net.stranger_ratio for name, net in RECOGNISERS.items()}
DEFAULT_STRANGER_RATIO = 1.3
Embeddings = Mapping[str, FloatArray]
"""Embeddings of some views by each recogniser: name to (n, d)."""


def privacy_margin(seen: Embeddings, i: int, old: Sequence[Embeddings], new: Sequence[Embeddings]) -> float:
    """Return the privacy margin of a new face of person i, or 0 if it matches anyone else.

    1 is a recogniser's threshold for one person, 2 where it seldom identifies a person among a thousand
    strangers. Other new faces may be slightly nearer than the threshold.
    """
    others = [known for j, known in enumerate(old) if j != i]
    if distance_ratio(seen, others) <= 1 or distance_ratio(seen, new) <= SAME_PERSON_MARGIN:
        return 0.0
    return margin_to_original(seen, old[i])


def margin_to_original(seen: Embeddings, old: Embeddings) -> float:
    """Return the margin of a face to an original: see ``privacy_margin``."""
    far = ((name, distance_ratio({name: codes}, [old])) for name, codes in seen.items() if name in old)
    return min(
        1 + (ratio - 1) / (STRANGER_DISTANCES.get(name, DEFAULT_STRANGER_RATIO) - 1) for name, ratio in far
    )


def distance_ratio(new: Embeddings, others: Sequence[Embeddings]) -> float:
    """Return the smallest distance of a new face to others over recognisers; infinity without any.

    In units of each recogniser's threshold for one person: above 1 none of them matches.

    Parameters
    ----------
    new, others : mapping of str to (n, d)
        Embeddings of views by recogniser; only recognisers that both have are compared.
    """
    ratios = (
        np.linalg.norm(codes[:, None] - other[name], axis=2).min() / RECOGNISERS[name].same_person
        for other in others
        for name, codes in new.items()
        if name in other
    )
    return float(min(ratios, default=np.inf))


def embed_views(views: Sequence[FaceView], recogniser: str) -> FloatArray:
    """Return a recogniser's embeddings (n, d) of views."""
    return np.concatenate(map_pairs(partial(embed_view, recogniser), views))


def embed_view(recogniser: str, view: FaceView) -> FloatArray:
    """Return a recogniser's embedding (1, d) of a view."""
    return embed(recogniser, view.rgb, view.points[None])
