"""Random meshes and face sets of the right shape; no real face."""

import numpy as np

from ksame.core.faces import FaceSet
from ksame.core.geometry import FRAME, LEFT_EYE, MESH, MOUTH_LEFT, MOUTH_RIGHT, OVAL, RIGHT_EYE


def mesh(five=FRAME.five):
    """Return a mesh with the given five points and an oval around them."""
    five = np.asarray(five, float)
    points = np.tile(five[2], (MESH, 1))
    turn = np.linspace(0, 2 * np.pi, len(OVAL), endpoint=False)
    across, down = five[1] - five[0], five[3:].mean(axis=0) - five[:2].mean(axis=0)
    middle = five[:2].mean(axis=0) + 0.4 * down
    points[list(OVAL)] = middle + np.outer(np.sin(turn), across) - 1.35 * np.outer(np.cos(turn), down)
    points[list(LEFT_EYE)], points[list(RIGHT_EYE)] = five[0], five[1]
    points[[MOUTH_LEFT, MOUTH_RIGHT]] = five[3:]
    return points


def faces(n=6, seed=0):
    """Return n random blocky images on the canonical frame, one subject each."""
    coarse = np.random.default_rng(seed).integers(40, 216, size=(n, 10, 8, 3))
    rgb = coarse.repeat(32, axis=1).repeat(32, axis=2).astype(np.uint8)
    names = np.arange(n).astype(str)
    return FaceSet(rgb, np.tile(mesh(), (n, 1, 1)), np.zeros((n, 4)), np.ones(n), names, names)
