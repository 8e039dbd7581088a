"""A k-anonymous portrait release is never broken, whoever attacks and whatever the seed [N thm. 2]."""

from __future__ import annotations

import numpy as np
import pytest

from ksame import media
from ksame.attack import naive, parrot, reverse
from ksame.attack.recognise import choose
from ksame.attack.see import Seen, see
from ksame.gather import Source, gather, sources_of
from ksame.naming import read_names
from ksame.pipeline import People, people_of, release_of

pytestmark = pytest.mark.weights
RECOGNISERS, _ = choose("eigenfaces,lbp,hog")


@pytest.fixture(scope="module")
def crowd(people) -> tuple[People, Seen]:
    sources = sources_of(people)
    found = people_of(gather(sources), read_names(sources, "prefix", 2), 2)
    seen = see(sources, RECOGNISERS)
    return found, seen.rows(seen.largest(len(sources)))


def published(crowd: People, k: int, seed: int) -> tuple[Seen, float]:
    """Return what recognisers see of the face published for each photo, and the bound."""
    release = release_of(crowd, k, seed=seed)
    output = {row.input: row.output for row in release.private.mapping}
    contents = [release.files[output[source.name]] for source in crowd.found.sources]
    unlike = list(dict.fromkeys(contents))
    seen = see([Source(str(i), media.decode(data)) for i, data in enumerate(unlike)], RECOGNISERS)
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
