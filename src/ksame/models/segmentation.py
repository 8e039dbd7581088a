"""Which pixels show hair, skin, clothes or background, and how much of each pixel is a person."""

from __future__ import annotations

from typing import Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.models.runtime import infer

__all__ = ["PARSER_CLASSES", "SEGMENTATION_WEIGHTS", "ParserClass", "alpha_matte", "parse_person"]

FloatImage = NDArray[np.float32]
ParserClass = Literal["background", "hair", "body skin", "face skin", "clothes", "accessories"]
PARSER_CLASSES: tuple[ParserClass, ...] = get_args(ParserClass)
"""The classes of the parser, in the order of its channels."""
SEGMENTATION_WEIGHTS = ("parser", "modnet")
PARSER_SIDE_PX, MATTE_SIDE_PX = 256, 512


def parse_person(rgb: NDArray[np.uint8]) -> dict[ParserClass, FloatImage]:
    """Return the probability of each class for every pixel of an image (h, w, 3), best square."""
    size = (PARSER_SIDE_PX, PARSER_SIDE_PX)
    x = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    logits = infer("parser", x[None], shape=(1, *size, 3))[0][0]
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    whole = cv2.resize(odds / odds.sum(axis=-1, keepdims=True), rgb.shape[1::-1])
    return {name: np.ascontiguousarray(whole[..., i]) for i, name in enumerate(PARSER_CLASSES)}


def alpha_matte(rgb: NDArray[np.uint8]) -> FloatImage:
    """Return how much of each pixel of an image (h, w, 3), best square, is a person: (h, w), 0 to 1."""
    size = (MATTE_SIDE_PX, MATTE_SIDE_PX)
    x = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA).astype(np.float32) / 127.5 - 1
    alpha = infer("modnet", x.transpose(2, 0, 1)[None], shape=(1, 3, *size))[0][0, 0]
    return np.asarray(cv2.resize(alpha, rgb.shape[1::-1]), np.float32)
