"""The identity pool [S 7.3, 8.3.4]: faces of nobody, each with a second face of nobody far from it.

A person's new face in a video is the own one plus the difference of the two: the pool gives the
direction. No real person's face takes part, so that a pool may be published with the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, Self

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core import CannotGuarantee, FloatArray, IntArray, RandomState, UsageError
from ksame.faces.detect import detect
from ksame.faces.landmarks import landmarks
from ksame.geometry import FRAME, five_points
from ksame.pool.generator import Generator, arrays, conditions, digest
from ksame.render import Surrogate, portrait
from ksame.replace import kdiff
from ksame.represent import AppearanceSpace
from ksame.represent.embedding import RECOGNISERS, Recogniser, default_recogniser, embed

SMILING = -0.9  # [S 8.4.3 (a)]: just neutral
# Deviation: the paper takes faces that score above 0.6 [S 8.4.3 (c)], which means something for LSGAN only;
# we take the better half of those made to the same conditions.
STANDING = 0.5
PRESENCE = 0.5  # below, the landmark network sees no face
OFF = 0.065  # of the distance between the eyes: as far as the mesh may see landmarks from where they are
# The least distance of two pool faces, as a share of the recogniser's threshold for one person; of one in a
# thousand pairs it is less. From a face to its de-identified one it is the whole threshold.
APART = 0.8
BATCH = 512  # samples at a time, of which the filters leave some sixty


@dataclass(frozen=True, eq=False)
class Pool:
    """Neutral, frontal faces that nobody has, and what k-Diff-furthest makes of each.

    Parameters
    ----------
    codes : (m, d)
        gamma_hat: components of light and pose are 0.
    deidentified : (m, d)
        gamma_hat_d, by k-Diff-furthest over the whole pool, once.
    labels : (m, 3)
        What each was to look like: male, young, smiling, in [-1, 1].
    k : int
        The most faces in one of its clusters.
    space : str
        The digest of the appearance model whose codes these are.
    checked : str
        What its faces were compared with, in one sentence.
    pictures : tuple of bytes
        The face of each as a picture file, on the model's mean shape and the canonical frame; or none. Such
        a face is worn as it is, so that its two codes are one.
    licence : str
        What its faces may not be used for, in one sentence, if there is such a thing.
    seen : mapping of str to (m, e)
        What recognisers make of the pictures: see ``shown_to``.
    """

    codes: FloatArray
    deidentified: FloatArray
    labels: FloatArray
    k: int
    space: str
    checked: str
    pictures: tuple[bytes, ...] = ()
    licence: str = ""
    seen: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that the arrays are parallel, and keep them from being changed."""
        m = len(self.codes)
        if self.codes.ndim != 2 or self.codes.shape != self.deidentified.shape or len(self.labels) != m:
            shapes = [a.shape for a in (self.codes, self.deidentified, self.labels)]
            raise UsageError(f"A pool has two codes and the labels of each face. Got {shapes}.")
        if len(self.pictures) not in (0, m):
            raise UsageError(f"A pool has a picture of each face, or none. Got {len(self.pictures)} of {m}.")
        if any(len(codes) != m for codes in self.seen.values()):
            raise UsageError("A pool has each recogniser's codes of all its faces, or none.")
        for array in (self.codes, self.deidentified, self.labels):
            array.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of identities."""
        return len(self.codes)

    @property
    def shifts(self) -> FloatArray:
        """The identity shift of each, gamma_hat_d - gamma_hat, (m, d) [S 7.4]."""
        return self.deidentified - self.codes

    @cached_property
    def digest(self) -> str:
        """The sha256 of all that the pool holds, by which a certificate names it."""
        return digest(self._arrays())

    def nearest(self, code: FloatArray, nuisance: NDArray[np.bool_] | None = None) -> IntArray:
        """Return all identities, from the nearest to a code (d,) on.

        Parameters
        ----------
        code : (d,)
            A person's code.
        nuisance : (d,) bool, optional
            Components of light and pose, which are set to 0 first [S 7.3.2].

        Examples
        --------
        >>> pool = Pool(np.eye(3), -np.eye(3), np.zeros((3, 3)), 2, "", "")
        >>> pool.nearest(np.array([9.0, 0.2, 0.3]), np.array([True, False, False])).tolist()
        [2, 1, 0]
        """
        plain = code if nuisance is None else np.where(nuisance, 0.0, code)
        return np.argsort(((self.codes - plain) ** 2).sum(axis=1), kind="stable")

    def picture(self, row: int) -> NDArray[np.uint8] | None:
        """Return a face (h, w, 3) on the mean shape; None in a pool of codes alone."""
        if not self.pictures:
            return None
        stored = cv2.imdecode(np.frombuffer(self.pictures[row], np.uint8), cv2.IMREAD_COLOR_RGB)
        if stored is None or stored.shape[:2] != FRAME.size(1)[::-1]:
            raise UsageError(f"Picture {row} of the pool is not one: make the pool again (ksame pool build).")
        return np.asarray(stored, np.uint8)

    def shown_to(self, recognisers: Sequence[str], shape: FloatArray) -> Self:
        """Return the pool with what recognisers make of its pictures.

        So it is known which faces are unlike somebody's before any is tried on. ``shape`` (468, 2) is that
        of the appearance model.
        """

        def codes(name: str) -> FloatArray:
            faces = [
                embed(name, face, shape[None])
                for face in map(self.picture, range(len(self)))
                if face is not None
            ]
            return np.concatenate(faces).astype(np.float64)

        return replace(self, seen={name: codes(name) for name in recognisers} if self.pictures else {})

    def _arrays(self) -> dict[str, NDArray[Any]]:
        columns = {name: getattr(self, name).astype(np.float32) for name in _COLUMNS}
        columns |= {name: np.array(getattr(self, name)) for name in ("k", "space", "checked")}
        if self.pictures:
            columns["pictures"] = np.frombuffer(b"".join(self.pictures), np.uint8)
            columns["ends"] = np.cumsum([len(one) for one in self.pictures])
            columns["licence"] = np.array(self.licence)
        return columns | {_SEEN + name: codes.astype(np.float16) for name, codes in self.seen.items()}

    def save(self, path: str | Path) -> None:
        """Write the pool as npz, in single precision, without pickle."""
        np.savez_compressed(path, allow_pickle=False, **self._arrays())

    @classmethod
    def shipped(cls, *, codes: bool = False) -> Self:
        """Return the pool that comes with the package; its card is models/README.md.

        The one with pictures, unless ``codes`` asks for the other or somebody left that file out of their
        copy for its licence.
        """
        models = resources.files("ksame") / "models"
        name = "pool.npz" if codes or not (models / "people.npz").is_file() else "people.npz"
        with resources.as_file(models / name) as path:
            return cls.load(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a pool; a file that is not one is refused in one sentence."""
        file = arrays(
            path,
            [*_COLUMNS, "k", "space", "checked"],
            "a pool of identities",
            also=[*_PICTURED, *(_SEEN + name for name in RECOGNISERS)],
        )
        columns = {name: file[name].astype(np.float64) for name in _COLUMNS}
        joined, ends = (file.get(name, np.zeros(0, np.uint8)) for name in _PICTURED[:2])
        return cls(
            **columns,
            k=int(file["k"]),
            space=str(file["space"]),
            checked=str(file["checked"]),
            pictures=tuple(part.tobytes() for part in np.split(joined, ends)[:-1]),
            licence=str(file.get("licence", "")),
            seen={
                name.removeprefix(_SEEN): codes.astype(np.float64)
                for name, codes in file.items()
                if name.startswith(_SEEN)
            },
        )


