"""Eyes, brows and mouth of a new face: what moves when somebody speaks, smiles or blinks."""

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
UPPER_LIP, LOWER_LIP = (
    list(INNER_LIPS[1:_HALF]),
    list(INNER_LIPS[:_HALF:-1]),
)  # corner to corner, side by side
_LIDS = [(list(eye[:8:-1]), list(eye[1:8])) for eye in (LEFT_EYE, RIGHT_EYE)]  # likewise

# How much further than the old ones new lids and brows move: the network that reads expressions sees less
# than is drawn. Of how far brows are raised or lowered it sees .7 to .8, of how far they are knit .1 to .9,
# least where they are knit most, and it takes lids that move more for brows that do. Of three people with
# five faces each, brows raised and lowered followed at .84 and .82 with 1.8 and 2.2, at .83 and .86 with 1.6
# and 3.5: measured on what was drawn, before it was coded.
LID_GAIN, BROW_RAISE_GAIN, BROW_KNIT_GAIN = 1.25, 1.6, 3.5
FEATURE_REACH_PX = 8.0  # px of the model's frame: points this near to a feature move with it
_OPEN_EYE_RATIO, _SHUT_EYE_RATIO = 0.3, 0.1  # the height of an eye over its width


class Eyelid(NamedTuple):
    """The skin around an eye of a picture."""

    place: tuple[slice, slice]
    where: FloatImage  # (h, w, 1): 1 on what becomes lid when the eye is shut
    skin: FloatImage  # (h, w, 3)

    def paint(self, face: FloatImage, shut: float, light: FloatImage) -> None:
        """Shut an eye of a picture, in a light (h, w, 3): lashes, creases and shadows of an open one go."""
        face[self.place] += shut * self.where * (light[self.place] * self.skin - face[self.place])


def rigid_feature_move(move: FloatArray, own: FloatArray) -> FloatArray:
    """Return a move (468, 2) of a shape that moves each eye with its brow, and the mouth, as a whole.

    Their form is what an expression is: what is shut stays shut, and a raised brow is as far from its eye.
    A mouth keeps its size too: a narrower one would smile less.
    """
    away, total, free = np.zeros_like(move), np.zeros(len(own)), np.ones(len(own))
    for feature in FEATURES:
        whole = similarity(own[feature], own[feature] + move[feature])
        if feature is MOUTH_POINTS:
            whole = np.hstack([np.eye(2), move[feature].mean(axis=0)[:, None]])
        far = np.linalg.norm(own[:, None] - own[feature], axis=2).min(axis=1)
        share = np.exp(-((far / FEATURE_REACH_PX) ** 2))
        away += share[:, None] * (transform(whole, own) - own)
        total, free = total + share, free * (1 - share)
    mixed: FloatArray = (away + free[:, None] * move) / (total + free)[:, None]
    for upper, lower in _LIDS:
        mixed[upper] = mixed[lower] = (mixed[upper] + mixed[lower]) / 2
    return mixed


def amplify_expression(upright: FloatArray, own: FloatArray) -> FloatArray:
    """Return an upright mesh (468, 2) with lids and brows further from where this person has them mostly.

    Lids that would cross meet. Brows that come nearer to each other come nearer still; a head that turns
    moves both to one side, and nothing is added.
    """
    lively, knit = upright.copy(), []
    for eye, corners, brow in zip((LEFT_EYE, RIGHT_EYE), EYE_CORNERS, map(list, BROWS), strict=True):
        for points, gain in ((list(eye), LID_GAIN), (brow, BROW_RAISE_GAIN)):
            off, usual = (mesh[points, 1] - mesh[corners, 1].mean() for mesh in (upright, own))
            lively[points, 1] += (gain - 1) * (off - usual)
        off, usual = (mesh[brow, 0].mean() - mesh[corners, 0].mean() for mesh in (upright, own))
        knit.append(off - usual)
    nearer = (BROW_KNIT_GAIN - 1) * (knit[0] - knit[1]) / 2
    lively[list(BROWS[0]), 0] += nearer
    lively[list(BROWS[1]), 0] -= nearer
    for upper, lower in _LIDS:
        middle = (lively[upper, 1] + lively[lower, 1]) / 2
        lively[upper, 1] = np.minimum(lively[upper, 1], middle)
        lively[lower, 1] = np.maximum(lively[lower, 1], middle)
    return lively


def split_eye_triangles(triangles: IntArray, first: int) -> IntArray:
    """Return triangles of which those within the eyes are on points of their own, ``first`` and following.

    So the eyes of a picture can be seen elsewhere than its lids: see ``eyeballs``.
    """
    own = triangles.copy()
    for start, ring in ((first, LEFT_EYE), (first + len(LEFT_EYE), RIGHT_EYE)):
        within = np.isin(triangles, ring).all(axis=1)
        order = np.argsort(ring)
        own[within] = start + order[np.searchsorted(ring, triangles[within], sorter=order)]
    return own


def eyeballs(at: FloatArray, new: FloatArray) -> FloatArray:
    """Return what of the eyes of a picture with landmarks ``at`` is seen between the lids of a mesh: (32, 2).

    Lids close over an eye: it is hidden, not flattened. Lids further apart than in the picture stretch it.
    """
    seen = []
    for ring in (LEFT_EYE, RIGHT_EYE):
        there, here = (mesh[list(ring)] @ [1, 1j] for mesh in (at, new))  # (16,) complex
        # from corner to corner is 0 to 1; the imaginary part says how far a lid is from that line
        flat, flat_here = ((eye - eye[0]) / (eye[8] - eye[0]) for eye in (there, here))
        share = min(1.0, float(np.ptp(flat_here.imag) / max(np.ptp(flat.imag), 1e-6)))
        eye = (flat.real + 1j * share * flat.imag) * (there[8] - there[0]) + there[0]
        seen.append(np.stack([eye.real, eye.imag], axis=1))
    return np.vstack(seen)


def eye_closure(mesh: FloatArray) -> tuple[float, float]:
    """Return how far the eyes of a mesh (468, 2) are shut, from 0 to 1.

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
    """Return the lids that the eyes of a picture with a mesh (468, 2) would have if they were shut."""
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
    # the eye itself stays: what is seen of it between lids that meet are the lashes
    where = cv2.GaussianBlur(around, (0, 0), 0.06 * wide)
    where *= 1 - cv2.GaussianBlur(eye, (0, 0), max(0.3, 0.02 * wide))
    return Eyelid(place, where[..., None], skin)


def disc_kernel(radius: float) -> NDArray[np.uint8]:
    """Return a round brush for ``cv2.dilate`` and ``cv2.erode``."""
    side = 2 * max(1, round(radius)) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)


def _bounding_patch(points: FloatArray, margin: float) -> tuple[tuple[slice, slice], FloatArray]:
    """Return the part of a picture around some points, and its corner (2,)."""
    left, top = np.maximum(np.floor(points.min(axis=0) - margin), 0).astype(int)
    right, bottom = np.ceil(points.max(axis=0) + margin).astype(int) + 1
    return (slice(top, bottom), slice(left, right)), np.array([left, top], np.float64)


def _fixed_point(points: FloatArray) -> NDArray[np.int32]:
    """Return points in eighths of a pixel."""
    return np.rint(points * 8).astype(np.int32)
