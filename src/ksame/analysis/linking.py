"""Link faces of the same person by the fused scores of several recognisers, where no subjects are given.

Splitting one person into two subjects breaks the guarantee, because k would count that person twice.
Joining two people only costs groups. So there are two thresholds: **strict** links join faces of one person,
**loose** links join faces that may be of one person. Linked faces are one subject either way: kept in one
group and counted as one. The loose threshold is set by its cost: as loose as a few per cent of the subjects
allow. A chain of loose links is cut only if two recognisers agree that its ends are different people.

Two faces in one photo may be linked: mirrors, posters and collages show one person twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError

__all__ = ["Evidence", "Linked", "ScoreLine", "link_people"]

STRICT_RATE = 1e-6  # share of impostor pairs that are linked strictly
LOOSEST_RATE = 1e-2  # share of impostor pairs at the loosest threshold
SMALL_SET_RATE = 3e-3  # the same for links whose cost is not counted
EXPECTED_LOSS = 0.05  # share of subjects that these may cost among strangers, by the calibrated rates
COUNTED_LOSS = 0.08  # share of subjects that all loose links may cost, counted
SIZE_PENALTY = 1.0  # times ln(faces of the smaller cluster): many faces without a strict link say more
DIFFERENT = -1.0  # mean standard score above which a recogniser takes the ends of a chain for two people
OPINIONS = 2  # recognisers that must agree before a chain is cut
# Distances are normalised by the distances of each face to strangers (s-norm): a blurred or grey face is near
# to everybody. Faces with a score above STRANGER are strangers. The distances of the calibration set count
# as much as USUAL_FACES faces, for small sets.
STRANGER = -4.0
USUAL_FACES = 20
_CELLS = 4_000_000  # in a block of the distance matrix
_ROUNDING = 1e-7  # tolerance; it may only add links, which is the safe side


@dataclass(frozen=True, eq=False)
class Evidence:
    """The embeddings of all faces by one recogniser.

    Parameters
    ----------
    embeddings : (n, d) array
        Its embedding of each face.
    mean, spread : float
        Mean and standard deviation of its distances between strangers.
    weight : float
        How much it counts beside other recognisers.
    same_person : float, optional
        Two faces at most this far apart are linked strictly, whatever other recognisers say.
    """

    embeddings: FloatArray
    mean: float
    spread: float
    weight: float = 1.0
    same_person: float | None = None

    def __post_init__(self) -> None:
        """Check and convert."""
        x = np.asarray(self.embeddings)
        if x.ndim != 2 or not np.isfinite(x).all():
            raise UsageError(f"embeddings must be a finite (n, d) array. Got shape {x.shape}.")
        if not (math.isfinite(self.mean) and self.spread > 0 and self.weight > 0):
            raise UsageError("Evidence needs a finite mean, and a spread and a weight above 0.")
        object.__setattr__(self, "embeddings", x.astype(np.float64))


class ScoreLine(NamedTuple):
    """Which score a given share of the pairs of strangers reaches: a straight line over its logarithm."""

    intercept: float
    per_decade: float

    def at(self, rate: float) -> float:
        """Return the score that this share of pairs of strangers has or is below."""
        return self.intercept + self.per_decade * math.log10(rate)


class Linked(NamedTuple):
    """A subject for each face, and whether a loose link was needed for that subject."""

    subjects: list[str]
    loose: NDArray[np.bool_]


def link_people(
    evidence: Sequence[Evidence], line: ScoreLine, *, names: Sequence[str | None] | None = None
) -> Linked:
    """Return a subject for each face; faces that may be one person's are one subject.

    The score of two faces is the weighted mean over recognisers of how many standard deviations their
    distance is from the distances that each of the two has to strangers: s-norm, as in speaker
    recognition. Strangers have a score about 0, photos of one person a score far below it.

    Parameters
    ----------
    evidence : sequence of Evidence
        One for each recogniser, with a row for each face.
    line : ScoreLine
        Which scores strangers reach.
    names : sequence of str or None, optional
        Who a face is, as far as somebody said so. These are kept: a face without a name takes that of
        the person it is linked to, and no link joins two names.

    Examples
    --------
    >>> faces = Evidence(np.array([[0.0], [9.0], [0.5], [1.0]]), mean=8.0, spread=1.0)
    >>> link_people([faces], ScoreLine(0.0, 1.0)).subjects
    ['person-001', 'person-002', 'person-001', 'person-001']
    """
    if not evidence or len({len(one.embeddings) for one in evidence}) != 1:
        raise UsageError("Each recogniser must have an embedding of every face.")
    n = len(evidence[0].embeddings)
    known = list(names) if names is not None else [None] * n
    if len(known) != n:
        raise UsageError(f"Each face needs a name or None: {n}. Got {len(known)}.")
    if not n:
        return Linked([], np.zeros(0, bool))
    faces = _Clusters.of_faces(evidence)
    person, name = _strict(known, faces.strict_links(line.at(STRICT_RATE)))
    clusters = faces.pooled(person)
    group, linked = _join_loosely(clusters, line, name)
    named = {int(group[c]): str(one) for c, one in enumerate(name) if one is not None}
    return Linked(_named(group[person], named), linked[group][person])


class Links(NamedTuple):
    """Pairs of faces or of sets of faces, best first."""

    a: IntArray
    b: IntArray
    score: FloatArray


@dataclass(eq=False)
class _Clusters:
    """Sets of faces, by what their mean distances are computed from; at first each face is one."""

    size: FloatArray  # (c,)
    weight: FloatArray  # (r,) sums to 1
    centre: list[FloatArray]  # of each recogniser: (c, d) mean embedding
    square: list[FloatArray]  # (c,) mean squared length
    usual: list[FloatArray]  # (c,) mean distance to strangers
    spread: list[FloatArray]  # (c,) its standard deviation
    same_person: list[float | None]

    @classmethod
    def of_faces(cls, evidence: Sequence[Evidence]) -> Self:
        """Return each face as a set of its own, compared with strangers among the others."""
        n, weight = len(evidence[0].embeddings), np.array([one.weight for one in evidence])
        faces = cls(
            np.ones(n),
            weight / weight.sum(),
            [one.embeddings for one in evidence],
            [(one.embeddings**2).sum(axis=1) for one in evidence],
            [np.full(n, one.mean) for one in evidence],
            [np.full(n, one.spread) for one in evidence],
            [one.same_person for one in evidence],
        )
        usual, spread = zip(*(_stats(faces, evidence)), strict=True)
        faces.usual, faces.spread = list(usual), list(spread)
        return faces

    def pooled(self, label: IntArray) -> _Clusters:
        """Return the sets of those that have one label, 0, 1, ..."""
        size: FloatArray = np.bincount(label, self.size).astype(np.float64)

        def mean(values: FloatArray) -> FloatArray:
            total = np.zeros((len(size), *values.shape[1:]))
            np.add.at(total, label, values * (self.size if values.ndim == 1 else self.size[:, None]))
            pooled: FloatArray = total / (size if values.ndim == 1 else size[:, None])
            return pooled

        centre, square, usual, spread = (
            [mean(values) for values in part] for part in (self.centre, self.square, self.usual, self.spread)
        )
        return _Clusters(size, self.weight, centre, square, usual, spread, self.same_person)

    def standard(
        self, rows: slice | IntArray, columns: slice | IntArray
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the mean distances by each recogniser between rows and columns, and their standard scores.

        |a - b|^2 in the mean over two sets is their mean squared lengths less twice the product of
        their means: no pair of faces has to be looked at.
        """
        for centre, square, usual, spread in zip(
            self.centre, self.square, self.usual, self.spread, strict=True
        ):
            distance = square[rows, None] + square[None, columns] - 2 * (centre[rows] @ centre[columns].T)
            np.sqrt(np.maximum(distance, 0, out=distance), out=distance)
            score = distance * (0.5 / spread[rows, None] + 0.5 / spread[None, columns])
            score -= 0.5 * usual[rows, None] / spread[rows, None]
            score -= 0.5 * usual[None, columns] / spread[None, columns]
            yield distance, score

    def blocks(self) -> Iterator[slice]:
        """Yield rows of the matrix of all pairs that fit in memory."""
        step = max(1, _CELLS // len(self.size))
        yield from (slice(start, start + step) for start in range(0, len(self.size), step))

    def strict_links(self, limit: float) -> Links:
        """Return the pairs of faces that are one person's by their score or by one recogniser alone."""
        return self._links(limit, strict=True)

    def loose_links(self, limit: float) -> Links:
        """Return the pairs of sets that may be one person's, by a score that is higher for large sets."""
        return self._links(limit, strict=False)

    def _links(self, limit: float, *, strict: bool) -> Links:
        """Return pairs a < b and their scores, best first."""
        found, size = [], SIZE_PENALTY * np.log(self.size)
        for rows in self.blocks():
            rest = slice(rows.start, None)
            score = np.minimum(size[rows, None], size[None, rest])
            near = np.zeros(score.shape, bool)
            for weight, same, (distance, z) in zip(
                self.weight, self.same_person, self.standard(rows, rest), strict=True
            ):
                score += weight * z
                if strict and same is not None:
                    near |= distance <= same + _ROUNDING
            a, b = np.nonzero((score <= limit) | near)
            keep = a < b
            found.append((a[keep] + rows.start, b[keep] + rows.start, score[a[keep], b[keep]]))
        a, b, score = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.argsort(score, kind="stable")
        return Links(a[order], b[order], score[order])

    def join(self, one: int, other: int) -> None:
        """Put the second set into the first; the second must not be used any more."""
        share = self.size[other] / (self.size[one] + self.size[other])
        for part in (self.centre, self.square, self.usual, self.spread):
            for values in part:
                values[one] += share * (values[other] - values[one])
        self.size[one] += self.size[other]

    def differ(self, one: int, other: int) -> bool:
        """Whether enough recognisers take two sets for two people."""
        pair = np.array([one]), np.array([other])
        return sum(float(z[0, 0]) > DIFFERENT for _, z in self.standard(*pair)) >= OPINIONS


def _stats(faces: _Clusters, evidence: Sequence[Evidence]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield for each recogniser the mean and the spread (n,) of each face's distances to strangers."""
    n = len(faces.size)
    count, total, squares = np.zeros(n), np.zeros((len(evidence), n)), np.zeros((len(evidence), n))
    for rows in faces.blocks():
        standard = [z for _, z in faces.standard(rows, slice(None))]
        far = sum(w * z for w, z in zip(faces.weight, standard, strict=True)) > STRANGER
        far[np.arange(len(far)), np.arange(n)[rows]] = False
        count[rows] = far.sum(axis=1)
        for r, z in enumerate(standard):
            total[r, rows], squares[r, rows] = (z * far).sum(axis=1), (z**2 * far).sum(axis=1)
    for r, one in enumerate(evidence):
        mean = total[r] / (count + USUAL_FACES)  # in the usual spreads about the usual mean
        variance = squares[r] - 2 * mean * total[r] + count * mean**2 + USUAL_FACES
        spread = np.sqrt(np.maximum(variance, 0) / (count + USUAL_FACES))
        yield one.mean + one.spread * mean, one.spread * np.maximum(spread, 1e-9)


def _strict(names: Sequence[str | None], links: Links) -> tuple[IntArray, list[str | None]]:
    """Return the person of each face, 0, 1, ..., by strict links, and each person's name.

    A face without a name takes that of the face with the best link, and may then pass it on.
    """
    n = len(names)
    who = np.array([None if name is None else str(name) for name in names], dtype=object)
    free = np.array([name is None for name in names], dtype=bool)
    a, b, score = (np.concatenate(pair) for pair in (links[:2], links[1::-1], (links.score, links.score)))
    while (edge := free[a] & ~free[b]).any():  # layer by layer: the faces next to a named one
        face, near = a[edge], b[edge]
        order = np.argsort(score[edge], kind="stable")
        face, nearest = np.unique(face[order], return_index=True)
        who[face], free[face] = who[near[order][nearest]], False
    inner = free[a]  # a link of a face that is still free leads to another such face
    graph = coo_array((np.ones(int(inner.sum()), np.int8), (a[inner], b[inner])), shape=(n, n))
    loose = connected_components(graph, directed=False)[1]
    key = [(None, int(loose[i])) if free[i] else (who[i], 0) for i in range(n)]
    number = {one: i for i, one in enumerate(dict.fromkeys(key))}
    return np.array([number[one] for one in key], dtype=np.intp), [name for name, _ in number]


def _join_loosely(
    clusters: _Clusters, line: ScoreLine, name: Sequence[str | None]
) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return the subject of each set of faces, and which subjects hold a loose link.

    Best links first: all that few strangers reach, then as many as may be paid for.
    """
    c = len(clusters.size)
    free = line.at(min(SMALL_SET_RATE, 2 * EXPECTED_LOSS / max(c - 1, 1)))
    paid = math.floor(COUNTED_LOSS * c)
    root, who, linked, joined = list(range(c)), list(name), np.zeros(c, bool), 0
    for a, b, score in zip(*clusters.loose_links(line.at(LOOSEST_RATE)), strict=True):
        if score > free and joined >= paid:
            break
        one, other = sorted((_root(root, int(a)), _root(root, int(b))))
        if one == other or (who[one] is not None and who[other] is not None):
            continue
        if (linked[one] or linked[other]) and clusters.differ(one, other):
            continue  # the chain is cut
        clusters.join(one, other)
        root[other], who[one], linked[one], joined = one, who[one] or who[other], True, joined + 1
    return np.array([_root(root, i) for i in range(c)], dtype=np.intp), linked


def _root(root: list[int], i: int) -> int:
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


def _named(groups: IntArray, names: dict[int, str]) -> list[str]:
    """Return the given names, and others by first appearance, none of which is given."""
    taken, every = set(names.values()), dict.fromkeys(groups.tolist())
    width = max(3, len(str(len(groups) + len(taken))))
    fresh = (f"person-{i:0{width}}" for i in range(1, len(groups) + len(taken) + 1))
    free = (name for name in fresh if name not in taken)
    called = {group: names[group] if group in names else next(free) for group in every}
    return [called[group] for group in groups.tolist()]
