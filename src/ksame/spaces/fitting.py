"""Fitting the appearance model to a picture [G6 4.2, eq. 3].

Both solvers look for the shape p and the appearance lambda with the least squares of
A_0(x) + sum lambda_i A_i(x) - I(W(x; p)) over the pixels x of the mean shape. Both are inverse
compositional: the step is found on the model, where no derivative depends on the warp, and the warp is
composed with the inverse of the step. The symbols are those of the algorithms' authors, Matthews and
Baker, whom [G6] cites: s_0, s_i, A_0, A_i are the model's s_bar, Phi_s, t_bar, Phi_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, Self, get_args

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, solve_triangular
from scipy.ndimage import map_coordinates
from scipy.sparse import csr_array

from ksame.core.arrays import FloatArray, IntArray
from ksame.core.errors import UsageError
from ksame.core.geometry import Raster, align, crop, similarity, transform
from ksame.spaces.appearance import TEXTURE_SCALE, AppearanceSpace

FittingMethod = Literal["simultaneous", "project-out"]
TEXTURE_VARIANCE_SHARE = (
    0.95  # share of the texture's variance that is fitted: the last axes would explain a wrong shape too
)
MARGIN_PX = 24  # pixels around the mean shape's picture, for starts that are off
EDGE_PX = 2  # pixels at the face's edge that are left out: what lies behind it is not in the model
CONVERGED_STEP_PX = 0.02  # pixels of the coded texture: a mean step below this is none
MAX_SHAPE_DEVIATIONS = 3.0  # standard deviations: further out no shape is a face's
CORRELATED_PIXELS = 10.0  # neighbouring pixels err alike: so many count as one measurement


class Fit(NamedTuple):
    """Where a model came to rest on a picture."""

    points: FloatArray  # (m, 2), in pixels of the picture
    residual: float  # root mean square of (3), in grey levels
    rounds: int
    converged: bool


def fit(
    model: AppearanceSpace,
    rgb: NDArray[np.uint8],
    start: FloatArray,
    *,
    method: FittingMethod = "simultaneous",
    rounds: int = 40,
) -> Fit:
    """Bring landmarks that are about right to where the model explains the picture best [G6 eq. 3].

    Deviations: shapes are weighed by how common they are, as Gaussian as the model's components, with
    the error of the start as the noise; steps are damped after Levenberg, so that the sum only falls;
    grey is fitted, and the photo's contrast and brightness are free, since they tell nothing of a shape;
    lambda is solved for anew after each step, not carried along to first order.

    Parameters
    ----------
    model : AppearanceSpace
        The model.
    rgb : (h, w, 3) uint8
        A photo.
    start : (m, 2)
        The model's landmarks in it, off by up to about 10 % of the distance between the eyes.
    method : str
        ``simultaneous`` takes the derivatives at the appearance that is seen, ``project-out`` at the
        mean: a little faster, and not as sure.
    rounds : int
        The most steps to try.

    Examples
    --------
    The model's mean face, from a start that is 6 pixels off:

    >>> model = AppearanceSpace.bundled()
    >>> picture = model.decode(np.zeros((1, len(model.deviation))))[0]
    >>> truth = model.shape * picture.shape[1] / 256
    >>> fitted = fit(model, picture, truth + [5.0, -3.0])
    >>> fitted.converged, bool(np.linalg.norm(fitted.points - truth, axis=1).mean() < 0.5)
    (True, True)
    """
    if method not in get_args(FittingMethod):
        raise UsageError(
            f"There is no method {method!r}: choose one of {', '.join(get_args(FittingMethod))}."
        )
    if np.shape(start) != model.shape.shape:
        raise UsageError(f"start must be {model.shape.shape}, as the model's shape. Got {np.shape(start)}.")
    if rounds < 1:
        raise UsageError(f"rounds must be at least 1. Got {rounds}.")
    template = _template(model)
    there = similarity(start, template.s_0)
    view = _grey(crop(rgb, there, *template.size))
    now = template.look(view, template.plausible(transform(there, start)))
    stiff = template.stiffness(now)
    damping, converged, done = 0.01, False, 0
    while not converged and done < rounds:
        done += 1
        images = template.steepest if method == "project-out" else template.descent(now.lam)
        delta = step(images, now.error, stiff, now.p, damping)
        new = template.look(view, template.composed(now.shape, delta))
        if new.cost(stiff) < now.cost(stiff):
            converged = bool(np.linalg.norm(new.shape - now.shape, axis=1).mean() < CONVERGED_STEP_PX)
            now, damping = new, damping / 10
        else:
            damping *= 10
            converged = damping > 1e3  # not even the smallest step down the slope is better
    back = cv2.invertAffineTransform(there)
    return Fit(transform(back, now.shape), float(np.sqrt(np.mean(now.error**2))), done, converged)


def step(
    images: FloatArray, error: FloatArray, stiff: FloatArray, p: FloatArray, damping: float
) -> FloatArray:
    """Return Delta p = H^-1 J^T e, where J (n, c) are steepest-descent images and e (n,) is the error.

    Each parameter p (c,) is drawn back to 0 by its stiffness (c,); damping shortens the step.
    """
    hessian = images.T @ images + np.diag(stiff)  # (c, c)
    downhill = images.T @ error + stiff * p  # the inverse step is taken: p becomes p - Delta p
    delta: FloatArray = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), downhill)
    return delta


class ShapeExplanation(NamedTuple):
    """A shape in the view, and how the model explains what is seen under it."""

    shape: FloatArray  # (m, 2)
    p: FloatArray  # (4 + a,): its parameters; those of place, size and roll are 0, they are free
    lam: FloatArray  # (b,): the appearance that explains most
    error: FloatArray  # (n,): I(W(x; p)) - A_0 - sum lambda_i A_i

    def cost(self, stiff: FloatArray) -> float:
        """Return the sum of squares (3), and how uncommon the shape is."""
        return float(np.sum(self.error**2) + np.sum(stiff * self.p**2))


@dataclass(frozen=True, eq=False)
class Template:
    """What a model gives once for all pictures, at the scale of the coded texture.

    Parameters
    ----------
    size : (int, int)
        Width and height of the view that a picture is cropped to.
    s_0 : (m, 2)
        The mean shape in the view.
    s : (4 + a, m, 2)
        The directions in which it moves: size, roll, x, y, and those of the model.
    deviation : (a,)
        Standard deviations along the latter.
    triangles : (t, 3)
        The mesh.
    weights : (n, m) sparse
        The n pixels x that are fitted, as means of vertices.
    a_0, a : (n,), (b, n)
        Mean appearance, and orthonormal axes.
    slope_0, slope : (2, n), (b, 2, n)
        Their gradients along x and y.
    """

    size: tuple[int, int]
    s_0: FloatArray
    s: FloatArray
    deviation: FloatArray
    triangles: IntArray
    weights: csr_array
    a_0: FloatArray
    a: FloatArray
    slope_0: FloatArray
    slope: FloatArray

    @classmethod
    def of(cls, model: AppearanceSpace) -> Self:
        """Prepare a model."""
        covered = np.pad(model.raster.covered, MARGIN_PX)
        height, width = covered.shape
        s_0 = model.small_shape + MARGIN_PX
        inner = cv2.erode(covered.astype(np.uint8), np.ones((2 * EDGE_PX + 1,) * 2, np.uint8)) > 0
        kept = (
            int(
                (
                    np.cumsum(model.texture_variance) < TEXTURE_VARIANCE_SHARE * model.texture_variance.sum()
                ).sum()
            )
            + 1
        )
        axes = model.texture_axes[:kept].reshape(kept, -1, 3)
        rows = _grey(np.concatenate([model.texture.reshape(1, -1, 3), np.ones_like(axes[:1]), axes]))
        images = np.zeros((len(rows), height, width))
        images[:, covered] = rows
        down, across = (slope[:, inner] for slope in np.gradient(images, axis=(1, 2)))
        raw, slopes = images[:, inner], np.stack([across, down], axis=1)  # (b, n), (b, 2, n)
        q, r = qr(raw.T, mode="economic")  # contrast, brightness and the model's axes, made orthonormal
        return cls(
            size=(width, height),
            s_0=s_0,
            s=np.concatenate([_moves(s_0), model.shape_axes.reshape(-1, *s_0.shape).astype(float)]),
            deviation=TEXTURE_SCALE * np.sqrt(model.shape_variance),
            triangles=model.triangles,
            weights=Raster.of(s_0, model.triangles, width, height).weights[np.flatnonzero(inner[covered])],
            a_0=raw[0],
            a=q.T,
            slope_0=slopes[0],
            slope=solve_triangular(r.T, slopes.reshape(len(raw), -1), lower=True).reshape(slopes.shape),
        )

    @cached_property
    def motion(self) -> FloatArray:
        """dW/dp at p = 0, (2, n, 4 + a): how each pixel moves with each parameter."""
        return np.stack([self.weights @ self.s[..., axis].T for axis in (0, 1)])

    @cached_property
    def steepest(self) -> FloatArray:
        """The steepest-descent images of A_0: those of project-out, the same in every round."""
        return self.descent(np.zeros(len(self.a)))

    def descent(self, lam: FloatArray) -> FloatArray:
        """Return (grad A_0 + sum lambda_i grad A_i) dW/dp, (n, 4 + a), less what the A_i explain of it.

        The A_i are orthonormal, so that leaving them out of the images is the elimination of Delta lambda
        from the joint system of shape and appearance: Delta p is the same.
        """
        across, down = self.slope_0 + np.tensordot(lam, self.slope, axes=1)  # (n,), (n,)
        images = across[:, None] * self.motion[0] + down[:, None] * self.motion[1]
        rest: FloatArray = images - self.a.T @ (self.a @ images)
        return rest

    def look(self, view: FloatArray, shape: FloatArray) -> ShapeExplanation:
        """Return how the model explains what the view shows under a shape."""
        x, y = (self.weights @ shape).T
        seen = map_coordinates(view, [y, x], order=1, mode="nearest")  # I(W(x; p)), (n,)
        lam = self.a @ (seen - self.a_0)
        error = seen - self.a_0 - lam @ self.a
        return ShapeExplanation(shape, np.append(np.zeros(4), self.parameters(shape)), lam, error)

    def stiffness(self, start: ShapeExplanation) -> FloatArray:
        """Return how hard each parameter is drawn to 0, (4 + a,), when the noise is that of a start."""
        noise = CORRELATED_PIXELS * np.mean(start.error**2)
        return np.append(np.zeros(4), noise / self.deviation**2)

    def composed(self, shape: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the vertices of W(x; p) o W(x; Delta p)^-1, to first order, as the model can take them.

        The inverse step moves the vertices of s_0 by - sum s_i Delta p_i. The present warp carries this
        on by the mean of the affine maps of the triangles around each vertex.
        """
        move = np.tensordot(delta, self.s, axes=1)  # (m, 2)
        affine = _edges(shape, self.triangles) @ self.unwarp  # (t, 2, 2)
        around = (self.shares @ affine.reshape(-1, 4)).reshape(-1, 2, 2)  # (m, 2, 2)
        return self.plausible(shape - np.einsum("mij,mj->mi", around, move))

    @cached_property
    def unwarp(self) -> FloatArray:
        """The inverse edges (t, 2, 2) of the mean shape's triangles."""
        return np.linalg.pinv(_edges(self.s_0, self.triangles))

    @cached_property
    def shares(self) -> csr_array:
        """The part of each triangle in its vertices, (m, t), by area: a sliver must not steer."""
        area = np.abs(np.linalg.det(_edges(self.s_0, self.triangles))) + 1e-9
        which = np.repeat(np.arange(len(area)), 3)
        total = np.bincount(self.triangles.ravel(), area[which], minlength=len(self.s_0))
        part = area[which] / total[self.triangles.ravel()]
        return csr_array((part, (self.triangles.ravel(), which)), shape=(len(self.s_0), len(area)))

    def parameters(self, shape: FloatArray) -> FloatArray:
        """Return the model's parameters of a shape, (a,)."""
        away = align(shape[None], self.s_0)[0] - self.s_0
        return np.tensordot(self.s[4:], away, axes=2)

    def plausible(self, shape: FloatArray) -> FloatArray:
        """Return the shape that the model can take nearest to one, at its place, size and roll."""
        most = MAX_SHAPE_DEVIATIONS * self.deviation
        p = np.clip(self.parameters(shape), -most, most)
        return transform(similarity(self.s_0, shape), self.s_0 + np.tensordot(p, self.s[4:], axes=1))


@lru_cache(maxsize=2)
def _template(model: AppearanceSpace) -> Template:
    return Template.of(model)


def _grey(rgb: NDArray[Any]) -> FloatArray:
    grey: FloatArray = rgb.mean(axis=-1, dtype=np.float64)
    return grey


def _moves(shape: FloatArray) -> FloatArray:
    """Return the directions (4, m, 2) in which size, roll and place move a shape, of length 1."""
    z = (shape - shape.mean(axis=0)) @ [1, 1j]  # as in geometry.similarity
    moves = np.stack([z, 1j * z, np.ones_like(z), np.full_like(z, 1j)])
    moves /= np.linalg.norm(moves, axis=1, keepdims=True)
    return np.stack([moves.real, moves.imag], axis=-1)


def _edges(shape: FloatArray, triangles: IntArray) -> FloatArray:
    """Return (t, 2, 2): two edges of each triangle, as columns."""
    corners = shape[triangles]  # (t, 3, 2)
    edges: FloatArray = (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)
    return edges
