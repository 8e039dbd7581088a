"""Eyes, brows and mouth of a new face: the features that move in speech, smiles and blinks."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.geometry import BROWS, INNER_LIPS, LEFT_EYE, OUTER_LIPS, RIGHT_EYE, similarity, transform

FloatImage = NDArray[np.float32]

EYE_POINTS = [*LEFT_EYE, *RIGHT_EYE]
EYE_CORNERS = [[eye[0], eye[8]] for eye in (LEFT_EYE, RIGHT_EYE)]
MOUTH_POINTS = [*INNER_LIPS, *OUTER_LIPS]
FEATURES = ([*LEFT_EYE, *BROWS[0]], [*RIGHT_EYE, *BROWS[1]], MOUTH_POINTS)
_HALF = len(INNER_LIPS) // 2
# From corner to corner; points at equal positions of the two lists face each other.
UPPER_LIP, LOWER_LIP = list(INNER_LIPS[1:_HALF]), list(INNER_LIPS[:_HALF:-1])
_LIDS = [(list(eye[:8:-1]), list(eye[1:8])) for eye in (LEFT_EYE, RIGHT_EYE)]  # upper and lower, likewise

# Gains of the movement of new lids and brows over the old ones: the blendshape network measures less than is
# drawn. It measures 0.7 to 0.8 of raising and lowering brows, 0.1 to 0.9 of knitting them (least where they
# are knit most), and attributes some movement of lids to brows. On three people with five faces each, raised
# and lowered brows correlated at 0.84 and 0.82 with gains of 1.8 and 2.2, at 0.83 and 0.86 with 1.6 and 3.5
# (measured on frames before video encoding).
LID_GAIN, BROW_RAISE_GAIN, BROW_KNIT_GAIN = 1.25, 1.6, 3.5
FEATURE_REACH_PX = 8.0  # px of the model's frame: points this near to a feature move with it
_OPEN_EYE_RATIO, _SHUT_EYE_RATIO = 0.3, 0.1  # height of an eye relative to its width


class Eyelid(NamedTuple):
    """The skin around an eye of an image."""

    place: tuple[slice, slice]
    where: FloatImage  # (h, w, 1): 1 where a shut eye shows its lid
    skin: FloatImage  # (h, w, 3)

    def paint(self, face: FloatImage, shut: float, light: FloatImage) -> None:
        """Shut an eye in a light (h, w, 3), covering lashes, creases and shadows of the open eye."""
        face[self.place] += shut * self.where * (light[self.place] * self.skin - face[self.place])


def rigid_feature_move(move: FloatArray, own: FloatArray) -> FloatArray:
    """Make a displacement (468, 2) rigid on each eye with its brow, and on the mouth.

    The shape of these features carries the expression: shut eyes stay shut, and raised brows keep their
    distance from the eye. The mouth also keeps its size: a narrower one would smile less.
    """
    offset, total, free = np.zeros_like(move), np.zeros(len(own)), np.ones(len(own))
    for feature in FEATURES:
        whole = similarity(own[feature], own[feature] + move[feature])
        if feature is MOUTH_POINTS:
            whole = np.hstack([np.eye(2), move[feature].mean(axis=0)[:, None]])
        distance = np.linalg.norm(own[:, None] - own[feature], axis=2).min(axis=1)
        share = np.exp(-((distance / FEATURE_REACH_PX) ** 2))
        offset += share[:, None] * (transform(whole, own) - own)
        total, free = total + share, free * (1 - share)
    mixed: FloatArray = (offset + free[:, None] * move) / (total + free)[:, None]
    for upper, lower in _LIDS:
        mixed[upper] = mixed[lower] = (mixed[upper] + mixed[lower]) / 2
    return mixed


def amplify_expression(upright: FloatArray, own: FloatArray) -> FloatArray:
    """Amplify the offset of lids and brows in an upright mesh (468, 2) from the person's mean shape.

    Lids that would cross meet. Brows that approach each other approach further; a turning head moves
    both to one side, which adds nothing.
    """
    amplified, knit = upright.copy(), []
    for eye, corners, brow in zip((LEFT_EYE, RIGHT_EYE), EYE_CORNERS, map(list, BROWS), strict=True):
        for points, gain in ((list(eye), LID_GAIN), (brow, BROW_RAISE_GAIN)):
            height, mean = (mesh[points, 1] - mesh[corners, 1].mean() for mesh in (upright, own))
            amplified[points, 1] += (gain - 1) * (height - mean)
        position, mean = (mesh[brow, 0].mean() - mesh[corners, 0].mean() for mesh in (upright, own))
        knit.append(position - mean)
    inwards = (BROW_KNIT_GAIN - 1) * (knit[0] - knit[1]) / 2
    amplified[list(BROWS[0]), 0] += inwards
    amplified[list(BROWS[1]), 0] -= inwards
    for upper, lower in _LIDS:
        middle = (amplified[upper, 1] + amplified[lower, 1]) / 2
        amplified[upper, 1] = np.minimum(amplified[upper, 1], middle)
        amplified[lower, 1] = np.maximum(amplified[lower, 1], middle)
    return amplified


def split_eye_triangles(triangles: IntArray, first: int) -> IntArray:
    """Return triangles in which those within the eyes use separate points, numbered from ``first``.

    The texture of the eyes can then be sampled independently of the lids: see ``eyeballs``.
    """
    own = triangles.copy()
    for start, ring in ((first, LEFT_EYE), (first + len(LEFT_EYE), RIGHT_EYE)):
        within = np.isin(triangles, ring).all(axis=1)
        order = np.argsort(ring)
        own[within] = start + order[np.searchsorted(ring, triangles[within], sorter=order)]
    return own


def eyeballs(at: FloatArray, new: FloatArray) -> FloatArray:
    """Return the points (32, 2) of an image's eyes, with landmarks ``at``, visible between a mesh's lids.

    Closing lids occlude an eye and do not flatten it. Lids further apart than in the image stretch it.
    """
    points = []
    for ring in (LEFT_EYE, RIGHT_EYE):
        there, here = (mesh[list(ring)] @ [1, 1j] for mesh in (at, new))  # (16,) complex
        # from corner to corner is 0 to 1; the imaginary part is the distance of a lid from that line
        flat, flat_here = ((eye - eye[0]) / (eye[8] - eye[0]) for eye in (there, here))
        share = min(1.0, float(np.ptp(flat_here.imag) / max(np.ptp(flat.imag), 1e-6)))
        eye = (flat.real + 1j * share * flat.imag) * (there[8] - there[0]) + there[0]
        points.append(np.stack([eye.real, eye.imag], axis=1))
    return np.vstack(points)


def eye_closure(mesh: FloatArray) -> tuple[float, float]:
    """Return the closure of the eyes of a mesh (468, 2), from 0 (open) to 1 (shut).

    Examples
    --------
    >>> eye_closure(np.zeros((468, 2)))
    (1.0, 1.0)
    """

    def share(eye: FloatArray) -> float:
        high = np.linalg.norm(eye[4] - eye[12]) / max(float(np.linalg.norm(eye[8] - eye[0])), 1e-6)
        return float(np.clip((_OPEN_EYE_RATIO - high) / (_OPEN_EYE_RATIO - _SHUT_EYE_RATIO), 0, 1))

    return share(mesh[list(LEFT_EYE)]), share(mesh[list(RIGHT_EYE)])


def make_eyelids(image: FloatImage, mesh: FloatArray) -> tuple[Eyelid, Eyelid]:
    """Synthesise the eyelids that an image with a mesh (468, 2) would show with its eyes shut."""
    left, right = (_make_eyelid(image, mesh, ring) for ring in (LEFT_EYE, RIGHT_EYE))
    return left, right


def _make_eyelid(image: FloatImage, mesh: FloatArray, ring: tuple[int, ...]) -> Eyelid:
    wide = max(float(np.linalg.norm(mesh[ring[8]] - mesh[ring[0]])), 2.0)
    place, low = _bounding_patch(mesh[list(ring)], wide)
    near, area = mesh - low, image[place]
    eye, brow = np.zeros((2, *area.shape[:2]), np.float32)
    cv2.fillPoly(eye, [_fixed_point(near[list(ring)])], 1.0, cv2.LINE_8, 3)
    for one in BROWS:
        cv2.fillConvexPoly(brow, cv2.convexHull(_fixed_point(near[list(one)])), 1.0, cv2.LINE_8, 3)
    around = cv2.dilate(eye, disc_kernel(0.2 * wide))
    bare = 1 - np.maximum(around, cv2.dilate(brow, disc_kernel(0.1 * wide)))
    skin = cv2.GaussianBlur(area * bare[..., None], (0, 0), 0.3 * wide)
    skin /= np.maximum(cv2.GaussianBlur(bare, (0, 0), 0.3 * wide), 1e-3)[..., None]
    # keep the eye itself: the part visible between closed lids shows the lashes
    where = cv2.GaussianBlur(around, (0, 0), 0.06 * wide)
    where *= 1 - cv2.GaussianBlur(eye, (0, 0), max(0.3, 0.02 * wide))
    return Eyelid(place, where[..., None], skin)


def disc_kernel(radius: float) -> NDArray[np.uint8]:
    """Return a disc-shaped kernel for ``cv2.dilate`` and ``cv2.erode``."""
    side = 2 * max(1, round(radius)) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


def _bounding_patch(points: FloatArray, margin: float) -> tuple[tuple[slice, slice], FloatArray]:
    """Return the slices of an image around some points and their top-left corner (2,)."""
    left, top = np.maximum(np.floor(points.min(axis=0) - margin), 0).astype(int)
    right, bottom = np.ceil(points.max(axis=0) + margin).astype(int) + 1
    return (slice(top, bottom), slice(left, right)), np.array([left, top], np.float64)


def _fixed_point(points: FloatArray) -> NDArray[np.int32]:
    """Return points in eighths of a pixel, as OpenCV's drawing functions take them."""
    return np.rint(points * 8).astype(np.int32)
