"""Build the identity pool [S 7.3, 8.3.4]: synthetic faces, each with a distant synthetic counterpart.

A person's new face in a video is their own plus the difference of the two. No real person's face is
used, so that a pool may be published with the program.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray, RandomState
from ksame.core.errors import CannotGuarantee, UsageError
from ksame.core.geometry import FRAME, five_points
from ksame.methods.shift.pool.code_generator import CodeGenerator, sample_conditions
from ksame.methods.shift.pool.identity_pool import Pool
from ksame.models.detectors import detect
from ksame.models.landmarks import predict_meshes
from ksame.models.recognisers import RECOGNISERS, EmbeddingNetwork, default_recogniser
from ksame.render.portrait import Surrogate, draw_portrait
from ksame.replace import kdiff
from ksame.spaces import AppearanceSpace

SMILE_CONDITION = -0.9  # neutral expression [S 8.4.3 (a)]
# Deviation: the paper takes faces that score above 0.6 [S 8.4.3 (c)], which is meaningful for LSGAN only;
# this implementation takes the better half of those sampled for the same conditions.
MIN_DISCRIMINATOR_RANK = 0.5
MIN_PRESENCE = 0.5  # confidence below which the landmark network finds no face
MAX_LANDMARK_ERROR = 0.065  # RMS distance of detected landmarks from those drawn, in interocular distances
# Least distance of two pool faces, as a share of the recogniser's threshold for one person; one in a thousand
# pairs of people is nearer. From a face to its de-identified counterpart it is the whole threshold.
MIN_DISTANCE_RATIO = 0.8
BATCH_SAMPLES = 512  # of which about sixty pass the filters


class PoolCandidates(NamedTuple):
    """Faces that may be added to the pool."""

    codes: FloatArray  # (n, d)
    labels: FloatArray  # (n, 3)
    seen: FloatArray  # (n, e): a recogniser's embeddings

    def at(self, rows: NDArray[Any]) -> PoolCandidates:
        """Return the candidates of some rows."""
        return PoolCandidates(*(part[rows] for part in self))


RefuseCallback = Callable[[FloatArray], NDArray[np.bool_]]


def make_pool(
    size: int,
    *,
    generator: CodeGenerator | None = None,
    space: AppearanceSpace | None = None,
    k: int = 2,
    seed: RandomState = None,
    recogniser: str | None = None,
    refuse: RefuseCallback | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Build a pool: sample, filter, and de-identify once by k-Diff-furthest [S 8.3.4].

    Parameters
    ----------
    size : int
        Number of identities, at least 2k.
    generator : Generator, optional
        By default the bundled one.
    space : AppearanceSpace, optional
        The model of its codes; by default the bundled one.
    k : int
        Greatest number of faces in a cluster of k-Diff-furthest. In this many dimensions clusters of more
        than two overlap, so that a larger k changes little.
    seed : int, Generator or None
        None draws from the operating system.
    recogniser : str, optional
        The recogniser for which the faces must differ; by default the best available.
    refuse : callable, optional
        Maps a recogniser's embeddings (n, e) to faces (n,) that are too near to a real face: for use with
        the photos that the generator was trained on.
    progress : callable, optional
        Called with task, done and total.

    Raises
    ------
    CannotGuarantee
        If the generator does not produce enough different faces.
    """
    generator, space = generator or CodeGenerator.bundled(), space or AppearanceSpace.bundled()
    if generator.space != space.digest:
        raise UsageError("The generator was trained on another appearance model than the one given.")
    name, source = recogniser or default_recogniser(), np.random.default_rng(seed)
    if name not in RECOGNISERS:
        raise UsageError(f"recogniser must be one of {', '.join(RECOGNISERS)}. Got {name!r}.")

    def more() -> PoolCandidates:
        made = sample_candidates(BATCH_SAMPLES, generator, space, name, source)
        return made if refuse is None else made.at(~refuse(made.seen))

    note = _comparison_note(name, refuse is not None)
    return grow_pool(
        size, more, space, k=k, recogniser=name, note=note, rng=source, refuse=refuse, progress=progress
    )


