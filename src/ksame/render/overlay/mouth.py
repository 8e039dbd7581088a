"""Paint the inside of a new face's mouth: measured light and hue, with generic teeth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import INNER_LIPS
from ksame.render.overlay.features import LOWER_LIP, UPPER_LIP

FloatImage = NDArray[np.float32]

# Light and red as shares of the skin's: below MIN (above MAX) no tooth, beyond FULL certainly one. In 23 open
# mouths of two clips and of the set London, teeth had 0.7 to 1.4 of the light and 0.1 to 0.8 of the red.
TOOTH_LIGHT_MIN, TOOTH_LIGHT_FULL = 0.6, 0.78
TOOTH_RED_MAX, TOOTH_RED_FULL = 0.95, 0.75
GREY_FILM_RED = 0.05  # skin with less red belongs to a grey film, where only lightness identifies teeth
LIP_HUE = np.array([1.1, 0.86, 0.88])  # hue of lips and tongue relative to the skin
TONGUE_LIGHT_MAX, MOUTH_DEPTH_LIGHT = 0.75, 0.35  # of the skin's light: on the tongue, and behind the teeth
# In widths of the mouth:
TOOTH_HEIGHT_MAX, TOOTH_EDGE_SOFTNESS = 0.18, 0.04
LIP_EDGE_SOFTNESS = 0.03
TOOTH_BOUNDARIES = np.array([0.0, 0.1, 0.185, 0.26, 0.33, 0.4])  # distances of gaps from the midline
TOOTH_GAP, TOOTH_ROUNDING = 0.012, 0.009  # width of a gap, and how much shorter teeth are there
TOOTH_FADE_RANGE = 0.32, 0.47  # distances from the midline over which teeth fade behind the cheeks
TOOTH_GAP_SHADE = 0.2  # share of the light that is missing in a gap
_CORNERS = [INNER_LIPS[0], INNER_LIPS[len(INNER_LIPS) // 2]]


def tooth_scores(colours: FloatArray, skin: FloatArray) -> FloatArray:
    """Return the confidence (r,) that each colour (r, 3), from the upper lip to the lower, is of teeth.

    Teeth are about as light as the skin (3,) and less red; gums, lips and tongue are not. Only one row of
    teeth is kept: light colours below dark ones belong to a lip or to the teeth of the lower jaw.

    Examples
    --------
    >>> white, dark, lip = [200.0, 195.0, 180.0], [50.0, 35.0, 35.0], [190.0, 130.0, 130.0]
    >>> tooth_scores(np.array([lip, white, white, dark, white]), np.array([190.0, 150.0, 130.0])).tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0]
    """
    light = colours.mean(axis=1) / skin.mean()
    red, usual = ((c[..., 0] - c[..., 1]) / np.maximum(c.sum(axis=-1), 1) for c in (colours, skin))
    known = np.clip(usual / GREY_FILM_RED, 0, 1)
    pale = np.clip((TOOTH_RED_MAX - red / max(usual, GREY_FILM_RED)) / (TOOTH_RED_MAX - TOOTH_RED_FULL), 0, 1)
    sure = np.clip((light - TOOTH_LIGHT_MIN) / (TOOTH_LIGHT_FULL - TOOTH_LIGHT_MIN), 0, 1)
    sure *= known * pale + (1 - known) * np.clip((light - TOOTH_LIGHT_FULL) / (1 - TOOTH_LIGHT_FULL), 0, 1)
    ended = np.maximum.accumulate(np.maximum.accumulate(sure) - sure)
    return np.asarray(sure * (1 - ended))


def paint_mouth(face: FloatImage, mesh: FloatArray, colours: FloatArray, skin: FloatArray) -> None:
    """Paint between the lips of a mesh (468, 2) by the colours (r, 3) measured between them.

    Teeth have the measured colours and at most natural height; their shape is generic, because real teeth
    identify a person. The rest has the hue of flesh relative to the skin (3,) and the measured light. The
    face may be turned.
    """
    size, ring = face.shape[1::-1], mesh[list(INNER_LIPS)]
    corner, other = mesh[_CORNERS] @ [1, 1j]
    wide = max(abs(other - corner), 1.0)
    along = wide * np.exp(1j * np.angle(other - corner))
    left, top = np.clip(ring.min(axis=0) - LIP_EDGE_SOFTNESS * wide - 1, 0, size).astype(int)
    right, bottom = np.clip(ring.max(axis=0) + LIP_EDGE_SOFTNESS * wide + 2, 0, size).astype(int)
    # from corner to corner is 0 to 1; the imaginary part is the distance below that line
    at = (np.arange(left, right) + 1j * np.arange(top, bottom)[:, None] - corner) / along
    lips = [np.array([0, *(mesh[line] @ [1, 1j] - corner) / along, 1]) for line in (UPPER_LIP, LOWER_LIP)]
    upper, lower = (np.interp(at.real, np.maximum.accumulate(lip.real), lip.imag) for lip in lips)
    down, apart = at.imag - upper, lower - upper
    below, above = (
        np.clip(0.5 + far / max(LIP_EDGE_SOFTNESS, 1 / wide), 0, 1) for far in (down, apart - down)
    )
    inside = np.maximum(below + above - 1, 0)[..., None]  # zero where the lips touch
    rows = _mouth_rows(colours, skin, float((lips[1] - lips[0]).imag.max()))
    target = face[top:bottom, left:right]
    target += inside * (_mouth_image(rows, at.real, down, apart, wide) - target)


def _mouth_rows(
    colours: FloatArray, skin: FloatArray, apart: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for rows between lips: share of tooth (r,), colour behind (r, 3), tooth colour (3,)."""
    tooth = tooth_scores(colours, skin)
    light = np.minimum(colours.mean(axis=1) / skin.mean(), TONGUE_LIGHT_MAX)
    behind = (light + tooth * (MOUTH_DEPTH_LIGHT - light))[:, None] * LIP_HUE * skin
    white = tooth @ colours / max(tooth.sum(), 1e-6)
    higher = apart * (tooth.cumsum() - tooth) / len(tooth)  # teeth above each row
    return tooth * np.clip((TOOTH_HEIGHT_MAX - higher) / TOOTH_EDGE_SOFTNESS, 0, 1), behind, white


