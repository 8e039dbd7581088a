"""Fit the appearance model to an image [G6 4.2, eq. 3].

Both solvers find the shape p and the appearance lambda that minimise the squares of
A_0(x) + sum lambda_i A_i(x) - I(W(x; p)) over the pixels x of the mean shape. Both are inverse
compositional: the step is computed on the model, where no derivative depends on the warp, and the warp
is composed with the inverse of the step. The symbols are those of the algorithms' authors, Matthews
and Baker, and Baker, whom [G6] cites: s_0, s_i, A_0, A_i are the model's s_bar, Phi_s, t_bar, Phi_t.

Deviations: shapes have a Gaussian prior with the variances of the model's components, and the error
of the start is the noise; steps are damped after Levenberg, so that the cost only falls; grey levels
are fitted, and contrast and brightness are free, since they do not depend on the shape; lambda is
solved for again after each step instead of being updated to first order.
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
TEXTURE_VARIANCE_SHARE = 0.95  # of the texture that is fitted: the last axes would also explain a wrong shape
VIEW_MARGIN_PX = 24  # around the mean shape, to allow for inaccurate starts
EXCLUDED_EDGE_PX = 2  # at the face's edge, where the background may appear
CONVERGED_STEP_PX = 0.02  # mean landmark step, in pixels of the coded texture
MAX_SHAPE_DEVIATIONS = 3.0  # standard deviations of a plausible shape parameter
CORRELATED_PIXELS = 10.0  # number of pixels that count as one independent measurement


class Fit(NamedTuple):
    """The result of fitting a model to an image."""

    points: FloatArray  # (m, 2), in pixels of the image
    residual: float  # root mean square of (3), in grey levels
    iterations: int
    converged: bool


def fit(
    model: AppearanceSpace,
    rgb: NDArray[np.uint8],
    start: FloatArray,
    *,
    method: FittingMethod = "simultaneous",
    max_iterations: int = 40,
) -> Fit:
    """Refine approximate landmarks to where the model explains the image best [G6 eq. 3].

    Parameters
    ----------
    model : AppearanceSpace
        The model.
    rgb : (h, w, 3) uint8
        The image.
    start : (m, 2)
        Approximate landmarks, accurate to about 10 % of the interocular distance.
    method : str
        ``simultaneous`` takes the derivatives at the current appearance, ``project-out`` at the mean:
        slightly faster and less robust.
    max_iterations : int
        Greatest number of steps.

    Examples
    --------
    Fit the model's mean face from a start that is 6 pixels off:

    >>> model = AppearanceSpace.bundled()
    >>> image = model.decode(np.zeros((1, len(model.deviation))))[0]
    >>> truth = model.shape * image.shape[1] / 256
    >>> fitted = fit(model, image, truth + [5.0, -3.0])
    >>> fitted.converged, bool(np.linalg.norm(fitted.points - truth, axis=1).mean() < 0.5)
    (True, True)
    """
    _check_fit(model, start, method, max_iterations)
    template = _template(model)
    to_view = similarity(start, template.s_0)
    view = _grey(crop(rgb, to_view, *template.size))
    current = template.evaluate(view, template.limit_shape(transform(to_view, start)))
    penalty = template.shape_penalty(current)
    damping, converged, iterations = 0.01, False, 0
    while not converged and iterations < max_iterations:
        iterations += 1
        images = template.mean_steepest_descent if method == "project-out" else template.descent(current.lam)
        delta = solve_step(images, current.error, penalty, current.p, damping)
        new = template.evaluate(view, template.compose(current.shape, delta))
        if new.cost(penalty) < current.cost(penalty):
            converged = bool(np.linalg.norm(new.shape - current.shape, axis=1).mean() < CONVERGED_STEP_PX)
            current, damping = new, damping / 10
        else:
            damping *= 10
            converged = damping > 1e3  # not even the smallest gradient step lowers the cost
    points = transform(cv2.invertAffineTransform(to_view), current.shape)
    return Fit(points, float(np.sqrt(np.mean(current.error**2))), iterations, converged)


def _check_fit(model: AppearanceSpace, start: FloatArray, method: str, max_iterations: int) -> None:
    """Check the arguments of ``fit``."""
    if method not in get_args(FittingMethod):
        raise UsageError(f"method must be one of {', '.join(get_args(FittingMethod))}. Got {method!r}.")
    if np.shape(start) != model.shape.shape:
        raise UsageError(f"start must have shape {model.shape.shape}, like the model. Got {np.shape(start)}.")
    if max_iterations < 1:
        raise UsageError(f"max_iterations must be at least 1. Got {max_iterations}.")


def solve_step(
    images: FloatArray, error: FloatArray, penalty: FloatArray, p: FloatArray, damping: float
) -> FloatArray:
    """Return Delta p = H^-1 J^T e, where J (n, c) are steepest-descent images and e (n,) is the error.

    Each parameter p (c,) is pulled towards 0 by its penalty (c,); damping shortens the step.
    """
    hessian = images.T @ images + np.diag(penalty)  # (c, c)
    gradient = images.T @ error + penalty * p  # the inverse step is applied: p becomes p - Delta p
    delta: FloatArray = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
    return delta


class ShapeEvaluation(NamedTuple):
    """A shape in the view and the appearance that explains the image under it."""

    shape: FloatArray  # (m, 2)
    p: FloatArray  # (4 + a,): its parameters; those of position, size and roll are 0 (not penalised)
    lam: FloatArray  # (b,): the appearance of least error
    error: FloatArray  # (n,): I(W(x; p)) - A_0 - sum lambda_i A_i

    def cost(self, penalty: FloatArray) -> float:
        """Return the sum of squares (3) plus the penalty of the shape."""
        return float(np.sum(self.error**2) + np.sum(penalty * self.p**2))


@dataclass(frozen=True, eq=False)
class Template:
    """The terms of the fit that depend only on the model, at the scale of the coded texture.

    Parameters
    ----------
    size : (int, int)
        Width and height of the view to which an image is cropped.
    s_0 : (m, 2)
        The mean shape in the view.
    s : (4 + a, m, 2)
        Shape axes: size, roll, x, y, and those of the model.
    deviation : (a,)
        Standard deviations along the model's axes.
    triangles : (t, 3)
        The mesh.
    weights : (n, m) sparse
        The n fitted pixels x as weighted means of vertices.
    a_0, a : (n,), (b, n)
        Mean appearance and orthonormal axes.
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
        """Precompute the terms of a model."""
        covered = np.pad(model.raster.covered, VIEW_MARGIN_PX)
        height, width = covered.shape
        s_0 = model.small_shape + VIEW_MARGIN_PX
        inner = cv2.erode(covered.astype(np.uint8), np.ones((2 * EXCLUDED_EDGE_PX + 1,) * 2, np.uint8)) > 0
        variance = np.cumsum(model.texture_variance)
        kept = int((variance < TEXTURE_VARIANCE_SHARE * model.texture_variance.sum()).sum()) + 1
        axes = model.texture_axes[:kept].reshape(kept, -1, 3)
        rows = _grey(np.concatenate([model.texture.reshape(1, -1, 3), np.ones_like(axes[:1]), axes]))
        images = np.zeros((len(rows), height, width))
        images[:, covered] = rows
        down, across = (slope[:, inner] for slope in np.gradient(images, axis=(1, 2)))
        raw, slopes = images[:, inner], np.stack([across, down], axis=1)  # (b, n), (b, 2, n)
        q, r = qr(raw.T, mode="economic")  # orthonormal contrast, brightness and axes of the model
        return cls(
            size=(width, height),
            s_0=s_0,
            s=np.concatenate([_similarity_axes(s_0), model.shape_axes.reshape(-1, *s_0.shape).astype(float)]),
            deviation=TEXTURE_SCALE * np.sqrt(model.shape_variance),
            triangles=model.triangles,
            weights=Raster.of(s_0, model.triangles, width, height).weights[np.flatnonzero(inner[covered])],
            a_0=raw[0],
            a=q.T,
            slope_0=slopes[0],
            slope=solve_triangular(r.T, slopes.reshape(len(raw), -1), lower=True).reshape(slopes.shape),
        )

    @cached_property
    def warp_jacobian(self) -> FloatArray:
        """dW/dp at p = 0, (2, n, 4 + a): the motion of each pixel with each parameter."""
        return np.stack([self.weights @ self.s[..., axis].T for axis in (0, 1)])

    @cached_property
    def mean_steepest_descent(self) -> FloatArray:
        """The steepest-descent images of A_0, used by project-out in every iteration."""
        return self.descent(np.zeros(len(self.a)))

    def descent(self, lam: FloatArray) -> FloatArray:
        """Return (grad A_0 + sum lambda_i grad A_i) dW/dp, (n, 4 + a), projected orthogonally to the A_i.

        The A_i are orthonormal, so that this projection eliminates Delta lambda from the joint system of
        shape and appearance; Delta p is the same.
        """
        across, down = self.slope_0 + np.tensordot(lam, self.slope, axes=1)  # (n,), (n,)
        images = across[:, None] * self.warp_jacobian[0] + down[:, None] * self.warp_jacobian[1]
        rest: FloatArray = images - self.a.T @ (self.a @ images)
        return rest

    def evaluate(self, view: FloatArray, shape: FloatArray) -> ShapeEvaluation:
        """Fit the appearance to the view under a shape."""
        x, y = (self.weights @ shape).T
        image = map_coordinates(view, [y, x], order=1, mode="nearest")  # I(W(x; p)), (n,)
        lam = self.a @ (image - self.a_0)
        error = image - self.a_0 - lam @ self.a
        return ShapeEvaluation(shape, np.append(np.zeros(4), self.parameters(shape)), lam, error)

    def shape_penalty(self, start: ShapeEvaluation) -> FloatArray:
        """Return the weight of each squared parameter, (4 + a,), with the error of the start as noise."""
        noise = CORRELATED_PIXELS * np.mean(start.error**2)
        return np.append(np.zeros(4), noise / self.deviation**2)

    def compose(self, shape: FloatArray, delta: FloatArray) -> FloatArray:
        """Return the vertices of W(x; p) o W(x; Delta p)^-1, to first order, limited to plausible shapes.

        The inverse step moves the vertices of s_0 by - sum s_i Delta p_i. The current warp maps this
        motion by the mean of the affine maps of the triangles around each vertex.
        """
        motion = np.tensordot(delta, self.s, axes=1)  # (m, 2)
        affine = _edges(shape, self.triangles) @ self.inverse_edges  # (t, 2, 2)
        vertex_affine = (self.vertex_weights @ affine.reshape(-1, 4)).reshape(-1, 2, 2)  # (m, 2, 2)
        return self.limit_shape(shape - np.einsum("mij,mj->mi", vertex_affine, motion))

    @cached_property
    def inverse_edges(self) -> FloatArray:
        """The inverse edges (t, 2, 2) of the mean shape's triangles."""
        return np.linalg.pinv(_edges(self.s_0, self.triangles))

    @cached_property
    def vertex_weights(self) -> csr_array:
        """The weight of each triangle at its vertices, (m, t), by area, so that slivers do not dominate."""
        area = np.abs(np.linalg.det(_edges(self.s_0, self.triangles))) + 1e-9
        triangle = np.repeat(np.arange(len(area)), 3)
        total = np.bincount(self.triangles.ravel(), area[triangle], minlength=len(self.s_0))
        weight = area[triangle] / total[self.triangles.ravel()]
        return csr_array((weight, (self.triangles.ravel(), triangle)), shape=(len(self.s_0), len(area)))

    def parameters(self, shape: FloatArray) -> FloatArray:
        """Return the model's parameters of a shape, (a,)."""
        offset = align(shape[None], self.s_0)[0] - self.s_0
        return np.tensordot(self.s[4:], offset, axes=2)

    def limit_shape(self, shape: FloatArray) -> FloatArray:
        """Return the nearest plausible shape at the same position, size and roll."""
        limit = MAX_SHAPE_DEVIATIONS * self.deviation
        p = np.clip(self.parameters(shape), -limit, limit)
        return transform(similarity(self.s_0, shape), self.s_0 + np.tensordot(p, self.s[4:], axes=1))


@lru_cache(maxsize=2)
def _template(model: AppearanceSpace) -> Template:
    return Template.of(model)


def _grey(rgb: NDArray[Any]) -> FloatArray:
    grey: FloatArray = rgb.mean(axis=-1, dtype=np.float64)
    return grey


def _similarity_axes(shape: FloatArray) -> FloatArray:
    """Return the unit directions (4, m, 2) in which size, roll and position move a shape."""
    z = (shape - shape.mean(axis=0)) @ [1, 1j]  # as in geometry.similarity
    axes = np.stack([z, 1j * z, np.ones_like(z), np.full_like(z, 1j)])
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    return np.stack([axes.real, axes.imag], axis=-1)


def _edges(shape: FloatArray, triangles: IntArray) -> FloatArray:
    """Return (t, 2, 2): two edges of each triangle, as columns."""
    corners = shape[triangles]  # (t, 3, 2)
    edges: FloatArray = (corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1)
    return edges
