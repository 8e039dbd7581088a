"""Scan a video: find every face in every frame by detection and propagation.

A small detector runs on every second frame, reduced; in between, and where it finds nothing, the mesh of
the previous frame gives the position, at any roll. Once a second, and after a cut, two detectors search
the whole frame. A new face is also propagated backwards through the last frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import numpy as np

from ksame.analysis.tracking.frame_search import THOROUGH_SEARCH_INTERVAL, _search_frames, _SearchedFrame
from ksame.analysis.tracking.mesh_store import MeshStore
from ksame.analysis.tracking.observations import EmbedCallback, FrameLike, Observations
from ksame.analysis.tracking.propagate import (
    CODE_INTERVAL_FRAMES,
    MIN_DRAWN_EYE_DISTANCE_PX,
    MIN_PRESENCE,
    RGB,
    Grey,
    Tracklet,
    detect_near,
    estimate_motion,
    fit_by_five_points,
    fit_mesh_to_box,
    is_same_face,
    is_within_reach,
    mesh_box,
    occlusion_presence,
    pack_meshes,
    propagate_mesh,
    union_box,
)
from ksame.core.arrays import FloatArray
from ksame.core.boxes import Boxes
from ksame.core.geometry import MESH, eye_distance_and_turn, transform
from ksame.core.parallel import submit
from ksame.models.landmarks import predict_meshes

__all__ = ["scan_video"]

MIN_NEW_FACE_SCORE = 0.65  # of a detection without a mesh: below it hands are detected as faces
LOOK_BACK_FRAMES = 48  # frames through which a new face is propagated backwards
LOST_FRAMES_MAX = 50  # frames for which a lost face is searched
CODES_PER_TRACKLET = 8  # greatest number of embeddings


# One observation without its mesh, which is in the store; an hour of one face has 90,000
_ROW = np.dtype([("frame", "i4"), ("chain", "i4"), ("xyxy", "f4", 4), ("score", "f4"), ("presence", "f4")])


def scan_video(
    frames: Iterable[FrameLike],
    *,
    embed: EmbedCallback | None = None,
    threads: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Observations:
    """Return every face in every frame of a video; frames are processed one by one and not kept.

    Parameters
    ----------
    frames : iterable of frames
        As ``io.read_frames`` yields them, in order.
    embed : callable, optional
        A recogniser, for a few good views of each face; its embeddings stay in memory.
    threads : int
        Workers that search frames ahead. The result does not depend on their number.
    progress : callable, optional
        Called with the number of frames processed.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> dark = [SimpleNamespace(index=i, rgb=np.zeros((48, 64, 3), np.uint8)) for i in range(3)]
    >>> seen = scan_video(dark)
    >>> len(seen), seen.frames
    (0, 3)
    """
    watcher = _VideoScanner(embed)
    for seen in _search_frames(frames, max(1, threads)):
        watcher.look(seen)
        if progress:
            progress(seen.number + 1)
    return watcher.result()


class _VideoScanner:
    """The state of a scan."""

    def __init__(self, embed: EmbedCallback | None) -> None:
        self.embed = embed
        self.rows = bytearray()  # each as in _ROW
        self.meshes = MeshStore()
        self.codes: dict[int, Future[FloatArray]] = {}  # by the numbers of rows
        self.chains: list[Tracklet] = []  # tracked or lost
        self.names = 0
        self.past: deque[tuple[int, RGB, Grey]] = deque(
            maxlen=LOOK_BACK_FRAMES
        )  # reduced, since the last cut
        self.places: dict[int, list[tuple[int, FloatArray]]] = {}  # tracklets and boxes of those frames
        self.cuts: list[int] = []
        self.size = (0, 0)
        self.count = 0

    def look(self, seen: _SearchedFrame) -> None:
        """Process a frame: propagate known faces, then add new ones."""
        self.size, self.count = (seen.rgb.shape[1], seen.rgb.shape[0]), seen.number + 1
        if seen.cut:
            self.cuts.append(seen.number)
            self.chains.clear()
            self.past.clear()
            self.places.clear()
        self.places[seen.number] = []
        lost = [chain for chain in self.chains if not self._follow(seen, chain)]
        self._meet(seen, lost)
        self.chains = [
            chain for chain in self.chains if chain.lost <= LOST_FRAMES_MAX and self._inside(chain)
        ]
        self.past.append((seen.number, seen.small, seen.grey))
        self.places.pop(seen.number - LOOK_BACK_FRAMES, None)

    def _follow(self, seen: _SearchedFrame, chain: Tracklet) -> bool:
        """Propagate a face by its mesh and record it with matching detections; return whether found."""
        if not chain.sure or chain.lost:
            return False
        mesh, presence = propagate_mesh(seen.rgb, chain)
        own, score = mesh_box(mesh), 0.0
        if presence < MIN_PRESENCE or self._taken(seen.number, own):
            return False
        for row in np.flatnonzero(is_same_face(own, seen.boxes.xyxy)):
            score = max(score, float(seen.boxes.score[row]))
            own = union_box(own, seen.boxes.xyxy[row])
            mesh, presence = fit_by_five_points(seen.rgb, seen.boxes[[row]], mesh, presence)
        chain.found(mesh, seen.number, sure=True)
        self._note(seen, chain, own, score, presence)
        return True

    def _meet(self, seen: _SearchedFrame, lost: list[Tracklet]) -> None:
        """Resume lost faces at detections, add new faces and extrapolate the others."""
        for chain in lost:
            free = [
                row for row in range(len(seen.boxes)) if not self._taken(seen.number, seen.boxes.xyxy[row])
            ]
            close = [row for row in free if is_within_reach(chain, seen.boxes.xyxy[row])]
            if close:
                best = max(close, key=lambda row: float(seen.boxes.score[row]))
                self._begin(seen, seen.boxes[[best]], chain)
        for row in range(len(seen.boxes)):
            if not self._taken(seen.number, seen.boxes.xyxy[row]):
                self.chains.append(Tracklet(self.names, np.zeros((MESH, 2)), seen.number))
                self.names += 1
                self._begin(seen, seen.boxes[[row]], self.chains[-1])
        looked = False  # at most one local detection per frame: it is the slowest step
        for chain in lost:
            if chain.frame == seen.number and not chain.lost:
                continue
            self._carry(seen, chain)
            if chain.firm and chain.codes and not looked and (chain.lost <= 3 or chain.lost % 3 == 0):
                looked, found = True, detect_near(seen.rgb, chain)
                if len(found) and not self._taken(seen.number, found.xyxy[0], but=chain.name):
                    self._begin(seen, found, chain)

    def _begin(self, seen: _SearchedFrame, found: Boxes, chain: Tracklet) -> None:
        """Start or resume a tracklet from a detection, then propagate it backwards."""
        own, score, until = found.xyxy[0], float(found.score[0]), chain.frame - chain.lost
        if not chain.firm and 0 < seen.number - chain.meshed < 8:
            # a face without a mesh a few frames ago has none now: it is small or turned away
            place, seems = fit_by_five_points(seen.rgb, found, fit_mesh_to_box(chain.mesh, own), 0.0)
            chain.found(place, seen.number, sure=False)
            self._note(seen, chain, own, score, seems)
            return
        mesh, presence = predict_meshes(seen.rgb, found)
        sure = bool(presence[0] >= MIN_PRESENCE and is_same_face(mesh_box(mesh[0]), found.xyxy)[0])
        new = not chain.mesh.any()
        place, seems = fit_mesh_to_box(mesh[0] if new else chain.mesh, own), 0.0
        if sure:
            place, seems = mesh[0], occlusion_presence(seen.rgb, mesh[0], float(presence[0]))
        place, seems = fit_by_five_points(seen.rgb, found, place, seems)
        chain.found(place, seen.number, sure=sure)
        chain.meshed = seen.number
        self._note(seen, chain, union_box(own, mesh_box(place)) if seems else own, score, seems)
        if sure:
            self._look_back(seen, chain, until)
        elif new and score >= MIN_NEW_FACE_SCORE:
            self._carry_back(seen, chain)

    def _carry(self, seen: _SearchedFrame, chain: Tracklet) -> None:
        """Extrapolate an undetected face by the motion of its surroundings."""
        chain.lost += 1
        ratio = np.array(seen.rgb.shape[1::-1]) / seen.small.shape[1::-1]
        move = estimate_motion(self.past[-1][2], seen.grey, mesh_box(chain.mesh) / np.tile(ratio, 2))
        if move is None:
            chain.mesh, chain.speed = chain.mesh + chain.speed, 0.8 * chain.speed
        else:
            before = chain.mesh.mean(axis=0)
            chain.mesh = transform(move, chain.mesh / ratio) * ratio
            chain.speed = chain.mesh.mean(axis=0) - before
        chain.frame = seen.number
        if move is not None:
            self._add(seen.number, chain.name, mesh_box(chain.mesh), 0.0, chain.mesh, 0.0, None)

    def _carry_back(self, seen: _SearchedFrame, chain: Tracklet) -> None:
        """Extrapolate a new face without a mesh back to the last thorough search."""
        mesh, later = chain.mesh, seen.grey
        ratio = np.array(seen.rgb.shape[1::-1]) / seen.small.shape[1::-1]
        for number, _, grey in list(reversed(self.past))[: THOROUGH_SEARCH_INTERVAL - 1]:
            move = estimate_motion(later, grey, mesh_box(mesh) / np.tile(ratio, 2))
            if move is None:
                break
            mesh, later = transform(move, mesh / ratio) * ratio, grey
            if self._taken(number, mesh_box(mesh), but=chain.name):
                break
            self._add(number, chain.name, mesh_box(mesh), 0.0, mesh, 0.0, None)

    def _inside(self, chain: Tracklet) -> bool:
        """Return whether the centre of a face is still in the frame."""
        middle = chain.mesh.mean(axis=0)
        return not chain.lost or bool(((middle > 0) & (middle < self.size)).all())

    def _look_back(self, seen: _SearchedFrame, chain: Tracklet, until: int) -> None:
        """Propagate a face backwards through the frames in memory, up to its last observation."""
        back = replace(chain)
        for number, small, _ in reversed(self.past):
            if until < seen.number and number <= until:
                break
            ratio = np.array(seen.rgb.shape[1::-1]) / small.shape[1::-1]
            mesh, presence = propagate_mesh(
                small, replace(back, mesh=back.mesh / ratio, speed=back.speed / ratio)
            )
            own = mesh_box(mesh * ratio)
            if presence < MIN_PRESENCE or self._taken(number, own, but=chain.name):
                break
            back.found(mesh * ratio, number, sure=True)
            self._add(number, chain.name, own, 0.0, back.mesh, presence, None)

    def _note(
        self, seen: _SearchedFrame, chain: Tracklet, own: FloatArray, score: float, presence: float
    ) -> None:
        """Record an observation, with an embedding if the view is good and one is due."""
        code = None
        due = chain.codes < CODES_PER_TRACKLET and seen.number - chain.coded >= CODE_INTERVAL_FRAMES
        if self.embed is not None and due and presence >= MIN_PRESENCE:
            apart, turn = eye_distance_and_turn(chain.mesh)
            # always compute a first embedding: without one, the face cannot be assigned to a person
            if apart >= (16 if chain.codes else MIN_DRAWN_EYE_DISTANCE_PX) and (
                turn < 0.3 or not chain.codes
            ):
                code = submit(partial(self.embed, seen.rgb, chain.mesh[None]))
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
        row = self.meshes.put(pack_meshes(mesh, box))
        self.rows += np.array((index, name, box, score, presence), _ROW).tobytes()
        if code is not None:
            self.codes[row] = code
        self.places[index].append((name, own))

    def _taken(self, index: int, xyxy: FloatArray, *, but: int = -1) -> bool:
        """Return whether a box is a face that another tracklet already has in a frame."""
        others = (place for name, place in self.places[index] if name != but)
        return any(bool(is_same_face(place, xyxy[None])[0]) for place in others)

    def result(self) -> Observations:
        """Return the observations in the order of frames."""
        rows = np.frombuffer(self.rows, _ROW)
        order = np.lexsort((rows["score"], rows["presence"], rows["chain"], rows["frame"]))
        # where a face was extrapolated and then found in a frame, keep the latter
        face = rows[["frame", "chain"]][order]
        order = order[np.append(face[1:] != face[:-1], True)[: len(order)]]
        best, codes = rows[order], {row: code.result()[0] for row, code in self.codes.items()}
        return Observations(
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