def _mouth_image(
    rows: tuple[FloatArray, FloatArray, FloatArray],
    across: FloatArray,
    down: FloatArray,
    apart: FloatArray,
    wide: float,
) -> FloatArray:
    """Return the colours (h, w, 3) at distances ``down`` from the upper lip, ``apart`` from the lower lip.

    Both are in widths of the mouth, which is ``wide`` pixels; ``across`` runs from 0 at one corner to 1.
    """
    tooth, behind, white = rows
    apart, aside = np.maximum(apart, 1 / wide), np.abs(across - 0.5)
    thin = max(TOOTH_GAP, 0.7 / wide)  # gaps thinner than a pixel would flicker
    gaps = (
        TOOTH_GAP / thin * np.exp(-((np.abs(aside[..., None] - TOOTH_BOUNDARIES).min(axis=-1) / thin) ** 2))
    )
    height = (np.arange(len(tooth)) + 0.5) / len(tooth)
    lit = np.interp((down + TOOTH_ROUNDING * gaps) / apart, height, tooth) * (1 - TOOTH_GAP_SHADE * gaps)
    lit *= np.clip((TOOTH_FADE_RANGE[1] - aside) / (TOOTH_FADE_RANGE[1] - TOOTH_FADE_RANGE[0]), 0, 1)
    flesh = np.stack([np.interp(down / apart, height, colour) for colour in behind.T], axis=-1)
    shade = 0.5 + 0.5 * np.sqrt(np.sin(np.pi * np.clip(across, 0, 1)))
    return np.asarray(shade[..., None] * (flesh + lit[..., None] * (white - flesh)))
