"""Make models/data/artifacts.npz again, with the figures of its card: what tells hats, hands and neighbours.

Usage: python scripts/make_artifacts.py -o artifacts.npz [--sheets FOLDER]

Pictures are drawn by the shipped generator, from styles as portraits have them, and were looked at by eye;
scripts/artifacts.csv says which show what (batch, number, which kinds were judged, which are there). Styles
depend on the settings of portraits/styles.py and glance.py as they were then, so that the script refuses
labels whose pictures it would not draw again. --sheets writes the pictures, for labels of one's own.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import cv2
import numpy as np

from ksame.methods.anonfaces import preview
from ksame.methods.anonfaces.artifact_detector import ARTIFACT_KINDS
from ksame.methods.anonfaces.styles import StylePool
from ksame.methods.anonfaces.targets import SURE_MALE_LOGIT, SURE_NEUTRAL_LOGIT, SURE_SMILE_LOGIT
from ksame.models.generator import ImageGenerator
from ksame.spaces.generator_space import GeneratorSpace

GROUPS, EACH, PEOPLE = 40, 8, 5
PENALTY = {"hat": 3.0, "hand": 0.3, "neighbour": 0.3}
FROM = {"hat": -0.4, "hand": -0.3, "neighbour": -0.4}  # what is refused: chosen for recall, see the card
WHOLE = 7  # batches of which all pictures were judged
FOLDS = 6
LABELS = Path(__file__).with_name("artifacts.csv")


def wish_of(rng):
    """Return what a made-up group wishes for."""
    light = rng.normal(62, 6) if rng.random() < 0.7 else rng.uniform(25, 60)
    return {
        "gender": SURE_MALE_LOGIT * rng.choice([-1, 1]), "age": rng.uniform(20, 65),
        "smile": rng.choice([SURE_SMILE_LOGIT, SURE_NEUTRAL_LOGIT]), "light": light,
        "tone": float(np.degrees(np.arctan2(light - 50, rng.normal(17, 2)))), "yaw": 0.0,
        "nose": rng.normal(59.5, 2), "lips": rng.normal(21, 1.5), "width": rng.normal(189, 6),
    }  # fmt: skip


def batch(number, space, generator):
    """Return the group (n,) and the code (n, d) of pictures that pass a glance, but for what they show."""
    rng = np.random.default_rng([6, number])
    styles = StylePool.drawn(space, generator, 0, rng)
    everybody = space.mean + 0.45 * styles.styles[rng.choice(len(styles.styles), 50, replace=False)]
    plain, none = space.mean + styles.styles, np.zeros((0, len(space.mean)))
    groups, found = [], []
    for group in range(GROUPS):
        target = wish_of(rng)
        near = np.argsort(space.effort(plain, styles.asked(plain, target)))[:40]
        people = space.mean + 0.45 * styles.styles[rng.choice(near, PEOPLE, replace=False)]
        numbers, codes = styles.fitting(people.mean(axis=0), target, people, everybody, none, none)
        for style, code in zip(numbers, codes, strict=True):
            seen = preview._preview_code(generator, space, code)._replace(artifact={})
            if preview._preview_penalty(seen, target) == 0 and groups.count(group) < EACH:
                styles.used.append(int(style))
                groups.append(group)
                found.append(preview._correct_skin(styles, code, seen, target))
    return np.array(groups), np.stack(found)


def fit(x, y, penalty):
    """Return slope (f,) and level: ridge on standardised x (n, f), both classes with the same weight."""
    middle, spread = x.mean(axis=0), x.std(axis=0)
    scale = (spread + 1e-3 * x.std()) * np.sqrt(x.shape[1])
    z, weight = (x - middle) / scale, np.where(y, 0.5 / y.mean(), 0.5 / (1 - y.mean()))
    dual = np.linalg.solve(z @ z.T + 1 + np.diag(penalty / weight), np.where(y, 1.0, -1.0))
    slope = z.T @ dual / scale
    return slope, dual.sum() - middle @ slope


def main() -> None:
    """Draw, learn, say how well it does on groups that were held out, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--sheets", type=Path)
    given = parser.parse_args()
    space, generator = GeneratorSpace.bundled(), ImageGenerator.bundled()
    with LABELS.open() as stream:
        mark, *lines = stream
    rows = list(csv.DictReader(lines))
    of = np.array([[int(row["batch"]), int(row["number"])] for row in rows])
    inner, group = np.zeros((len(rows), 512 * 64), np.float32), np.zeros(len(rows), int)
    drawn = []
    for number in np.unique(of[:, 0]):
        groups, codes = batch(int(number), space, generator)
        drawn.append(np.abs(codes).mean(axis=1))
        mine = of[:, 0] == number
        some = of[mine, 1]
        inner[mine] = generator.preview(space.rows(codes[some], generator)).inner.reshape(len(some), -1)
        group[mine] = 1000 * number + groups[some]
        if given.sheets:
            for at, image in enumerate(space.draw(codes, generator, half=True)):
                cv2.imwrite(str(given.sheets / f"{number}.{at}.png"), image[..., ::-1])
        print(f"batch {number}: {len(codes)} pictures", flush=True)
    all_of_them = np.concatenate(drawn)
    now = f"# {len(all_of_them)} pictures, mean size of their codes {all_of_them.mean():.6f}"
    if now != mark.strip():
        raise SystemExit(f"The labels are of other pictures: {mark.strip()!r}, and now {now!r}.")
    names, number = np.unique(group, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(names)) % FOLDS)[number]
    slopes, levels = [], []
    for kind in ARTIFACT_KINDS:
        judged = np.array([kind in row["judged"].split() for row in rows])
        there = np.array([kind in row["shows"].split() for row in rows])
        told = np.zeros(len(rows))
        for one in range(FOLDS):
            some = judged & (fold != one)
            slope, level = fit(inner[some], there[some], PENALTY[kind])
            told[fold == one] = inner[fold == one] @ slope + level - FROM[kind]
        whole = judged & (of[:, 0] < WHOLE)
        recall, alarm = (np.mean(told[whole & part] > 0) for part in (there, ~there))
        print(f"{kind}: {(whole & there).sum()} of {whole.sum()}, recall {recall:.2f}, alarm {alarm:.3f}")
        slope, level = fit(inner[judged], there[judged], PENALTY[kind])
        slopes.append(slope.reshape(512, 64))
        levels.append(level - FROM[kind])
    slope = np.array(slopes)
    step = (np.abs(slope).max(axis=2, keepdims=True) / 127).astype(np.float32)
    np.savez_compressed(
        given.output, generator=np.array(generator.digest), slope=np.rint(slope / step).astype(np.int8),
        step=step, level=np.array(levels, np.float32),
    )  # fmt: skip


if __name__ == "__main__":
    main()
