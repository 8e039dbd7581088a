"""A k-anonymous portrait release is never broken, whoever is in it and whoever attacks [N thm. 2]."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from ksame import io
from ksame.analysis.identify import by_prefix
from ksame.attack import naive, parrot, reverse
from ksame.attack.embed import FaceEmbeddings, embed_faces
from ksame.attack.recognisers import choose_recognisers
from ksame.io.sources import Source, find_sources
from ksame.pipeline import deidentify

pytestmark = pytest.mark.weights
ATTACKERS, _ = choose_recognisers("eigenfaces,lbp,hog")
SEEDS = 5  # releases, and as many imitations


@pytest.fixture(scope="module")
def photos(people) -> tuple[list[Source], FaceEmbeddings]:
    sources = find_sources(people)
    faces = embed_faces(sources, ATTACKERS)
    return sources, faces.rows(faces.largest(len(sources)))


def draw_people(sources: list[Source], k: int, seed: int) -> list[int]:
    """Return the photos of some people, at least k, in a random order."""
    rng = np.random.default_rng(seed)
    person = np.array(by_prefix([source.name for source in sources]))
    everyone = np.unique(person)
    count = int(rng.integers(k, len(everyone)))
    chosen = np.flatnonzero(np.isin(person, rng.permutation(everyone)[:count]))
    return rng.permutation(chosen).tolist()


def publish(photos: list[Source], k: int, seed: int) -> tuple[FaceEmbeddings, list[str], float]:
    """Return the embeddings of the face published for each photo, these faces, and the bound."""
    subjects = by_prefix([photo.name for photo in photos])
    release = deidentify([photo.pixels for photo in photos], k, subjects=subjects, seed=seed)
    output = {row.input: row.output for row in release.private.mapping}
    contents = [release.files[output[source.name]] for source in photos]
    distinct = list(dict.fromkeys(contents))
    faces = embed_faces([Source(str(i), io.decode(data)) for i, data in enumerate(distinct)], ATTACKERS)
    rows = faces.largest(len(distinct))
    digests = [hashlib.sha256(data).hexdigest() for data in contents]
    return faces.rows(rows[[distinct.index(data) for data in contents]]), digests, release.guarantee.bound


@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_attack_breaks_it_whoever_is_in_it_in_whatever_order(photos, k):
    """The attacker runs the method anew on other people in another order, so on other groups."""
    sources, embedded = photos
    unequal = 0
    for seed in range(SEEDS):
        rows = draw_people(sources, k, seed)
        mine = [sources[row] for row in rows]
        subjects = by_prefix([source.name for source in mine])
        new, digests, bound = publish(mine, k, seed)
        assert np.isfinite(new.points).all(), "every published face is found"
        # the attacker has photos of everyone in the release and of others, in another order
        more = draw_people(sources, k, SEEDS + seed)
        shuffled = np.random.default_rng(seed).permutation(sorted({*rows, *more}))
        known = [sources[row] for row in shuffled]
        imitated, others, _ = publish(known, k, SEEDS + seed)
        theirs = by_prefix([source.name for source in known])
        unequal += set(digests) != set(others)
        old = embedded.rows(np.array(rows))
        for one in ATTACKERS:
            codes = old.codes[one.name], new.codes[one.name]
            options = {"recogniser": one, "bound": bound}
            results = [
                naive(*codes, subjects=subjects, **options),
                reverse(*codes, subjects=subjects, **options),
                parrot(
                    imitated.codes[one.name],
                    codes[1],
                    lambda faces: faces,
                    subjects=theirs,
                    released_subjects=subjects,
                    **options,
                ),
            ]
            for result in results:
                assert result.verdict != "broken"
                assert result.rank1 <= bound + 1e-12 or result.attack == "reverse"
    assert unequal >= SEEDS // 2, "the imitations differ from the releases"