def grow_pool(
    size: int,
    more: Callable[[], PoolCandidates],
    space: AppearanceSpace,
    *,
    k: int,
    recogniser: str,
    note: str,
    rng: np.random.Generator,
    refuse: RefuseCallback | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Collect candidates until there are enough distinct faces for a pool; de-identify them once.

    Parameters
    ----------
    size, space, k, recogniser, refuse, progress
        As for ``make_pool``.
    more : callable
        Return some candidates, possibly none.
    note : str
        One sentence on what was checked, stored with the pool.
    rng : Generator
        For k-Diff-furthest.
    """
    if k < 2 or size < 2 * k:
        raise UsageError(f"A pool needs at least 2k identities and k at least 2. Got {size}, k = {k}.")
    limit = RECOGNISERS[recogniser].same_person
    # the distance check rejects a third of the faces; de-identifying the others again would verify all again
    pool, want = PoolCandidates(*(np.zeros((0, n)) for n in (len(space.deviation), 3, 1))), size + size // 2
    for _ in range(20 + size // 5):
        new = more()
        both = (
            new if not len(pool.codes) else PoolCandidates(*map(np.concatenate, zip(pool, new, strict=True)))
        )
        pool = both.at(distinct_rows(both.seen, MIN_DISTANCE_RATIO * limit))
        if progress:
            progress("drawing faces", min(len(pool.codes), want), want)
        if len(pool.codes) < want:
            continue
        moved = deidentify_codes(pool.codes, pool.labels[:, 0] > 0, space, k, rng)
        good = np.flatnonzero(_accept_deidentified(pool.seen, moved, space, recogniser, refuse))[:size]
        if len(good) == size:
            return Pool(pool.codes[good], moved[good], pool.labels[good], k, space.digest, note)
        want = len(pool.codes) + 2 * (size - len(good))
    raise CannotGuarantee(
        f"The generator produced too few distinct faces for a pool of {size}: request a smaller one."
    )


def sample_candidates(
    n: int, generator: CodeGenerator, space: AppearanceSpace, recogniser: str, rng: np.random.Generator
) -> PoolCandidates:
    """Sample n faces and return those that pass the filters for pose and fidelity [S 8.3.4].

    Deviation: besides the discriminator, a detector and the landmark network must find the intended face:
    they were trained on far more faces than the discriminator.
    """
    c = sample_conditions(n, rng, smiling=SMILE_CONDITION)
    codes = generator.decode(rng.uniform(-1, 1, (n, generator.noise)), c)
    good = is_frontal(codes, space) & (generator.discriminator_rank(codes, c, rng) >= MIN_DISCRIMINATOR_RANK)
    codes, c = np.where(space.nuisance, 0.0, codes[good]), c[good]  # [S 7.3.2]
    found, seen = check_drawn_faces(codes, space, recogniser)
    return PoolCandidates(codes[found], c[found], seen)


def deidentify_codes(
    codes: FloatArray, male: NDArray[np.bool_], space: AppearanceSpace, k: int, rng: np.random.Generator
) -> FloatArray:
    """Return gamma_hat_d (n, d): k-Diff-furthest among women and among men, preserving skin tone.

    Deviations: [S 7.3.1] uses all faces and plain distances. Then most of a shift is brightness, which is
    visible but irrelevant to a recogniser. Therefore components are divided by their standard deviations,
    and the three directions that change the mean colour are excluded from the shift, like light [S 7.3.2].
    """
    deviation = space.deviation
    y = codes / deviation
    colour = np.where(space.nuisance, 0.0, mean_colour(space) * deviation)  # (3, d): nuisance is 0 anyway
    held, _ = np.linalg.qr(colour.T)  # (d, 3)
    inner = y - y @ held @ held.T
    classes = [male, ~male] if min(male.sum(), (~male).sum()) >= 2 * k else [np.ones(len(male), bool)]
    for rows in classes:
        new, _ = kdiff(inner[rows], k, rng=rng)
        y[rows] += new - inner[rows]
    moved: FloatArray = y * deviation
    return moved


def mean_colour(space: AppearanceSpace) -> FloatArray:
    """Return the change of a face's mean red, green and blue per unit of each component, (3, d)."""
    axes = space.texture_axes.reshape(len(space.texture_axes), -1, 3).mean(axis=1)  # (b, 3)
    colour: FloatArray = np.hstack([np.zeros((3, len(space.shape_axes))), axes.T.astype(np.float64)])
    return colour


def _accept_deidentified(
    seen: FloatArray, new: FloatArray, space: AppearanceSpace, recogniser: str, refuse: RefuseCallback | None
) -> NDArray[np.bool_]:
    """Return whose de-identified face is detected and matches neither its own nor a real face."""
    good, after = check_drawn_faces(new, space, recogniser)
    far = np.linalg.norm(after - seen[good], axis=1) > RECOGNISERS[recogniser].same_person
    good[good] = far if refuse is None else far & ~refuse(after)
    return good


def is_frontal(codes: FloatArray, space: AppearanceSpace) -> NDArray[np.bool_]:
    """Return which faces (n,) have a pose within one standard deviation of the mean [S 8.3.4].

    Deviation: not by the first two shape components but by those that correlate with measured pose.
    """
    pose = np.flatnonzero(space.nuisance[: len(space.shape_axes)])
    return np.asarray((np.abs(codes[:, pose]) <= space.deviation[pose]).all(axis=1))


def check_drawn_faces(
    codes: FloatArray, space: AppearanceSpace, recogniser: str
) -> tuple[NDArray[np.bool_], FloatArray]:
    """Draw faces; return which (n,) are detected where intended, and the embeddings of those."""
    net = RECOGNISERS[recogniser]
    with ThreadPoolExecutor() as workers:  # networks and drawing release the GIL
        views = list(workers.map(lambda code: _embed_code(code, space, net), codes))
    found = np.array([len(view) == 1 for view in views], dtype=bool)
    return found, np.concatenate([np.zeros((0, net.dimensions)), *views])


def _embed_code(code: FloatArray, space: AppearanceSpace, net: EmbeddingNetwork) -> FloatArray:
    """Return the embedding (1, e) of a drawn face; empty (0, e) if it is not detected where intended."""
    shape = space.shapes(code[None])[0] * space.detail.shape[1] / FRAME.width
    image = draw_portrait(Surrogate(space.decode(code[None])[0], shape))
    points, presence = predict_meshes(image, detect(image))
    if (
        len(points) != 1
        or presence[0] < MIN_PRESENCE
        or landmark_error(points[0], shape) >= MAX_LANDMARK_ERROR
    ):
        return np.zeros((0, net.dimensions))
    return net.codes(net.chips(image, shape[None]))


def landmark_error(points: FloatArray, shape: FloatArray) -> float:
    """Return the RMS distance of landmarks (468, 2) to others, in interocular distances."""
    eyes = five_points(shape)[:2]
    return float(np.sqrt(((points - shape) ** 2).sum(axis=1).mean()) / np.linalg.norm(eyes[1] - eyes[0]))


def distinct_rows(seen: FloatArray, least: float) -> IntArray:
    """Return rows that are at least ``least`` away from all rows returned before them.

    Examples
    --------
    >>> distinct_rows(np.array([[0.0], [0.4], [1.0], [1.3], [2.0]]), 0.5).tolist()
    [0, 2, 4]
    """
    kept: list[int] = []
    for row, one in enumerate(seen):
        if not kept or np.linalg.norm(seen[kept] - one, axis=1).min() >= least:
            kept.append(row)
    return np.array(kept, dtype=np.intp)


def _comparison_note(recogniser: str, refused: bool) -> str:
    """Return one sentence on what the faces were compared with."""
    limit = RECOGNISERS[recogniser].same_person
    note = (
        f"For {recogniser}, no two faces are nearer than {MIN_DISTANCE_RATIO * limit:.2f}, and no"
        f" de-identified face is within {limit:.2f} of its own"
    )
    if refused:
        return f"{note}; none is too near to a face of the generator's training set."
    return f"{note}; they were not compared with the generator's training set."