_SEEN = "seen by "
_PICTURED = ("pictures", "ends", "licence")
_COLUMNS = ("codes", "deidentified", "labels")


class Candidates(NamedTuple):
    """Faces that may become the pool's."""

    codes: FloatArray  # (n, d)
    labels: FloatArray  # (n, 3)
    seen: FloatArray  # (n, e): how a recogniser sees them

    def at(self, rows: NDArray[Any]) -> Candidates:
        """Return some of them."""
        return Candidates(*(part[rows] for part in self))


Refuse = Callable[[FloatArray], NDArray[np.bool_]]


def build(
    size: int,
    *,
    generator: Generator | None = None,
    space: AppearanceSpace | None = None,
    k: int = 2,
    seed: RandomState = None,
    recogniser: str | None = None,
    refuse: Refuse | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Make a pool of any size: sample, filter, and de-identify once by k-Diff-furthest [S 8.3.4].

    Parameters
    ----------
    size : int
        Number of identities, at least 2k.
    generator : Generator, optional
        By default the one in the box.
    space : AppearanceSpace, optional
        The model whose codes it makes; by default the one in the box.
    k : int
        The most faces in one of k-Diff-furthest's clusters. In so many dimensions clusters of more than two
        overlap, so that a larger k changes little.
    seed : int, Generator or None
        None is operating-system randomness.
    recogniser : str, optional
        By which the faces must differ from one another; by default the best at hand.
    refuse : callable, optional
        From a recogniser's view (n, e) of faces to those (n,) that are too near to some real face: for
        whoever has the photos that the generator learned from.
    watch : callable, optional
        Told of the progress.

    Raises
    ------
    CannotGuarantee
        If the generator does not make so many different faces.
    """
    generator, space = generator or Generator.shipped(), space or AppearanceSpace.shipped()
    if generator.space != space.digest:
        raise UsageError("The generator makes codes of another appearance model than the one given.")
    name, source = recogniser or default_recogniser(), np.random.default_rng(seed)
    if name not in RECOGNISERS:
        raise UsageError(f"There is no recogniser {name!r}: choose one of {', '.join(RECOGNISERS)}.")

    def more() -> Candidates:
        made = candidates(BATCH, generator, space, name, source)
        return made if refuse is None else made.at(~refuse(made.seen))

    said = _said(name, refuse is not None)
    return grown(size, more, space, k=k, recogniser=name, said=said, rng=source, refuse=refuse, watch=watch)


def grown(
    size: int,
    more: Callable[[], Candidates],
    space: AppearanceSpace,
    *,
    k: int,
    recogniser: str,
    said: str,
    rng: np.random.Generator,
    refuse: Refuse | None = None,
    watch: Callable[[str, int, int], None] | None = None,
) -> Pool:
    """Ask for more faces until a pool of different ones can be made, and de-identify it once.

    Parameters
    ----------
    size, space, k, recogniser, refuse, watch
        As for ``build``.
    more : callable
        Makes some candidates; it may make none.
    said : str
        What the pool is to say of what was checked.
    rng : Generator
        For k-Diff-furthest.
    """
    if k < 2 or size < 2 * k:
        raise UsageError(f"A pool has at least 2k identities, k at least 2. Got {size}, k = {k}.")
    limit = RECOGNISERS[recogniser].same_person
    # of three faces one is lost to _far; to move the others again would cost a look at each
    pool, want = Candidates(*(np.zeros((0, n)) for n in (len(space.deviation), 3, 1))), size + size // 2
    for _ in range(20 + size // 5):
        new = more()
        both = new if not len(pool.codes) else Candidates(*map(np.concatenate, zip(pool, new, strict=True)))
        pool = both.at(apart(both.seen, APART * limit))
        if watch:
            watch("making faces", min(len(pool.codes), want), want)
        if len(pool.codes) < want:
            continue
        moved = deidentified(pool.codes, pool.labels[:, 0] > 0, space, k, rng)
        good = np.flatnonzero(_far(pool.seen, moved, space, recogniser, refuse))[:size]
        if len(good) == size:
            return Pool(pool.codes[good], moved[good], pool.labels[good], k, space.digest, said)
        want = len(pool.codes) + 2 * (size - len(good))
    raise CannotGuarantee(
        f"The generator made too few faces that differ for a pool of {size}: ask for fewer."
    )


def candidates(
    n: int, generator: Generator, space: AppearanceSpace, recogniser: str, rng: np.random.Generator
) -> Candidates:
    """Sample n faces and return those that pass the filters for pose and fidelity [S 8.3.4].

    Deviation: besides the discriminator, a detector and the landmark network must see the face that was
    meant: they know faces that the discriminator's few training faces do not.
    """
    c = conditions(n, rng, smiling=SMILING)
    codes = generator.decode(rng.uniform(-1, 1, (n, generator.noise)), c)
    good = frontal(codes, space) & (generator.standing(codes, c, rng) >= STANDING)
    codes, c = np.where(space.nuisance, 0.0, codes[good]), c[good]  # [S 7.3.2]
    found, seen = look(codes, space, recogniser)
    return Candidates(codes[found], c[found], seen)


def deidentified(
    codes: FloatArray, male: NDArray[np.bool_], space: AppearanceSpace, k: int, rng: np.random.Generator
) -> FloatArray:
    """Return gamma_hat_d (n, d): k-Diff-furthest among women and among men, each keeping their skin tone.

    Deviations: [S 7.3.1] takes all faces, and plain distances. Then most of a shift is brightness, which a
    viewer sees and a recogniser does not. So components count by their standard deviations, and the three
    directions that change the face's mean colour are left out of the shift, as light is [S 7.3.2].
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
    """Return how each component changes the mean red, green and blue of a face, (3, d)."""
    axes = space.texture_axes.reshape(len(space.texture_axes), -1, 3).mean(axis=1)  # (b, 3)
    colour: FloatArray = np.hstack([np.zeros((3, len(space.shape_axes))), axes.T.astype(np.float64)])
    return colour


def _far(
    seen: FloatArray, new: FloatArray, space: AppearanceSpace, recogniser: str, refuse: Refuse | None
) -> NDArray[np.bool_]:
    """Return whose de-identified face is one, and is nobody's, neither one's own nor a real person's."""
    good, after = look(new, space, recogniser)
    far = np.linalg.norm(after - seen[good], axis=1) > RECOGNISERS[recogniser].same_person
    good[good] = far if refuse is None else far & ~refuse(after)
    return good


def frontal(codes: FloatArray, space: AppearanceSpace) -> NDArray[np.bool_]:
    """Return whose pose (n,) is within one standard deviation of the mean face's [S 8.3.4].

    Deviation: not the first two shape components but those that were measured to follow pose.
    """
    pose = np.flatnonzero(space.nuisance[: len(space.shape_axes)])
    return np.asarray((np.abs(codes[:, pose]) <= space.deviation[pose]).all(axis=1))


def look(codes: FloatArray, space: AppearanceSpace, recogniser: str) -> tuple[NDArray[np.bool_], FloatArray]:
    """Draw faces; return which (n,) are seen where they were meant to be, and how a recogniser sees those."""
    net = RECOGNISERS[recogniser]
    with ThreadPoolExecutor() as workers:  # networks and drawing leave Python's lock
        views = list(workers.map(lambda code: _seen(code, space, net), codes))
    found = np.array([len(view) == 1 for view in views], dtype=bool)
    return found, np.concatenate([np.zeros((0, net.dimensions)), *views])


def _seen(code: FloatArray, space: AppearanceSpace, net: Recogniser) -> FloatArray:
    """Return how a recogniser sees one face (1, e); nothing (0, e) if it is not where it was meant to be."""
    shape = space.shapes(code[None])[0] * space.detail.shape[1] / FRAME.width
    picture = portrait(Surrogate(space.decode(code[None])[0], shape))
    points, presence = landmarks(picture, detect(picture))
    if len(points) != 1 or presence[0] < PRESENCE or off(points[0], shape) >= OFF:
        return np.zeros((0, net.dimensions))
    return net.codes(net.chips(picture, shape[None]))


def off(points: FloatArray, shape: FloatArray) -> float:
    """Return how far landmarks (468, 2) lie from others: root mean square, in distances between the eyes."""
    eyes = five_points(shape)[:2]
    return float(np.sqrt(((points - shape) ** 2).sum(axis=1).mean()) / np.linalg.norm(eyes[1] - eyes[0]))


def apart(seen: FloatArray, least: float) -> IntArray:
    """Return rows that are at least so far from all rows returned before them.

    Examples
    --------
    >>> apart(np.array([[0.0], [0.4], [1.0], [1.3], [2.0]]), 0.5).tolist()
    [0, 2, 4]
    """
    kept: list[int] = []
    for row, one in enumerate(seen):
        if not kept or np.linalg.norm(seen[kept] - one, axis=1).min() >= least:
            kept.append(row)
    return np.array(kept, dtype=np.intp)


def _said(recogniser: str, refused: bool) -> str:
    """Return what the faces were compared with."""
    limit = RECOGNISERS[recogniser].same_person
    says = f"To {recogniser} no two faces are nearer than {APART * limit:.2f}, no de-identified face is"
    says += f" within {limit:.2f} of its own"
    if refused:
        return f"{says}, and none of either kind is too near to a face that the generator learned from."
    return f"{says}; they were not compared with the faces that the generator learned from."
