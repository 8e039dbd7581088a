"""Fill a hole in a photo from pixels outside of it: smoothly, or with patches that continue what is around.

``patch_fill`` is PatchMatch (Barnes et al. 2009) within the pyramid of Wexler, Shechtman and Irani (2007):
every patch that touches the hole looks for the source patch most like it, and every pixel becomes the mean of
what those source patches have there. So each filled pixel is a mean of source pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray, IntArray

__all__ = ["Level", "patch_fill", "push_pull"]

BoolMask = NDArray[np.bool_]
FloatImage = NDArray[np.float32]

PATCH_RADIUS = 2  # px: patches of 5 x 5
COARSEST_SIDE_PX, FINEST_SIDE_PX = 20, 120  # px: longer side of the hole at the first and last matching level
ROUNDS = 3  # of search and vote at each level
RANDOM_STEPS = 3  # random candidates of each search, the last next to the best so far
LABEL_EDGE_SIGMA_PX = 1.2  # by which the border between two labels is softened
MIN_SHARE = 0.02  # of a label in a pixel, from which on it is filled for it
MAX_DRIFT_LEVELS = 24.0  # grey levels: by how much a copied patch may be brought to the light around it
MAX_USES = 3  # of one source patch: where there are more the search found nothing, and the fill stays smooth
SMOOTHING_ROUNDS = 8  # at each level of the smooth fill, which make it meet its rim without a step
RIM_SIGMA_PX, RIM_FADE_PX, MAX_RIM_LEVELS = 2.5, 14.0, 12.0  # how far a fill is bent to meet its rim
MARGIN = 1.0  # of the hole's longer side, from where patches may come
_VOTE_SIGMA_PX = 1.0


def push_pull(image: NDArray[Any], weight: NDArray[Any]) -> FloatImage:
    """Return an image (h, w, c) filled smoothly from pixels of weight (h, w) above 0, by a pyramid."""
    weights = [weight.astype(np.float32)]
    images = [image.astype(np.float32) * weights[0][..., None]]
    while min(images[-1].shape[:2]) > 2:
        images.append(cv2.pyrDown(images[-1]))
        weights.append(cv2.pyrDown(weights[-1]))
    total = max(float(weights[-1].sum()), 1e-6)
    out: Any = np.broadcast_to(images[-1].sum(axis=(0, 1)) / total, images[-1].shape).astype(np.float32)
    for colour, known in zip(images[::-1], weights[::-1], strict=True):
        coarse = cv2.pyrUp(out, dstsize=colour.shape[1::-1]) if colour is not images[-1] else out
        sure = np.clip(4 * known, 0, 1)[..., None]
        own = sure * colour / np.maximum(known, 1e-6)[..., None]
        out = own + (1 - sure) * coarse
        for _ in range(SMOOTHING_ROUNDS):
            out = own + (1 - sure) * cv2.blur(out, (3, 3))
    return np.asarray(out, np.float32)


def patch_fill(
    image: NDArray[np.uint8], hole: BoolMask, source: BoolMask, label: NDArray[np.uint8]
) -> FloatImage:
    """Return the image with its hole filled; nothing but source pixels is read.

    Parameters
    ----------
    image : (h, w, 3) uint8
        The photo.
    hole : (h, w) bool
        What is filled.
    source : (h, w) bool
        Pixels that may be copied; those in the hole are not.
    label : (h, w) uint8
        What each pixel shows, in the hole as well: each label is filled from its own source pixels.

    Returns
    -------
    (h, w, 3) float32
        Pixels outside the hole that are not source are smoothed colours, too.
    """
    source = source & ~hole
    result = push_pull(image, source)
    result[source] = image[source]
    labels = np.unique(label[hole]) if hole.any() else np.zeros(0, np.uint8)
    total, weight = np.zeros_like(result), np.zeros((*hole.shape, 1), np.float32)
    for value in labels:
        same = (label == value).astype(np.float32)
        share = cv2.GaussianBlur(same, (0, 0), LABEL_EDGE_SIGMA_PX) * hole
        own = source & (label == value)
        filled = _fill_label(image, share > MIN_SHARE, own if own.any() else source)
        total += share[..., None] * filled
        weight += share[..., None]
    result[hole] = (total / np.maximum(weight, 1e-6))[hole]
    return result


def _fill_label(image: NDArray[np.uint8], hole: BoolMask, source: BoolMask) -> FloatImage:
    """Return the image with a hole filled from source pixels, all of which show the same kind of thing."""
    result = push_pull(image, source)
    result[source] = image[source]
    count, parts, stats, _ = cv2.connectedComponentsWithStats(hole.astype(np.uint8), connectivity=8)
    for number in range(1, count):
        left, top, width, height, _ = stats[number]
        margin = round(MARGIN * max(width, height)) + 8
        box = np.s_[
            max(0, top - margin) : top + height + margin, max(0, left - margin) : left + width + margin
        ]
        here = parts[box] == number
        filled = _meet_rim(_fill_part(result[box], here, source[box]), here, source[box])
        result[box][here] = filled[here]
    return result


def _meet_rim(filled: FloatImage, hole: BoolMask, source: BoolMask) -> FloatImage:
    """Return a filled image whose hole meets the source pixels at its rim without a step in light."""
    rim = hole & (cv2.dilate(source.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0)
    if not rim.any():
        return filled
    outside, inside = (_local_mean(filled, part, RIM_SIGMA_PX) for part in (source, hole))
    step = push_pull(np.clip(outside - inside, -MAX_RIM_LEVELS, MAX_RIM_LEVELS), rim)
    depth = cv2.distanceTransform(hole.astype(np.uint8), cv2.DIST_L2, 3)
    return np.asarray(filled + np.exp(-depth / RIM_FADE_PX)[..., None] * step, np.float32)


def _local_mean(image: FloatImage, part: BoolMask, sigma: float) -> FloatImage:
    """Return the blurred image of some pixels alone."""
    weight = part.astype(np.float32)
    near = np.maximum(cv2.GaussianBlur(weight, (0, 0), sigma), 1e-3)
    return np.asarray(
        cv2.GaussianBlur(image * weight[..., None], (0, 0), sigma) / near[..., None], np.float32
    )


def _fill_part(smooth: FloatImage, hole: BoolMask, source: BoolMask) -> FloatImage:
    """Fill one connected hole, of which ``smooth`` is a first guess, from coarse to fine."""
    rows, columns = np.nonzero(hole)
    side = max(np.ptp(rows), np.ptp(columns)) + 1
    finest = 2 ** max(0, int(np.ceil(np.log2(side / FINEST_SIDE_PX))))
    coarsest = max(finest, 2 ** max(0, int(np.floor(np.log2(side / COARSEST_SIDE_PX)))))
    rng = np.random.default_rng(0)
    before: Level | None = None
    field, step = np.zeros((0, 2), np.intp), coarsest
    while step >= finest:
        level = Level.of(smooth, hole, source, step)
        if not level.has_sources:
            step //= 2
            continue
        field = level.start() if before is None else level.refined(field, before)
        for _ in range(ROUNDS):
            level = level.voted(field)
            field = level.search(field, rng)
        before, matched, step = level, (field, step), step // 2
    return smooth if before is None else _copy_patches(smooth, hole, source, *matched)


@dataclass(frozen=True, eq=False)
class Level:
    """One level of the pyramid, with a margin of a patch on every side."""

    image: FloatImage  # (h, w, 3): known pixels and the present guess
    hole: BoolMask
    counts: BoolMask  # pixels that patches are compared on
    centres: IntArray  # (s, 2): middles of patches of source pixels alone
    allowed: BoolMask  # (h, w): the same as a mask
    targets: IntArray  # (t, 2): middles of patches that touch the hole
    number: IntArray  # (h, w): which target a pixel is, or -1

    @classmethod
    def of(cls, smooth: FloatImage, hole: BoolMask, source: BoolMask, step: int) -> Level:
        """Return a level at a whole fraction of the size: a cell is source if all of its pixels are."""
        pad = [(0, -side % step) for side in hole.shape]
        size = [(side + more) // step for side, (_, more) in zip(hole.shape, pad, strict=True)]
        cells = (size[0], step, size[1], step)
        image = np.pad(smooth, [*pad, (0, 0)], mode="edge").reshape(*cells, 3).mean(axis=(1, 3))
        open_cells = np.pad(hole, pad, mode="edge").reshape(cells).any(axis=(1, 3))
        whole = np.pad(source, pad, mode="edge").reshape(cells).all(axis=(1, 3))
        r = PATCH_RADIUS
        image, around = np.pad(image, [(r, r), (r, r), (0, 0)], mode="edge"), [(r, r), (r, r)]
        open_cells, whole = np.pad(open_cells, around), np.pad(whole, around)
        square = np.ones((2 * r + 1, 2 * r + 1), np.uint8)
        allowed = cv2.erode(whole.astype(np.uint8), square, borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
        touched = cv2.dilate(open_cells.astype(np.uint8), square) > 0
        touched[:r], touched[-r:], touched[:, :r], touched[:, -r:] = False, False, False, False
        number = np.full(touched.shape, -1)
        number[touched] = np.arange(touched.sum())
        return cls(
            image.astype(np.float32), open_cells, whole | open_cells,
            np.argwhere(allowed), allowed, np.argwhere(touched), number,
        )  # fmt: skip

    @property
    def has_sources(self) -> bool:
        """Whether there is enough to copy from."""
        return len(self.centres) >= 16

    def start(self) -> IntArray:
        """Return for each target its mirror image at the nearest source patch, or that patch itself."""
        field = _nearest(self.allowed, self.targets)
        mirrored = np.clip(2 * field - self.targets, 0, np.array(self.hole.shape) - 1)
        return np.where(self.allowed[tuple(mirrored.T)][:, None], mirrored, field)

    def refined(self, field: IntArray, coarse: Level) -> IntArray:
        """Return the field of a level of half the size, for this one; where it does not fit, a new start."""
        r = PATCH_RADIUS
        place = self.targets - r
        known = coarse.number[tuple((place // 2 + r).T)]
        fine = (field[known] - r) * 2 + place % 2 + r
        limit = np.array(self.hole.shape) - 1
        fits = (known >= 0) & (fine >= 0).all(axis=1) & (fine <= limit).all(axis=1)
        fits[fits] = self.allowed[tuple(fine[fits].T)]
        return np.where(fits[:, None], fine, self.start())

    def voted(self, field: IntArray) -> Level:
        """Return the level with every pixel of the hole the mean of what the patches over it have there."""
        pixels = np.argwhere(self.hole)
        total, weight = np.zeros((len(pixels), 3), np.float32), np.zeros((len(pixels), 1), np.float32)
        for dy, dx, share in _vote_offsets():
            target = self.number[tuple((pixels - (dy, dx)).T)]
            known = share * (target >= 0).astype(np.float32)[:, None]
            total += known * self.image[tuple((field[target] + (dy, dx)).T)]
            weight += known
        image = self.image.copy()
        mean = total / np.maximum(weight, 1e-9)
        image[tuple(pixels.T)] = np.where(weight > 0, mean, image[tuple(pixels.T)])
        return self._with(image)

    def search(self, field: IntArray, rng: np.random.Generator) -> IntArray:
        """Return a field no worse: what the neighbours found, and random places ever nearer [PatchMatch]."""
        best, cost = field, self.cost(field)
        reach = max(self.hole.shape)
        for shift in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            at = self.targets - shift
            neighbour = self.number[tuple(at.T)]
            candidate = np.where((neighbour >= 0)[:, None], best[neighbour] + shift, best)
            best, cost = self._better(best, cost, candidate)
        best, cost = self._better(best, cost, self.centres[rng.integers(len(self.centres), size=len(best))])
        for power in range(1, RANDOM_STEPS):
            radius = max(1, reach // 4**power)
            jump = rng.integers(-radius, radius + 1, size=best.shape)
            best, cost = self._better(best, cost, best + jump)
        return best

    def cost(self, field: IntArray) -> FloatArray:
        """Return how unlike each target's patch and its source patch are, (t,)."""
        width, r = self.hole.shape[1], PATCH_RADIUS
        colour = self.image.reshape(-1, 3)
        counts = self.counts.ravel().astype(np.float32)
        to, of = (at[:, 0] * width + at[:, 1] for at in (self.targets, field))
        total = np.zeros(len(field), np.float32)
        for dy in range(-r, r + 1):
            for dx in range(-r, r + 1):
                one, two = to + (dy * width + dx), of + (dy * width + dx)
                apart = colour.take(one, axis=0) - colour.take(two, axis=0)
                total += np.einsum("tc,tc->t", apart, apart) * counts.take(one)
        return total

    def _better(self, best: IntArray, cost: FloatArray, candidate: IntArray) -> tuple[IntArray, FloatArray]:
        """Return for each target the better of two sources; what is no source patch is never taken."""
        limit = np.array(self.hole.shape) - 1
        inside = np.clip(candidate, 0, limit)
        inside = np.where(self.allowed[tuple(inside.T)][:, None], inside, best)
        new = self.cost(inside)
        take = new < cost
        return np.where(take[:, None], inside, best), np.where(take, new, cost)

    def _with(self, image: FloatImage) -> Level:
        return replace(self, image=image)


