"""What the experiments of Gross et al. share: draws, levels of de-identification, classifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from ksame.attack.recognisers import Recogniser
from ksame.attack.score import Train
from ksame.core.arrays import FloatArray, IntArray
from ksame.core.geometry import FRAME
from ksame.core.partition_type import Partition
from ksame.lab.experiments.base import ExperimentData
from ksame.lab.experiments.face_images import UInt8Images, Window, attackers, cmc_percent, eigenfaces
from ksame.partition import ksame, select
from ksame.render.mean_face import draw_mean_faces
from ksame.replace import centroid
from ksame.spaces import AppearanceSpace

SEED, DRAWS, FOLDS = 2005, 5, 5
FACE_WIDTH_PX = 64  # px across a face


class GrossSetup(NamedTuple):
    """All photos, and what they look like through one window."""

    data: ExperimentData
    window: Window
    cut: UInt8Images
    networks: Sequence[Recogniser]

    @classmethod
    def of(cls, data: ExperimentData, *, across: float = FACE_WIDTH_PX, grey: bool = False) -> GrossSetup:
        """Cut the faces."""
        window = Window.of(data, across=across)
        return cls(data, window, window.cut(data.faces.rgb, grey=grey), attackers())

    @property
    def subjects(self) -> NDArray[Any]:
        """Who each photo shows."""
        return self.data.faces.subject

    @property
    def smiles(self) -> NDArray[np.bool_]:
        """Which photos smile."""
        smiling: NDArray[np.bool_] = self.data.faces.labels["expression"] == "smiling"
        return smiling


class RandomSplit(NamedTuple):
    """One random choice: who trains the eigenspace, and which photos are gallery and probes."""

    gallery: IntArray  # (n,) rows of the set
    probes: IntArray  # (n,) the other photos of the same people, in the same order
    train: Train  # eigenfaces by Mahalanobis distance [G5 3.1]
    seed: int


class DeidentifiedFaces(NamedTuple):
    """Faces de-identified to some degree, and which of them are one."""

    images: UInt8Images
    groups: IntArray


def random_splits(lab: GrossSetup, *, share: float, apart: bool) -> list[RandomSplit]:
    """Choose five times.

    Parameters
    ----------
    lab : Lab
        The set.
    share : float
        Part of the people whose originals train the eigenspace.
    apart : bool
        These are neither in the gallery nor among the probes, who all smile [G6 5.2]. Otherwise everybody
        is in both, and every second probe smiles, one photo of each person [G5 4.1].
    """
    order = np.argsort(lab.subjects, kind="stable")
    neutral, smiling = order[~lab.smiles[order]], order[lab.smiles[order]]
    made = []
    for seed in range(SEED, SEED + DRAWS):
        mixed = np.random.default_rng(seed).permutation(len(neutral))
        trainers = mixed[: max(3, round(share * len(mixed)))]
        rows = np.concatenate([neutral[trainers], smiling[trainers]])
        left = np.setdiff1d(mixed, trainers) if apart else np.sort(mixed)
        first = np.ones(len(left), bool) if apart else np.isin(left, mixed[::2])
        made.append(
            RandomSplit(
                gallery=np.where(first, neutral[left], smiling[left]),
                probes=np.where(first, smiling[left], neutral[left]),
                train=eigenfaces(lab.window.pixels(lab.cut[rows]), mahalanobis=True),
                seed=seed,
            )
        )
    return made


def eigenface_cmc(
    lab: GrossSetup, draw: RandomSplit, probes: UInt8Images, gallery: UInt8Images | None = None
) -> FloatArray:
    """Return the CMC of eigenfaces in percent; by default the gallery is of originals."""
    known = lab.window.pixels(lab.cut[draw.gallery] if gallery is None else gallery)
    return cmc_percent(draw.train, known, lab.window.pixels(probes), lab.subjects[draw.gallery])


def network_rank1(
    lab: GrossSetup, draw: RandomSplit, probes: UInt8Images, known: Mapping[str, Any]
) -> dict[str, float]:
    """Return each network's rank-1 in percent."""
    who = lab.subjects[draw.gallery]
    return {
        net.name: float(cmc_percent(net.train, known[net.name], lab.window.codes(net, probes), who)[0])
        for net in lab.networks
    }


def gallery_codes(lab: GrossSetup, images: UInt8Images) -> dict[str, NDArray[Any]]:
    """Return a gallery's codes for each network."""
    return {net.name: lab.window.codes(net, images) for net in lab.networks}


MakeCallback = Callable[[IntArray, int, int], DeidentifiedFaces]
"""From rows of the set, a level and a seed to faces de-identified to that level."""


def unaltered(lab: GrossSetup, rows: IntArray, level: int, seed: int) -> DeidentifiedFaces:
    """Return faces as they are."""
    return DeidentifiedFaces(lab.cut[rows], np.arange(len(rows)))


