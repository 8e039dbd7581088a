"""Heads: nothing inside a region reaches the picture, regions are unions, fills come from outside.

KSAME_HEAD_CASES sets how many random cases the byte test tries; 100 by default.
"""

from __future__ import annotations

import os
from functools import cache

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from backgrounds import background
from heads import bundled_heads
from ksame.core.context import Context
from ksame.core.geometry import FRAME, transform
from ksame.io.sources import Source
from ksame.methods.heads.renderer import HeadRenderer
from ksame.render.head import fill
from ksame.render.head.canvas import CANVAS_SIDE, compose, place_head, warp
from ksame.render.head.cutout import cut_head
from ksame.render.head.region import group_region, template
from ksame.render.head.renderer import PlacedHead, blank_mask, render_heads
from ksame.render.scene import RenderedScenes, ScenePlan

CASES = int(os.environ.get("KSAME_HEAD_CASES", "100"))
CONTENTS = ("noise", "black", "white", "another person")
seeds = st.integers(0, 10**6)


@cache
def people():
    return bundled_heads(4, seed=5)


@cache
def cut_heads():
    """The new heads, from portraits of synthetic people on a plain background."""
    portraits = []
    for person in people()[:2]:
        matte = person.matte[..., None]
        portraits.append((person.rgb * matte + 150 * (1 - matte)).round().astype(np.uint8))
    return [cut_head(rgb, person.mesh) for rgb, person in zip(portraits, people(), strict=False)]


def paste(photo, person, placement):
    """Paste a person, shoulders and all, where a placement says."""
    matrix = compose(placement, cv2.invertAffineTransform(place_head(person.mesh)))
    size = photo.shape[1::-1]
    matte = warp(person.matte, matrix, size)[..., None]
    photo[:] = (photo * (1 - matte) + warp(person.rgb, matrix, size) * matte).round()


def random_placement(rng, shape):
    scale, roll = rng.uniform(0.2, 0.7), rng.normal(0, 0.2)
    turn = scale * np.array([[np.cos(roll), -np.sin(roll)], [np.sin(roll), np.cos(roll)]])
    at = rng.uniform(-0.1, 1.1, 2) * shape[1::-1]  # at the border and beyond it as well
    return np.column_stack([turn, at - turn @ FRAME.five.mean(axis=0)])


