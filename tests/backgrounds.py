"""Procedural backgrounds for composites: varied textures and face-like objects, but no face."""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np

BLOCK = (1500, 2000)  # px, height and width: larger photos consist of blocks of different scenes
SKIN = np.array([[236, 200, 178], [205, 158, 128], [150, 104, 78], [88, 58, 44]], np.float32)


def background(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return (height, width, 3) uint8: brick, leaves, facades, cloth and sky, in uneven light, with noise."""
    rows, columns = (max(1, round(side / block)) for side, block in zip((height, width), BLOCK, strict=True))
    tops, lefts = (
        np.linspace(0, side, parts + 1).round().astype(int)
        for side, parts in ((height, rows), (width, columns))
    )
    image = np.empty((height, width, 3), np.uint8)
    for top, bottom in pairwise(tops):
        for left, right in pairwise(lefts):
            image[top:bottom, left:right] = _block(rng, bottom - top, right - left)
    return image


def distract(rng: np.random.Generator, image: np.ndarray, count: int) -> None:
    """Draw objects that detectors may take for faces: clocks, sockets, cars, balls, heads from behind."""
    kinds = (_clock, _socket, _car, _ball, _back_of_head)
    for i in range(count):
        size = int(rng.uniform(24, 200))
        x, y = (int(rng.uniform(size, side - size)) for side in image.shape[1::-1])
        kinds[i % len(kinds)](rng, image, (x, y), size)


def smooth(rng: np.random.Generator, height: int, width: int, cells: float) -> np.ndarray:
    """Return (height, width) float32: noise with about ``cells`` cells over the longer side, deviation 1."""
    scale = cells / max(height, width)
    grid = rng.standard_normal((max(2, round(height * scale)) + 1, max(2, round(width * scale)) + 1))
    return cv2.resize(grid.astype(np.float32), (width, height), interpolation=cv2.INTER_CUBIC)


def _block(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return one scene: two or three textures with irregular borders between them."""
    textures = rng.permutation(np.array([_brick, _leaves, _facade, _cloth, _sky, _stripes], dtype=object))
    image = textures[0](rng, height, width)
    for texture in textures[1 : rng.integers(2, 4)]:
        mask = (smooth(rng, height, width, rng.uniform(2, 6)) > 0.3).astype(np.uint8)
        cv2.copyTo(texture(rng, height, width), mask, image)
    light = 1 + 0.18 * smooth(rng, height, width, 3) + 0.04 * smooth(rng, height, width, 60)
    noise = rng.normal(0, rng.uniform(2, 5), (height, width)).astype(np.float32)
    lit = image * np.clip(light, 0.4, 1.5)[..., None] + noise[..., None]
    return np.clip(lit, 0, 255).astype(np.uint8)


def _colour(rng: np.random.Generator, low: float = 30, high: float = 230) -> np.ndarray:
    """Return a random colour (3,) float32 of low saturation."""
    grey = rng.uniform(low, high)
    return np.clip(grey + rng.normal(0, 25, 3), 0, 255).astype(np.float32)


def _brick(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    tall = int(rng.uniform(10, 40))
    wide, joint = 3 * tall, max(2, tall // 8)
    row = np.arange(height) // tall
    column = (np.arange(width)[None] + (row % 2)[:, None] * wide // 2) // wide
    shades = rng.normal(1, 0.15, (row.max() + 1, column.max() + 1)).astype(np.float32)
    base = np.array([150, 80, 60], np.float32) if rng.random() < 0.5 else _colour(rng, 90, 190)
    image = base * shades[row[:, None], column][..., None]
    across = (np.arange(width)[None] + (row % 2)[:, None] * wide // 2) % wide < joint
    image[across | (np.arange(height) % tall < joint)[:, None]] = _colour(rng, 140, 200)
    return np.clip(image, 0, 255).astype(np.uint8)


def _leaves(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    image = np.full((height, width, 3), (28, 40, 18), np.uint8)
    size = rng.uniform(5, 24)
    for _ in range(min(9000, int(2.5 * height * width / size**2 / 3))):
        at = int(rng.uniform(0, width)), int(rng.uniform(0, height))
        axes = int(size * rng.uniform(0.6, 1.4)) + 1, int(size * rng.uniform(0.2, 0.5)) + 1
        green = rng.uniform(50, 190)
        colour = (green * rng.uniform(0.4, 1.1), green, green * rng.uniform(0.15, 0.5))
        cv2.ellipse(image, at, axes, rng.uniform(0, 180), 0, 360, colour, -1)
    return image


def _facade(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    image = np.empty((height, width, 3), np.uint8)
    image[:] = _colour(rng, 110, 220)
    step = int(rng.uniform(40, 180))
    for top in range(step // 4, height, step):
        for left in range(step // 4, width, step):
            pane = _colour(rng, 15, 140).tolist()
            cv2.rectangle(image, (left, top), (left + step // 2, top + int(0.65 * step)), pane, -1)
            for bar in (left + step // 4, left, left + step // 2):
                cv2.line(
                    image, (bar, top), (bar, top + int(0.65 * step)), (225, 225, 220), max(1, step // 30)
                )
    return image


def _cloth(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """Return overlapping shapes in all colours, like a crowd's clothes from behind."""
    image = np.full((height, width, 3), 90, np.uint8)
    size = rng.uniform(25, 140)
    for _ in range(min(4000, int(3 * height * width / size**2))):
        turn = rng.uniform(0, 2 * np.pi) + np.sort(rng.uniform(0, 2 * np.pi, 7))
        reach = size * rng.uniform(0.4, 1, 7)
        middle = rng.uniform((0, 0), (width, height))
        shape = middle + reach[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        colour = SKIN[rng.integers(len(SKIN))] if rng.random() < 0.1 else _colour(rng)
        cv2.fillPoly(image, [shape.round().astype(np.int32)], colour.tolist(), cv2.LINE_AA)
    return image


def _sky(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    high, low = np.array([90, 140, 205], np.float32), np.array([215, 220, 225], np.float32)
    down = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    cloud = sum(smooth(rng, height, width, 4 * 2**i) / 2**i for i in range(4))
    image = high + down * (low - high) + 22 * cloud[..., None]
    return np.clip(image, 0, 255).astype(np.uint8)


def _stripes(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    angle, period = rng.uniform(0, np.pi), rng.uniform(8, 60)
    y, x = np.ogrid[:height, :width]
    wave = np.sin(
        (x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period + smooth(rng, height, width, 6)
    )
    share = np.clip(2 * wave + 0.5, 0, 1).astype(np.float32)[..., None]
    return (share * _colour(rng) + (1 - share) * _colour(rng)).astype(np.uint8)


def _clock(rng: np.random.Generator, image: np.ndarray, at: tuple[int, int], size: int) -> None:
    half = size // 2
    cv2.circle(image, at, half, (40, 35, 30), -1, cv2.LINE_AA)
    cv2.circle(image, at, int(0.88 * half), (235, 232, 220), -1, cv2.LINE_AA)
    for reach, width in ((0.8, size // 40), (0.5, size // 22)):
        turn = rng.uniform(0, 2 * np.pi)
        tip = at[0] + int(reach * half * np.cos(turn)), at[1] + int(reach * half * np.sin(turn))
        cv2.line(image, at, tip, (30, 30, 30), width + 1, cv2.LINE_AA)
    for hour in np.arange(12) * np.pi / 6:
        mark = int(at[0] + 0.75 * half * np.cos(hour)), int(at[1] + 0.75 * half * np.sin(hour))
        cv2.circle(image, mark, max(1, size // 40), (30, 30, 30), -1, cv2.LINE_AA)


def _socket(rng: np.random.Generator, image: np.ndarray, at: tuple[int, int], size: int) -> None:
    half, (x, y) = size // 2, at
    cv2.rectangle(image, (x - half, y - half), (x + half, y + half), (228, 226, 220), -1)
    cv2.circle(image, at, int(0.7 * half), (205, 203, 197), -1, cv2.LINE_AA)
    for side in (-1, 1):
        cv2.circle(image, (x + side * int(0.3 * half), y), max(1, size // 14), (25, 25, 25), -1, cv2.LINE_AA)
    cv2.line(
        image, (x - half // 6, y + half // 2), (x + half // 6, y + half // 2), (60, 60, 60), size // 20 + 1
    )


def _car(rng: np.random.Generator, image: np.ndarray, at: tuple[int, int], size: int) -> None:
    half, (x, y) = size // 2, at
    paint = _colour(rng, 40, 200).tolist()
    cv2.ellipse(image, (x, y - half // 3), (int(0.8 * half), half // 2), 0, 180, 360, (60, 70, 80), -1)
    cv2.rectangle(image, (x - half, y - half // 3), (x + half, y + half // 2), paint, -1)
    for side in (-1, 1):
        cv2.ellipse(
            image, (x + side * int(0.7 * half), y), (half // 4, half // 7), 0, 0, 360, (245, 245, 235), -1
        )
    cv2.rectangle(image, (x - half // 3, y + half // 8), (x + half // 3, y + half // 3), (20, 20, 20), -1)


def _ball(rng: np.random.Generator, image: np.ndarray, at: tuple[int, int], size: int) -> None:
    tone = SKIN[rng.integers(len(SKIN))]
    for step in range(10):
        centre = at[0] - step * size // 60, at[1] - step * size // 60
        colour = np.clip(tone * (0.6 + 0.06 * step), 0, 255).tolist()
        cv2.circle(image, centre, int(size / 2 * (1 - step / 10)), colour, -1, cv2.LINE_AA)


def _back_of_head(rng: np.random.Generator, image: np.ndarray, at: tuple[int, int], size: int) -> None:
    """Draw a head from behind: hair, an ear at each side and a neck, but no face."""
    half, (x, y) = size // 2, at
    tone = SKIN[rng.integers(len(SKIN))].tolist()
    cv2.rectangle(image, (x - half // 3, y), (x + half // 3, y + half), tone, -1)
    for side in (-1, 1):
        cv2.ellipse(image, (x + side * int(0.62 * half), y), (half // 8, half // 5), 0, 0, 360, tone, -1)
    hair = _colour(rng, 20, 110).tolist()
    cv2.ellipse(
        image, (x, y - half // 6), (int(0.62 * half), int(0.8 * half)), 0, 0, 360, hair, -1, cv2.LINE_AA
    )
