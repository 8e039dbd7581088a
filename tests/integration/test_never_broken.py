"""A k-anonymous portrait release is never broken, whoever attacks and whatever the seed [N thm. 2]."""

from __future__ import annotations

import numpy as np
import pytest

from ksame import io
from ksame.analysis.identify import IdentifiedPhotos
from ksame.attack import naive, parrot, reverse
from ksame.attack.embed import FaceEmbeddings, embed_faces
from ksame.attack.recognisers import choose_recognisers
from ksame.core.context import Context
from ksame.io.sources import Source, find_sources
from ksame.methods import KSame
from ksame.pipeline import Photos, Portraits, prepare, release_of

pytestmark = pytest.mark.weights
RECOGNISERS, _ = choose_recognisers("eigenfaces,lbp,hog")


@pytest.fixture(scope="module")
def crowd(people) -> tuple[IdentifiedPhotos, FaceEmbeddings]:
    sources = find_sources(people)
    context = prepare(KSame(k=2), Portraits(), Context())
    found = Photos(sources=tuple(sources), subjects="prefix").identify(KSame(k=2), Portraits(), context)
    seen = embed_faces(sources, RECOGNISERS)
    return found, seen.rows(seen.largest(len(sources)))


def published(gallery: IdentifiedPhotos, k: int, seed: int) -> tuple[FaceEmbeddings, float]:
    """Return what recognisers see of the face published for each photo, and the bound."""
    method, context = KSame(k=k), Context(seed=seed)
    release = release_of(Photos(), gallery, method.plan(gallery, context), method, Portraits(), context)
    output = {row.input: row.output for row in release.private.mapping}
    contents = [release.files[output[source.name]] for source in gallery.photos.sources]
    unlike = list(dict.fromkeys(contents))
    seen = embed_faces([Source(str(i), io.decode(data)) for i, data in enumerate(unlike)], RECOGNISERS)
    rows = seen.largest(len(unlike))
    return seen.rows(rows[[unlike.index(data) for data in contents]]), release.guarantee.bound


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_no_attack_breaks_it_over_ten_seeds(crowd, k):
    found, old = crowd
    who = found.faces.subject
    earlier = None
    for seed in range(10):
        new, bound = published(found, k, seed)
        for one in RECOGNISERS:
            codes = old.codes[one.name], new.codes[one.name]
            options = {"subjects": who, "recogniser": one, "bound": bound}
            results = [naive(*codes, **options), reverse(*codes, **options)]
            if earlier is not None:  # the method run afresh by the attacker, with another seed
                results.append(parrot(*codes, lambda _, mine=earlier.codes[one.name]: mine, **options))
            for result in results:
                assert result.verdict != "broken"
                assert result.rank1 <= bound + 1e-12 or result.attack == "reverse"
        earlier = new
    assert np.isfinite(earlier.points).all(), "every published face is found"