def _copy_patches(
    smooth: FloatImage, hole: BoolMask, source: BoolMask, field: IntArray, step: int
) -> FloatImage:
    """Return the hole filled at full size by a field found at a fraction of it, in the light around it."""
    level = Level.of(smooth, hole, source, step)
    r = PATCH_RADIUS
    low = push_pull(_local_mean(smooth, source, max(3.0, 4.0 * step)), source)
    _, same, uses = np.unique(field, axis=0, return_inverse=True, return_counts=True)
    crowded = uses[same.ravel()] > MAX_USES
    rows, columns = np.nonzero(hole)
    cell = np.stack([rows // step + r, columns // step + r], axis=1)
    rest = np.stack([rows % step, columns % step], axis=1)
    height, width = hole.shape
    colour, base = smooth.reshape(-1, 3), low.reshape(-1, 3)
    own, readable = low[rows, columns], source.ravel()
    total, weight = np.zeros((len(rows), 3), np.float32), np.zeros((len(rows), 1), np.float32)
    for dy, dx, share in _vote_offsets():
        target = level.number[cell[:, 0] - dy, cell[:, 1] - dx]
        y = np.clip((field[target, 0] + dy - r) * step + rest[:, 0], 0, height - 1)
        x = np.clip((field[target, 1] + dx - r) * step + rest[:, 1], 0, width - 1)
        at = y * width + x
        known = (share * (target >= 0))[:, None].astype(np.float32)
        drift = np.clip(own - base.take(at, axis=0), -MAX_DRIFT_LEVELS, MAX_DRIFT_LEVELS)
        good = (readable[at] & ~crowded[target])[:, None]
        total += known * np.where(good, colour.take(at, axis=0) + drift, own)
        weight += known
    result = smooth.copy()
    found = weight[:, 0] > 0
    result[rows[found], columns[found]] = total[found] / weight[found]
    return result


def _vote_offsets() -> list[tuple[int, int, float]]:
    """Return the places in a patch and how much each counts in a vote."""
    span = range(-PATCH_RADIUS, PATCH_RADIUS + 1)
    return [
        (dy, dx, float(np.exp(-(dy * dy + dx * dx) / (2 * _VOTE_SIGMA_PX**2)))) for dy in span for dx in span
    ]


def _nearest(mask: BoolMask, targets: IntArray) -> IntArray:
    """Return for each target the nearest place of a mask, (t, 2)."""
    _, label = cv2.distanceTransformWithLabels(
        (~mask).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    place = np.zeros((int(label.max()) + 1, 2), np.intp)
    place[label[mask]] = np.argwhere(mask)
    found: IntArray = place[label[tuple(targets.T)]]
    return found
