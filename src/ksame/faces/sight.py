"""The first pass over a video: every face in every picture, followed from one picture to the next.

A small network looks at every second picture, reduced; in between, and where it is silent, the mesh of
the picture before says where to look, at any roll. Once a second, and after a cut, two detectors search
the whole picture. A face that appears is also followed backwards, through the last pictures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from ksame.ahead import ahead, later, room
from ksame.core import FloatArray, UsageError
from ksame.faces.detect import DETECTORS, Boxes, in_parts, passes, resized, suppress, turned_back
from ksame.faces.follow import (
    APART,
    MIN_EYES,
    PRESENT,
    RGB,
    Chain,
    Grey,
    box_of,
    by_five,
    flow,
    follow,
    in_the_open,
    near,
    onto,
    pack,
    pose,
    same_face,
    union,
    within_reach,
)
from ksame.faces.landmarks import landmarks
from ksame.faces.shelf import Meshes, Shelf
from ksame.geometry import MESH, transform

__all__ = ["Embed", "Picture", "Sightings", "watch"]

Embed = Callable[[RGB, FloatArray], FloatArray]
"""From a picture and meshes (n, 468, 2) to codes (n, d)."""

SMALL = 640  # px: the longest side at which each picture is searched
EVERY, SWEEP = 2, 25  # pictures from one quick search to the next, and from one thorough search to the next
CHANGE = 20.0  # mean difference of two thumbnails, in grey levels, that means haste or another scene
SURE = 0.8  # score from which a face is surely upright
LIKELY = 0.65  # score from which a detector alone is believed: it takes hands for faces below that
MEMORY = 48  # pictures through which a new face is followed backwards
PATIENCE = 50  # pictures for which a lost face is looked for
EARLY = 12  # pictures that are searched ahead: a thorough search takes as long as following through ten
CODES = 8  # codes of a chain at most


class Picture(Protocol):
    """One picture of a video; ``media.Frame`` is one."""

    @property
    def index(self) -> int:
        """Its number, from 0."""

    @property
    def rgb(self) -> RGB:
        """The pixels (h, w, 3)."""


@dataclass(frozen=True, eq=False)
class Sightings:
    """n sightings of faces as parallel arrays, in the order of pictures.

    Parameters
    ----------
    width, height, frames : int
        Size and number of the pictures.
    cuts : (c,) int
        Pictures that begin another scene.
    frame : (n,) int
        The picture.
    chain : (n,) int
        Sightings of one chain were followed from picture to picture: they are one face.
    xyxy : (n, 4) float32
        What the face takes up: the detector's box and the mesh with its forehead.
    score : (n,) float32
        The detector's confidence; 0 where the face was only followed.
    shape : (n, 468, 2) int16
        The mesh, an array or on a shelf; ``unpack`` gives it in pixels.
    presence : (n,) float32
        How surely the mesh is a face, in [0, 1].
    codes : tuple of ((d,) array or None)
        What a recogniser made of a few good views.
    """

    width: int
    height: int
    frames: int
    cuts: NDArray[np.intp]
    frame: NDArray[np.intp]
    chain: NDArray[np.intp]
    xyxy: NDArray[np.float32]
    score: NDArray[np.float32]
    shape: Meshes
    presence: NDArray[np.float32]
    codes: tuple[FloatArray | None, ...]

    def __post_init__(self) -> None:
        """Check that the arrays are parallel."""
        n = len(self.frame)
        shapes = {"xyxy": (n, 4), "shape": (n, MESH, 2), "chain": (n,), "score": (n,), "presence": (n,)}
        for name, wanted in shapes.items():
            if getattr(self, name).shape != wanted:
                raise UsageError(f"{name} must be {wanted}. Got {getattr(self, name).shape}.")
        if len(self.codes) != n:
            raise UsageError(f"codes must have one entry per sighting: {n}. Got {len(self.codes)}.")

    def __len__(self) -> int:
        """Return the number of sightings."""
        return len(self.frame)


# One sighting without its mesh, which is put away; an hour of one face has 90,000
_ROW = np.dtype([("frame", "i4"), ("chain", "i4"), ("xyxy", "f4", 4), ("score", "f4"), ("presence", "f4")])


class _Seen(NamedTuple):
    """One picture on its way: what a worker found in it."""

    number: int
    rgb: RGB
    small: RGB
    grey: Grey  # of the small one
    cut: bool
    boxes: Boxes


def watch(
    frames: Iterable[Picture],
    *,
    embed: Embed | None = None,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Sightings:
    """Return every face in every picture of a video; pictures are looked at one by one and let go.

    Parameters
    ----------
    frames : iterable of pictures
        Those of ``media.frames``, in order.
    embed : callable, optional
        A recogniser, for a few good views of each face; its codes stay in memory.
    threads : int
        Workers that search pictures ahead. The result does not depend on their number.
    progress : callable, optional
        Told how many pictures were seen.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> dark = [SimpleNamespace(index=i, rgb=np.zeros((48, 64, 3), np.uint8)) for i in range(3)]
    >>> seen = watch(dark)
    >>> len(seen), seen.frames
    (0, 3)
    """
    watcher = _Watcher(embed)
    for seen in _searched(frames, max(1, threads)):
        watcher.look(seen)
        if progress:
            progress(seen.number + 1)
    return watcher.result()


def _searched(frames: Iterable[Picture], threads: int) -> Iterator[_Seen]:
    """Yield the pictures with what the detectors find, searched a few ahead."""
    waiting: deque[tuple[Future[_Seen], float]] = deque()
    last = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for frame, small, grey, change in ahead(_reduced(frames)):
            waiting.append((pool.submit(_search, frame.index, frame.rgb, small, grey, change), change))
            if len(waiting) > room(frame.rgb.nbytes, least=2 * threads, most=EARLY):
                yield _judged(waiting, last)
                last = waiting.popleft()[1]
        while waiting:
            yield _judged(waiting, last)
            last = waiting.popleft()[1]


def _reduced(frames: Iterable[Picture]) -> Iterator[tuple[Picture, RGB, Grey, float]]:
    """Yield each picture, the same reduced, that in grey, and how much it differs from the one before."""
    thumb: NDArray[np.float32] | None = None
    for frame in frames:
        small = resized(frame.rgb, min(1.0, SMALL / max(frame.rgb.shape[:2])))
        grey = np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8)
        before, thumb = thumb, cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
        yield frame, small, grey, 0.0 if before is None else _change(before, thumb)


def _change(before: NDArray[np.float32], now: NDArray[np.float32]) -> float:
    """Return by how many grey levels two thumbnails differ, negative if by their light alone."""
    a, b = before - before.mean(), now - now.mean()
    alike = (a * b).sum() / np.sqrt(max((a * a).sum() * (b * b).sum(), 1e-9))
    change = float(np.abs(before - now).mean())
    return change if alike < 0.5 else -change


def _judged(waiting: deque[tuple[Future[_Seen], float]], last: float) -> _Seen:
    """Return the first picture in the queue, and say whether it begins another scene.

    A cut is one large change between small ones; a camera that is swung round makes many.
    """
    change, after = waiting[0][1], waiting[1][1] if len(waiting) > 1 else 0.0
    cut = change > CHANGE and change > 2 * max(abs(last), abs(after))
    return waiting[0][0].result()._replace(cut=cut)


def _search(index: int, rgb: RGB, small: RGB, grey: Grey, change: float) -> _Seen:
    """Search one picture: thoroughly now and then or in a new scene, quickly every second time."""
    boxes = Boxes.none()
    if change > CHANGE or index % SWEEP == 0:
        boxes = _thorough(rgb, small)
    elif index % EVERY == 0 or abs(change) > CHANGE:
        ratio = np.array(rgb.shape[1::-1]) / small.shape[1::-1]
        boxes = DETECTORS["yunet"][0](small).moved(lambda p: p * ratio)
    return _Seen(index, rgb, small, grey, False, boxes)


def _thorough(rgb: RGB, small: RGB) -> Boxes:
    """Search a picture with two detectors up to 1280 px; where no face is sure, also turned."""
    view = resized(rgb, min(1.0, 2 * SMALL / max(rgb.shape[:2])))
    ratio, fine = (np.array(rgb.shape[1::-1]) / x.shape[1::-1] for x in (small, view))
    quick, other = (DETECTORS[name][0] for name in ("yunet", "blazeface"))
    beside = later(partial(passes, other, view))
    found = [passes(quick, small).moved(lambda p: p * ratio)]
    if view.shape != small.shape:
        height, width = (side + -side % 32 for side in small.shape[:2])  # what the network pads it to
        found.append(in_parts(quick, view, height, width).moved(lambda p: p * fine))
    found.append(beside.result().moved(lambda p: p * fine))
    sure = any((boxes.score >= SURE).any() for boxes in found)
    for turns in () if sure else (1, 2, 3):
        lying = quick(np.ascontiguousarray(np.rot90(small, turns)))
        found.append(turned_back(lying, turns, small.shape).moved(lambda p: p * ratio))
    boxes = Boxes.join(found)
    return boxes[suppress(boxes.xyxy, boxes.score)]


class _Watcher:
    """What is known while the pictures go by."""

    def __init__(self, embed: Embed | None) -> None:
        self.embed = embed
        self.rows = bytearray()  # each as in _ROW
        self.meshes = Shelf()
        self.codes: dict[int, Future[FloatArray]] = {}  # by the numbers of rows
        self.chains: list[Chain] = []  # those that are followed or looked for
        self.names = 0
        self.past: deque[tuple[int, RGB, Grey]] = deque(maxlen=MEMORY)  # reduced, since the last cut
        self.places: dict[int, list[tuple[int, FloatArray]]] = {}  # chains and boxes of those pictures
        self.cuts: list[int] = []
        self.size = (0, 0)
        self.count = 0

    def look(self, seen: _Seen) -> None:
        """Follow what is known, then take up what is new."""
        self.size, self.count = (seen.rgb.shape[1], seen.rgb.shape[0]), seen.number + 1
        if seen.cut:
            self.cuts.append(seen.number)
            self.chains.clear()
            self.past.clear()
            self.places.clear()
        self.places[seen.number] = []
        lost = [chain for chain in self.chains if not self._follow(seen, chain)]
        self._meet(seen, lost)
        self.chains = [chain for chain in self.chains if chain.lost <= PATIENCE and self._inside(chain)]
        self.past.append((seen.number, seen.small, seen.grey))
        self.places.pop(seen.number - MEMORY, None)

    def _follow(self, seen: _Seen, chain: Chain) -> bool:
        """Look for a face by its mesh; note it with the detector's word on it, if that was asked."""
        if not chain.sure or chain.lost:
            return False
        mesh, presence = follow(seen.rgb, chain)
        own, score = box_of(mesh), 0.0
        if presence < PRESENT or self._taken(seen.number, own):
            return False
        for row in np.flatnonzero(same_face(own, seen.boxes.xyxy)):
            score = max(score, float(seen.boxes.score[row]))
            own = union(own, seen.boxes.xyxy[row])
            mesh, presence = by_five(seen.rgb, seen.boxes[[row]], mesh, presence)
        chain.found(mesh, seen.number, sure=True)
        self._note(seen, chain, own, score, presence)
        return True

    def _meet(self, seen: _Seen, lost: list[Chain]) -> None:
        """Take up lost faces again where a detector sees them, and new ones; carry the others along."""
        for chain in lost:
            free = [
                row for row in range(len(seen.boxes)) if not self._taken(seen.number, seen.boxes.xyxy[row])
            ]
            close = [row for row in free if within_reach(chain, seen.boxes.xyxy[row])]
            if close:
                best = max(close, key=lambda row: float(seen.boxes.score[row]))
                self._begin(seen, seen.boxes[[best]], chain)
        for row in range(len(seen.boxes)):
            if not self._taken(seen.number, seen.boxes.xyxy[row]):
                self.chains.append(Chain(self.names, np.zeros((MESH, 2)), seen.number))
                self.names += 1
                self._begin(seen, seen.boxes[[row]], self.chains[-1])
        looked = False  # one closer look a picture: it is the slowest thing here
        for chain in lost:
            if chain.frame == seen.number and not chain.lost:
                continue
            self._carry(seen, chain)
            if chain.firm and chain.codes and not looked and (chain.lost <= 3 or chain.lost % 3 == 0):
                looked, found = True, near(seen.rgb, chain)
                if len(found) and not self._taken(seen.number, found.xyxy[0], but=chain.name):
                    self._begin(seen, found, chain)

    def _begin(self, seen: _Seen, found: Boxes, chain: Chain) -> None:
        """Begin or go on with a chain from a detection; then look back."""
        own, score, until = found.xyxy[0], float(found.score[0]), chain.frame - chain.lost
        if not chain.firm and 0 < seen.number - chain.meshed < 8:
            # a face that had no mesh a moment ago has none now: small or turned away
            place, seems = by_five(seen.rgb, found, onto(chain.mesh, own), 0.0)
            chain.found(place, seen.number, sure=False)
            self._note(seen, chain, own, score, seems)
            return
        mesh, presence = landmarks(seen.rgb, found)
        sure = bool(presence[0] >= PRESENT and same_face(box_of(mesh[0]), found.xyxy)[0])
        new = not chain.mesh.any()
        place, seems = onto(mesh[0] if new else chain.mesh, own), 0.0
        if sure:
            place, seems = mesh[0], in_the_open(seen.rgb, mesh[0], float(presence[0]))
        place, seems = by_five(seen.rgb, found, place, seems)
        chain.found(place, seen.number, sure=sure)
        chain.meshed = seen.number
        self._note(seen, chain, union(own, box_of(place)) if seems else own, score, seems)
        if sure:
            self._look_back(seen, chain, until)
        elif new and score >= LIKELY:
            self._carry_back(seen, chain)

    def _carry(self, seen: _Seen, chain: Chain) -> None:
        """Move a face that nobody sees along with what is around it."""
        chain.lost += 1
        ratio = np.array(seen.rgb.shape[1::-1]) / seen.small.shape[1::-1]
        move = flow(self.past[-1][2], seen.grey, box_of(chain.mesh) / np.tile(ratio, 2))
        if move is None:
            chain.mesh, chain.speed = chain.mesh + chain.speed, 0.8 * chain.speed
        else:
            before = chain.mesh.mean(axis=0)
            chain.mesh = transform(move, chain.mesh / ratio) * ratio
            chain.speed = chain.mesh.mean(axis=0) - before
        chain.frame = seen.number
        if move is not None:
            self._add(seen.number, chain.name, box_of(chain.mesh), 0.0, chain.mesh, 0.0, None)

    def _carry_back(self, seen: _Seen, chain: Chain) -> None:
        """Move a new face without a mesh back to the last thorough search: it may have been there since."""
        mesh, later = chain.mesh, seen.grey
        ratio = np.array(seen.rgb.shape[1::-1]) / seen.small.shape[1::-1]
        for number, _, grey in list(reversed(self.past))[: SWEEP - 1]:
            move = flow(later, grey, box_of(mesh) / np.tile(ratio, 2))
            if move is None:
                break
            mesh, later = transform(move, mesh / ratio) * ratio, grey
            if self._taken(number, box_of(mesh), but=chain.name):
                break
            self._add(number, chain.name, box_of(mesh), 0.0, mesh, 0.0, None)

    def _inside(self, chain: Chain) -> bool:
        """Whether the middle of a face, or of where it should be, is still in the picture."""
        middle = chain.mesh.mean(axis=0)
        return not chain.lost or bool(((middle > 0) & (middle < self.size)).all())

    def _look_back(self, seen: _Seen, chain: Chain, until: int) -> None:
        """Follow a face backwards through the pictures in memory, as far as it was last seen."""
        back = replace(chain)
        for number, small, _ in reversed(self.past):
            if until < seen.number and number <= until:
                break
            ratio = np.array(seen.rgb.shape[1::-1]) / small.shape[1::-1]
            mesh, presence = follow(small, replace(back, mesh=back.mesh / ratio, speed=back.speed / ratio))
            own = box_of(mesh * ratio)
            if presence < PRESENT or self._taken(number, own, but=chain.name):
                break
            back.found(mesh * ratio, number, sure=True)
            self._add(number, chain.name, own, 0.0, back.mesh, presence, None)

    def _note(self, seen: _Seen, chain: Chain, own: FloatArray, score: float, presence: float) -> None:
        """Write a sighting down, with a code if the view is good and one is due."""
        code = None
        due = chain.codes < CODES and seen.number - chain.coded >= APART
        if self.embed is not None and due and presence >= PRESENT:
            apart, turn = pose(chain.mesh)
            # a first code in any case: without one nobody knows whose face to draw
            if apart >= (16 if chain.codes else MIN_EYES) and (turn < 0.3 or not chain.codes):
                code = later(partial(self.embed, seen.rgb, chain.mesh[None]))
                chain.coded, chain.codes = seen.number, chain.codes + 1
        self._add(seen.number, chain.name, own, score, chain.mesh, presence, code)

    def _add(
        self,
        index: int,
        name: int,
        own: FloatArray,
        score: float,
        mesh: FloatArray,
        presence: float,
        code: Future[FloatArray] | None,
    ) -> None:
        box = own.astype(np.float32)
        row = self.meshes.put(pack(mesh, box))
        self.rows += np.array((index, name, box, score, presence), _ROW).tobytes()
        if code is not None:
            self.codes[row] = code
        self.places[index].append((name, own))

    def _taken(self, index: int, xyxy: FloatArray, *, but: int = -1) -> bool:
        """Whether a box is a face that this picture has already, of another chain than one."""
        others = (place for name, place in self.places[index] if name != but)
        return any(bool(same_face(place, xyxy[None])[0]) for place in others)

    def result(self) -> Sightings:
        """Return the sightings in the order of pictures."""
        rows = np.frombuffer(self.rows, _ROW)
        order = np.lexsort((rows["score"], rows["presence"], rows["chain"], rows["frame"]))
        # a picture in which a face was carried and then found keeps the find
        face = rows[["frame", "chain"]][order]
        order = order[np.append(face[1:] != face[:-1], True)[: len(order)]]
        best, codes = rows[order], {row: code.result()[0] for row, code in self.codes.items()}
        return Sightings(
            width=self.size[0],
            height=self.size[1],
            frames=self.count,
            cuts=np.array(self.cuts, dtype=np.intp),
            frame=best["frame"].astype(np.intp),
            chain=best["chain"].astype(np.intp),
            xyxy=best["xyxy"],
            score=best["score"],
            shape=self.meshes.of(order),
            presence=best["presence"],
            codes=tuple(codes.get(row) for row in order.tolist()),
        )