def random_scene(rng):
    """A photo, the heads that go into it, and boxes of faces that are covered."""
    photo = background(rng, *rng.integers(90, 260, 2).tolist())
    placed = []
    for _ in range(rng.integers(1, 4)):
        placement, head = random_placement(rng, photo.shape), cut_heads()[rng.integers(2)]
        paste(photo, people()[rng.integers(4)], placement)
        masks = [template(rng.uniform(260, 300), margin=rng.uniform(0, 30))]
        placed.append(PlacedHead(placement, head, group_region(masks, head.silhouette())))
    if rng.random() < 0.25:
        photo = cv2.cvtColor(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    corner = rng.uniform(0, 0.7, 2) * photo.shape[1::-1]
    covered = np.concatenate([corner, corner + rng.uniform(8, 60, 2)])[None][: rng.integers(2)]
    return photo, placed, covered.reshape(-1, 4)


def refilled(rng, photo, blank, content, placed):
    """The photo with something else inside the regions."""
    other = photo.copy()
    if content == "noise":
        other[:] = rng.integers(0, 256, photo.shape)
    elif content == "another person":
        for one in placed:
            paste(other, people()[rng.integers(4)], one.placement)
    else:
        other[:] = 255 * (content == "white")
    return np.where(blank[..., None], other, photo)


@pytest.mark.parametrize("block", range(max(1, CASES // 20)))
def test_whoever_stands_inside_the_regions_the_picture_is_the_same(block):
    rng = np.random.default_rng(block)
    for _ in range(20 // len(CONTENTS)):
        photo, placed, covered = random_scene(rng)
        blank = blank_mask(photo.shape, placed, covered)
        expected = render_heads(photo, placed, covered)
        assert np.array_equal(expected[~blank], photo[~blank]), "outside it is the photo"
        for content in CONTENTS:
            other = refilled(rng, photo, blank, content, placed)
            assert np.array_equal(render_heads(other, placed, covered), expected), content


@pytest.mark.parametrize("suffix", [".jpg", ".png"])
def test_whoever_stands_inside_the_regions_the_file_is_the_same(suffix):
    rng = np.random.default_rng(11)
    photo, placed, _ = random_scene(rng)
    covered = np.array([[4.0, 4, 30, 34]])
    renderer = HeadRenderer(
        [one.head for one in placed], [one.region for one in placed], np.arange(len(placed)),
        [one.placement for one in placed],
    )  # fmt: skip
    blank = blank_mask(photo.shape, placed, covered)
    files = set()
    for content in ("noise", "black", "another person"):
        source = Source("a" + suffix, refilled(rng, photo, blank, content, placed))
        scene = ScenePlan(source, np.arange(len(placed)), covered)
        scenes = RenderedScenes({"a" + suffix: scene}, renderer, Context(seed=1))
        files.add(scenes["a" + suffix])
    assert len(files) == 1


def random_mask(rng):
    x, y = rng.integers(150, 450, 2)
    mask = np.zeros((CANVAS_SIDE, CANVAS_SIDE), np.uint8)
    cv2.ellipse(mask, (int(x), int(y)), rng.integers(20, 140, 2).tolist(), 0, 0, 360, 1, -1)
    return mask.astype(bool)


@settings(max_examples=25)
@given(seeds)
def test_a_region_contains_every_mask_and_grows_with_each(seed):
    rng = np.random.default_rng(seed)
    *masks, silhouette = [random_mask(rng) for _ in range(4)]
    region = group_region(masks, silhouette)
    assert all((region | ~mask).all() for mask in (*masks, silhouette))
    assert np.array_equal(region, group_region(masks[::-1], silhouette)), "in any order"
    fewer = group_region(masks[:-1], silhouette)
    assert (region | ~fewer).all(), "never smaller with another mask"


def random_hole(rng):
    h, w = rng.integers(24, 70, 2).tolist()
    image = background(rng, h, w)
    hole = np.zeros((h, w), np.uint8)
    centre = (int(rng.integers(0, w)), int(rng.integers(0, h)))
    cv2.ellipse(hole, centre, rng.integers(4, 14, 2).tolist(), 0, 0, 360, 1, -1)
    source = (hole == 0) & (rng.random((h, w)) < 0.999)
    return image, hole > 0, source, rng.integers(0, 2, (h, 1)).repeat(w, 1).astype(np.uint8)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_fills_read_source_pixels_only_and_stay_within_their_range(seed):
    rng = np.random.default_rng(seed)
    image, hole, source, label = random_hole(rng)
    other = np.where(source[..., None], image, rng.integers(0, 256, image.shape)).astype(np.uint8)
    filled = fill.patch_fill(image, hole, source, label)
    assert np.array_equal(filled, fill.patch_fill(other, hole, source, label))
    assert np.array_equal(fill.push_pull(image, source), fill.push_pull(other, source))
    low, high = image[source].min(axis=0), image[source].max(axis=0)
    drift = fill.MAX_DRIFT_LEVELS + fill.MAX_RIM_LEVELS
    assert (filled[hole] >= low - drift - 1e-2).all() and (filled[hole] <= high + drift + 1e-2).all()


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_the_patch_search_nears_the_best_of_all_patches(seed):
    rng = np.random.default_rng(seed)
    image, hole, source, _ = random_hole(rng)
    level = fill.Level.of(fill.push_pull(image, source), hole, source, 1)
    if not level.has_sources or not len(level.targets):
        return
    best = oracles.nearest_patches(level.image, level.counts, level.centres, level.targets)
    np.testing.assert_allclose(
        level.cost(best),
        oracles.patch_costs(level.image, level.counts, best, level.targets),
        rtol=1e-4,
    )
    field = level.start()
    costs = [level.cost(field)]
    for _ in range(4):
        field = level.search(field, rng)
        costs.append(level.cost(field))
        assert (costs[-1] <= costs[-2]).all(), "no round makes it worse"
        assert level.allowed[tuple(field.T)].all()
    assert (costs[-1] >= level.cost(best) * (1 - 1e-4) - 1e-3).all(), "nothing beats trying all"
    closed = (costs[0] - costs[-1]).sum() / max(float((costs[0] - level.cost(best)).sum()), 1e-9)
    assert closed > 0.5 or costs[0].sum() <= 1.05 * level.cost(best).sum()


def test_one_colour_is_filled_with_itself():
    image = np.full((40, 50, 3), (10, 120, 200), np.uint8)
    hole = np.zeros((40, 50), bool)
    hole[10:30, 15:40] = True
    image[hole] = 0
    for filled in (
        fill.push_pull(image, ~hole),
        fill.patch_fill(image, hole, ~hole, np.zeros((40, 50), np.uint8)),
    ):
        np.testing.assert_allclose(filled, np.broadcast_to((10, 120, 200), image.shape), atol=1e-2)


def test_a_placement_takes_the_five_points_of_a_face_to_the_photo():
    person = people()[0]
    placement = place_head(person.mesh)
    assert np.abs(transform(placement, FRAME.five) - person.mesh[[33, 263, 1, 61, 291]]).max() < 40