def blurred(lab: GrossSetup, rows: IntArray, sigma: int, seed: int) -> DeidentifiedFaces:
    """Return faces blurred by a Gaussian [G5 4.2].

    Sigma is its variance, as [G5 5.2] has it: [G5 4.2] calls it the standard deviation, but then nobody
    could be named at 25.
    """
    strength = np.sqrt(sigma) / (FRAME.eye_distance * lab.window.scale)
    return DeidentifiedFaces(
        lab.window.altered(lab.cut[rows], "blur", strength=strength), np.arange(len(rows))
    )


def pixelated(lab: GrossSetup, rows: IntArray, p: int, seed: int) -> DeidentifiedFaces:
    """Return faces in blocks of p x p pixels [G5 4.2]."""
    return DeidentifiedFaces(
        lab.window.altered(lab.cut[rows], "pixelate", strength=FACE_WIDTH_PX / p), np.arange(len(rows))
    )


def k_same(
    lab: GrossSetup, rows: IntArray, k: int, seed: int, label: NDArray[Any] | None = None
) -> DeidentifiedFaces:
    """Return the means of k nearest faces [G5 alg. 4.1]; with a label only of equal ones [G5 alg. 4.2]."""
    x = lab.window.pixels(lab.cut[rows])
    groups = _groups(x, k, seed, None if label is None else label[rows])
    mean, _ = centroid(x, groups)
    _, firsts = np.unique(groups.labels, return_index=True)
    return DeidentifiedFaces(lab.window.images(mean[firsts])[groups.labels], groups.labels)


def k_same_m(lab: GrossSetup, rows: IntArray, k: int, seed: int, model: AppearanceSpace) -> DeidentifiedFaces:
    """Return the means of k nearest faces in the appearance model [G6 alg. 4.1], as portraits draw them."""
    faces = lab.data.faces[rows]
    gamma = model.encode(faces)
    groups = _groups(gamma, k, seed, None)
    members = [np.flatnonzero(groups.labels == group) for group in range(len(groups))]
    drawn = draw_mean_faces(model, faces, members)
    images = lab.window.cut(np.stack([face.rgb for face in drawn]))
    return DeidentifiedFaces(images[groups.labels], groups.labels)


def _groups(codes: FloatArray, k: int, seed: int, label: NDArray[Any] | None) -> Partition:
    """Return k-Same's groups, of all faces or of those with equal labels."""
    if label is None:
        return ksame(codes, k, rng=seed)
    return select(codes, k, label=label, partition="ksame", rng=seed, small="merge")


def cross_validated_accuracy(
    x: FloatArray, y: NDArray[np.bool_], groups: IntArray, *, seed: int, rbf: bool = False
) -> float:
    """Return how many of 100 faces an SVM puts in the right class, in 5-fold cross-validation [G5 5.3].

    Parameters
    ----------
    x : (n, d)
        Pixels.
    y : (n,) bool
        The class of the person behind each face.
    groups : (n,)
        Faces of one group are in one fold; otherwise the same image would be in training and test set.
    seed : int
        Of the folds.
    rbf : bool
        Take a radial kernel [G6 5.3], else a linear one.
    """
    names, which = np.unique(groups, return_inverse=True)
    share = np.bincount(which, y) / np.bincount(which)
    order = np.lexsort((np.random.default_rng(seed).permutation(len(names)), share))
    fold = np.empty(len(names), np.intp)
    fold[order] = np.arange(len(names)) % FOLDS  # every fold has its part of each class
    fold = fold[which]
    centred = (x - x.mean(axis=0)) / 255
    kernel = centred @ centred.T  # (n, n)
    if rbf:
        kernel = np.exp(-cdist(centred, centred, "sqeuclidean") / max(np.trace(kernel) / len(x), 1e-9))
    right = 0
    for test in (fold == number for number in range(FOLDS)):
        answer = _svm(kernel[np.ix_(~test, ~test)], y[~test], kernel[np.ix_(test, ~test)])
        right += int((answer == y[test]).sum())
    return 100 * right / len(x)


def _svm(known: FloatArray, y: NDArray[np.bool_], unknown: FloatArray) -> NDArray[np.bool_]:
    """Return the classes of unknown faces, given kernels (m, m) and (t, m)."""
    if y.all() or not y.any() or not len(unknown):
        return np.full(len(unknown), y.all())
    answer: NDArray[np.bool_] = SVC(kernel="precomputed", C=10).fit(known, y).predict(unknown)
    return answer


def classification_accuracy(
    lab: GrossSetup, level: DeidentifiedFaces, y: NDArray[np.bool_], seed: int, *, rbf: bool = False
) -> tuple[float, float]:
    """Return the accuracy with folds as in the paper, and with folds that share no image."""
    x = lab.window.pixels(level.images)
    return (
        cross_validated_accuracy(x, y, np.arange(len(x)), seed=seed, rbf=rbf),
        cross_validated_accuracy(x, y, level.groups, seed=seed, rbf=rbf),
    )


def tasks(lab: GrossSetup) -> dict[str, NDArray[np.bool_]]:
    """Return the classes of each photo that the set knows."""
    tasks = {"expression": lab.smiles}
    gender = lab.data.faces.labels.get("gender", np.zeros(0))
    return tasks | ({"gender": gender == np.unique(gender)[0]} if len(np.unique(gender)) == 2 else {})
