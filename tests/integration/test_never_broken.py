"""A k-anonymous portrait release is never broken, whoever attacks and whatever the seed [N thm. 2]."""

from __future__ import annotations

import numpy as np
import pytest

from ksame import io
from ksame.analysis.identify import read_subject_hints
from ksame.analysis.photos import analyse_photos
from ksame.attack import naive, parrot, reverse
from ksame.attack.embed import FaceEmbeddings, embed_faces
from ksame.attack.recognisers import choose_recognisers
from ksame.io.sources import Source, find_sources
from ksame.pipeline.photos import IdentifiedPhotos, identify_photos, make_release

pytestmark = pytest.mark.weights
RECOGNISERS, _ = choose_recognisers("eigenfaces,lbp,hog")


@pytest.fixture(scope="module")
def crowd(people) -> tuple[IdentifiedPhotos, FaceEmbeddings]:
    sources = find_sources(people)
    found = identify_photos(analyse_photos(sources), read_subject_hints(sources, "prefix", 2), 2)
    seen = embed_faces(sources, RECOGNISERS)
    return found, seen.rows(seen.largest(len(sources)))


def published(gallery: IdentifiedPhotos, k: int, seed: int) -> tuple[FaceEmbeddings, float]:
    """Return what recognisers see of the face published for each photo, and the bound."""
    release = make_release(gallery, k, seed=seed)
    output = {row.input: row.output for row in release.private.mapping}
    contents = [release.files[output[source.name]] for source in gallery.found.sources]
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
