"""What is seen between the lips of a new face: the light and the hue that were seen, and nobody's teeth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksame.core.arrays import FloatArray
from ksame.core.geometry import INNER_LIPS
from ksame.render.overlay.features import LOWER_LIP, UPPER_LIP

FloatImage = NDArray[np.float32]

# Of the skin's light: what has less is no tooth, what has more may be one. Of its red: teeth have less than
# the second, lips and tongue mostly more than the first. In 23 open mouths of two clips and of London teeth
# had 0.7 to 1.4 of the light and 0.1 to 0.8 of the red.
TOOTH_LIGHT_MIN, TOOTH_LIGHT_FULL = 0.6, 0.78
TOOTH_RED_MAX, TOOTH_RED_FULL = 0.95, 0.75
GREY_FILM_RED = 0.05  # skin with less red is that of a grey film: there teeth are what is as light as it
LIP_HUE = np.array([1.1, 0.86, 0.88])  # the hue of lips and tongue beside the skin's
TONGUE_LIGHT_MAX, MOUTH_DEPTH_LIGHT = (
    0.75,
    0.35,
)  # of the skin's light: more does not fall on a tongue, and this much behind teeth
# In widths of the mouth:
TOOTH_HEIGHT_MAX, TOOTH_EDGE_SOFTNESS = 0.18, 0.04  # teeth are no higher, and end there as softly
LIP_EDGE_SOFTNESS = 0.03  # a lip ends as softly
TOOTH_BOUNDARIES = np.array([0.0, 0.1, 0.185, 0.26, 0.33, 0.4])  # of teeth, from the middle to either side
TOOTH_GAP, TOOTH_ROUNDING = 0.012, 0.009  # how far from one to the next, and how much shorter they are there
TOOTH_FADE_RANGE = 0.32, 0.47  # from the middle: from where to where they fade behind the cheeks
TOOTH_GAP_SHADE = 0.2  # of their light is missing between two
_CORNERS = [INNER_LIPS[0], INNER_LIPS[len(INNER_LIPS) // 2]]


def tooth_scores(colours: FloatArray, skin: FloatArray) -> FloatArray:
    """Return how surely each of some colours (r, 3), from one lip to the other, is a tooth's: (r,).

    Teeth are about as light as the skin (3,) and less red than it; gums, lips and tongue are not. There is
    one row of them: what is light below the dark is a lip, or would be the teeth of the lower jaw.

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
    """Put what colours (r, 3) from the upper lip to the lower one tell between the lips of a mesh (468, 2).

    Teeth have the colours that were seen and no more than natural height; their form is nobody's, because it
    is as good as a name. What is no tooth has the hue of flesh beside a skin (3,), and the light that was
    seen. The face may be turned.
    """
    size, ring = face.shape[1::-1], mesh[list(INNER_LIPS)]
    corner, other = mesh[_CORNERS] @ [1, 1j]
    wide = max(abs(other - corner), 1.0)
    along = wide * np.exp(1j * np.angle(other - corner))
    left, top = np.clip(ring.min(axis=0) - LIP_EDGE_SOFTNESS * wide - 1, 0, size).astype(int)
    right, bottom = np.clip(ring.max(axis=0) + LIP_EDGE_SOFTNESS * wide + 2, 0, size).astype(int)
    # from corner to corner is 0 to 1; the imaginary part says how far below that line something is
    at = (np.arange(left, right) + 1j * np.arange(top, bottom)[:, None] - corner) / along
    lips = [np.array([0, *(mesh[line] @ [1, 1j] - corner) / along, 1]) for line in (UPPER_LIP, LOWER_LIP)]
    upper, lower = (np.interp(at.real, np.maximum.accumulate(lip.real), lip.imag) for lip in lips)
    down, apart = at.imag - upper, lower - upper
    below, above = (
        np.clip(0.5 + far / max(LIP_EDGE_SOFTNESS, 1 / wide), 0, 1) for far in (down, apart - down)
    )
    inside = np.maximum(below + above - 1, 0)[..., None]  # nowhere if they touch
    shown = _rows(colours, skin, float((lips[1] - lips[0]).imag.max()))
    there = face[top:bottom, left:right]
    there += inside * (_mouth_image(shown, at.real, down, apart, wide) - there)


def _rows(colours: FloatArray, skin: FloatArray, apart: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for rows between lips that are ``apart`` how much is tooth (r,), and the colours behind: (r, 3).

    Last the colour of the teeth (3,).
    """
    tooth, light = (
        tooth_scores(colours, skin),
        np.minimum(colours.mean(axis=1) / skin.mean(), TONGUE_LIGHT_MAX),
    )
    behind = (light + tooth * (MOUTH_DEPTH_LIGHT - light))[:, None] * LIP_HUE * skin
    white = tooth @ colours / max(tooth.sum(), 1e-6)
    higher = apart * (tooth.cumsum() - tooth) / len(tooth)  # teeth above each row
    return tooth * np.clip((TOOTH_HEIGHT_MAX - higher) / TOOTH_EDGE_SOFTNESS, 0, 1), behind, white


def _mouth_image(
    shown: tuple[FloatArray, FloatArray, FloatArray],
    across: FloatArray,
    down: FloatArray,
    apart: FloatArray,
    wide: float,
) -> FloatArray:
    """Return the colours (h, w, 3) of places ``down`` from an upper lip, which is ``apart`` from the lower.

    Both in widths of the mouth, which has so many pixels; ``across`` is 0 in one corner and 1 in the other.
    """
    tooth, behind, white = shown
    apart, aside = np.maximum(apart, 1 / wide), np.abs(across - 0.5)
    thin = max(TOOTH_GAP, 0.7 / wide)  # thinner than a pixel they would come and go
    gaps = (
        TOOTH_GAP / thin * np.exp(-((np.abs(aside[..., None] - TOOTH_BOUNDARIES).min(axis=-1) / thin) ** 2))
    )
    rows = (np.arange(len(tooth)) + 0.5) / len(tooth)
    lit = np.interp((down + TOOTH_ROUNDING * gaps) / apart, rows, tooth) * (1 - TOOTH_GAP_SHADE * gaps)
    lit *= np.clip((TOOTH_FADE_RANGE[1] - aside) / (TOOTH_FADE_RANGE[1] - TOOTH_FADE_RANGE[0]), 0, 1)
    flesh = np.stack([np.interp(down / apart, rows, colour) for colour in behind.T], axis=-1)
    shade = 0.5 + 0.5 * np.sqrt(np.sin(np.pi * np.clip(across, 0, 1)))
    return np.asarray(shade[..., None] * (flesh + lit[..., None] * (white - flesh)))
