"""Networks in OpenVINO: opened once, asked from any thread, let go when they are done."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import tempfile
import threading
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksame.core import folders
from ksame.core.errors import UsageError
from ksame.models import weights

__all__ = ["NETWORK_READERS", "core", "infer", "infer_images", "input_shapes", "preload", "unload"]

_idle_requests: dict[tuple[Any, ...], LifoQueue[Any]] = {}  # infer requests that nobody is using
_call_counts: Counter[tuple[str | Path, tuple[int, ...]]] = (
    Counter()
)  # how often each network, for which sizes
_specialised_shapes: dict[str | Path, set[tuple[int, ...]]] = defaultdict(set)  # those for which it is opened
LARGE_NETWORK_BYTES = 5_000_000  # bytes of a network's file
MMAP_MIN_NUMBERS = 16_384  # numbers among weights that are kept in a file
SPECIALISE_AFTER_CALLS, SPECIALISED_SHAPES_MAX = 16, 2  # from how often on, and how many of them at most
IMAGES = "images"  # marks a network that takes bytes of images instead of floats
UNPACKED = "ksame-network-"  # a folder for one, where the cache cannot be written
NETWORK_READERS: dict[str | Path, Callable[[Path], Any]] = {}
"""Who makes a network of a file that OpenVINO cannot read, by the weight's name."""
_core_lock = threading.Lock()
_compile_locks: dict[tuple[Any, ...], threading.Lock] = defaultdict(
    threading.Lock
)  # one at a time of each network


def infer(
    name: str | Path,
    x: NDArray[Any],
    *,
    inner: str | None = None,
    shape: tuple[int, ...] | None = None,
    specialise: bool = True,
) -> list[NDArray[np.float32]]:
    """Return the outputs of a network for one input; safe to call from any thread.

    Parameters
    ----------
    name : str or Path
        A weight of the catalogue that OpenVINO can read, .onnx or .tflite; or a file of one's own.
    x : array
        The network's input.
    inner : str, optional
        The file inside a bundle such as ``landmarker``.
    shape : tuple of int, optional
        The input's shape, for networks that take any; -1 leaves a side open.
    specialise : bool
        Whether sizes that are asked for often get a network of their own. That is faster, but rounds
        differently, and which sizes they are depends on what was asked before.
    """
    if specialise and shape is not None and -1 in shape:
        shape = _shape_to_compile(name, shape, x.shape)
    return _infer((name, inner, shape), np.ascontiguousarray(x, dtype=np.float32))


def infer_images(name: str | Path, images: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """Return the outputs of a network for images (n, h, w, 3); safe to call from any thread.

    The network is compiled for this very size and converts the images itself. That takes a third less time
    than ``infer`` with sides left open, and does not depend on what was asked before. Compiling takes a
    quarter of a second: ask for few sizes.
    """
    return _infer((name, None, images.shape, IMAGES), np.ascontiguousarray(images))


def _infer(key: tuple[Any, ...], x: NDArray[Any]) -> list[NDArray[np.float32]]:
    """Return the outputs of the network of this key: name, file in a bundle, shape, and whether of images."""
    idle = _idle_requests.setdefault(key, LifoQueue())
    request = _borrow_request(idle, key)
    request.infer({0: x}, share_inputs=True)  # it is not looked at any more afterwards
    outputs = [np.array(tensor.data) for tensor in request.output_tensors]  # copies: it owns the buffers
    idle.put(request)
    return outputs


def _shape_to_compile(name: str | Path, shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape by which to open a network: a size that is asked for often has one of its own.

    With its sides left open YuNet takes a third longer, for the same numbers.
    """
    _call_counts[name, own] += 1
    if (
        _call_counts[name, own] == SPECIALISE_AFTER_CALLS
        and len(_specialised_shapes[name]) < SPECIALISED_SHAPES_MAX
    ):
        _specialised_shapes[name].add(own)
    return own if own in _specialised_shapes[name] else shape


def preload(name: str | Path, *, inner: str | None = None, shape: tuple[int, ...] | None = None) -> None:
    """Open a network before ``infer`` is called with the same options: that takes up to a second."""
    key = name, inner, shape
    if key not in _idle_requests:
        idle = _idle_requests.setdefault(key, LifoQueue())
        idle.put(_borrow_request(idle, key))


def unload(*names: str | Path) -> None:
    """Free the memory of networks that will not be asked soon; a later ``infer`` opens them again."""
    for key in list(_idle_requests):
        if key[0] in names:
            del _idle_requests[key]
    _call_glibc("malloc_trim", 0)  # what was freed is kept otherwise, and another network needs as much


def _call_glibc(function: str, *numbers: int) -> None:
    """Call a function of the C library on memory; elsewhere than on Linux there is nothing to call."""
    with suppress(OSError, AttributeError, TypeError):
        getattr(ctypes.CDLL(None), function)(*numbers)


def input_shapes(file: Path) -> list[tuple[int, ...]]:
    """Return the shape of each input of a network in a file of one's own; -1 is a side left open."""
    try:
        model = core().read_model(file)
    except RuntimeError:
        raise UsageError(f"{file} cannot be read as a network.") from None
    shapes = (port.get_partial_shape() for port in model.inputs)
    return [
        () if s.rank.is_dynamic else tuple(-1 if d.is_dynamic else d.get_length() for d in s) for s in shapes
    ]


def _borrow_request(idle: LifoQueue[Any], key: tuple[Any, ...]) -> Any:
    """Return an infer request that nobody is using; new ones where all are in use."""
    with suppress(Empty):
        return idle.get_nowait()
    with _compile_locks[key]:
        with suppress(Empty):
            return idle.get_nowait()  # another thread opened the network meanwhile
        mine, *others = _requests(*key)
        for other in others:
            idle.put(other)
        return mine


def _requests(
    name: str | Path, inner: str | None, shape: tuple[int, ...] | None, kind: str = ""
) -> list[Any]:
    """Return new infer requests of one compiled network.

    Photos are processed in parallel threads, so there are as many of these as threads that ask at a time. Of
    a large network two share the weights and have a thread each; a small one is opened again where two ask,
    and works in the thread that asks: to wake another one and to wait for it took a tenth of the time.
    """
    with _file_of(name, inner) as file:
        size = file.stat().st_size
        model = NETWORK_READERS.get(name, core().read_model)(file)
    if shape is not None:
        model.reshape([shape[0], shape[3], *shape[1:3]] if kind == IMAGES else shape)
    if kind == IMAGES:
        model = _taking_images(model)
    sides = model.input(0).get_partial_shape()
    fixed = sides.rank.is_static and all(side.is_static for side in list(sides)[1:])
    filed = mmap_weights(model) if size >= LARGE_NETWORK_BYTES and fixed else None
    # full precision: half of it moves a landmark by a third of a pixel, not alike on all machines
    count = 1 if size < LARGE_NETWORK_BYTES else 2
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": count}
    # OpenVINO 2026.4 computes nonsense in a second stream with packed weights
    settings["NUM_STREAMS"] = 1 if _int8_weights(model) else count
    settings["ENABLE_CPU_PINNING"] = False  # or all of them would share the first core
    with _discard_pages(filed):
        compiled = core().compile_model(model, "CPU", settings)
        requests = [compiled.create_infer_request() for _ in range(count)]
        if filed is not None:
            nothing = np.zeros([1 if side.is_dynamic else side.get_length() for side in sides], np.float32)
            for request in requests:
                request.infer({0: nothing})  # copies them, in the order that the processor likes
                request.filed = filed  # it may look at them again, so they live as long as it does
    del model
    _call_glibc(
        "malloc_trim", 0
    )  # to read a network takes as much memory again, and many are opened in a row
    return requests


def _taking_images(model: Any) -> Any:
    """Return a network of (n, c, h, w) floats as one of (n, h, w, c) bytes."""
    from openvino import Layout, Type
    from openvino.preprocess import PrePostProcessor

    steps = PrePostProcessor(model)
    steps.input().tensor().set_element_type(Type.u8).set_layout(Layout("NHWC"))
    steps.input().model().set_layout(Layout("NCHW"))
    return steps.build()


@contextmanager
def _file_of(name: str | Path, inner: str | None) -> Iterator[Path]:
    """Give the file of a network; that of one inside a bundle must have a name of its own to be read.

    It stays in the cache, and is compared with the verified bundle each time. Where the cache cannot be
    written, it lies in a temporary folder meanwhile.
    """
    file = name if isinstance(name, Path) else weights.path(name)
    if inner is None:
        yield file
        return
    with zipfile.ZipFile(file) as bundle:
        data = bundle.read(inner)
    kept = weights.folder() / f"{name}-{inner}"
    with _core_lock, suppress(OSError):
        if not kept.is_file() or kept.read_bytes() != data:
            with weights.unfinished() as room:
                (room / inner).write_bytes(data)
                (room / inner).replace(kept)
    if kept.is_file() and kept.read_bytes() == data:
        yield kept
        return
    with folders.scratch_folder(Path(tempfile.gettempdir()), UNPACKED) as room:
        (room / inner).write_bytes(data)
        yield room / inner


@contextmanager
def _discard_pages(room: mmap.mmap | None) -> Iterator[None]:
    """Give back the memory of a file that is read meanwhile, again and again: what is needed comes anew.

    Some networks are laid out in another order before they are copied, so that there are three of each.
    """
    if room is None or not hasattr(mmap, "MADV_DONTNEED"):  # on Windows there is no such thing
        yield
        return
    done = threading.Event()

    def forget() -> None:
        while not done.wait(0.01):
            room.madvise(mmap.MADV_DONTNEED)

    helper = threading.Thread(target=forget)
    helper.start()
    try:
        yield
    finally:
        done.set()
        helper.join()
        room.madvise(mmap.MADV_DONTNEED)


def mmap_weights(model: Any) -> mmap.mmap | None:
    """Unpack weights of int8 in a network, lay all large ones into a file, and return that as memory.

    Left to itself OpenVINO 2026.4 keeps them besides its own copy (FaceNet: 100 MB, SFace: 37), and cannot
    work in two streams where they are packed. In a file without a name they can be forgotten once used.
    """
    from openvino import op

    packed, large = (
        set(_int8_weights(model)),
        list[tuple[Any, Any, Any]](),
    )  # what to replace, its numbers, by what
    for one in model.get_ops():
        if one.get_type_name() == "Multiply":  # weights, as floats, times a scale: as in a .tflite
            floats, scale = (one.input_value(i).get_node() for i in (0, 1))
            if floats.get_type_name() == "Convert" and scale.get_type_name() == "Constant":
                bytes8 = floats.input_value(0).get_node()
                large += [(one, bytes8.data, scale.data)] if bytes8 in packed else []
        elif one.get_type_name() == "Constant" and one.get_element_type().get_type_name() == "f32":
            large += [(one, one.data, np.float32(1))] if one.data.size >= MMAP_MIN_NUMBERS else []
    if not large:
        return None
    with tempfile.TemporaryFile() as file:
        file.truncate(4 * sum(numbers.size for _, numbers, _ in large))
        room = mmap.mmap(file.fileno(), 0)
    at = 0
    for one, numbers, times in large:
        floats = np.frombuffer(room, np.float32, numbers.size, at).reshape(numbers.shape)
        np.multiply(numbers, times, out=floats)
        one.output(0).replace(op.Constant(floats, shared_memory=True).output(0))
        at += floats.nbytes
    return room


def _int8_weights(model: Any) -> list[Any]:
    """Return the weights of a network that are packed into 8 bits."""
    constants = (one for one in model.get_ops() if one.get_type_name() == "Constant")
    return [one for one in constants if one.get_element_type().get_type_name() in ("i8", "u8")]


def core() -> Any:
    """Return the one OpenVINO core; whoever asks first makes it, the others wait."""
    with _core_lock:
        return _core()


@cache
def _core() -> Any:
    """Import OpenVINO, late (0.3 s) and without its telemetry."""
    # `import openvino` reports itself to its maker where openvino_telemetry is installed. A None in
    # sys.modules makes that import fail, and OpenVINO then uses its own silent stand-in.
    before = sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    try:
        import openvino
    finally:
        if before is None:
            del sys.modules["openvino_telemetry"]
    # what a process that was killed while it unpacked or fetched one left behind
    folders.remove_ownerless(Path(tempfile.gettempdir()), UNPACKED)
    folders.remove_ownerless(weights.folder(), weights.UNFINISHED)
    # its first look at numpy, alone: two threads that take it at once wait for each other for ever
    _ = openvino.Tensor(np.zeros(1, np.float32)).data
    # M_MMAP_THRESHOLD: networks are given back as they are freed, not kept in pieces; pictures of 720p are
    # kept, because to get as much from the system anew for each took 2 of 27 processor seconds of a clip
    _call_glibc("mallopt", -3, 1 << 22)
    # M_TRIM_THRESHOLD: or the end of what is kept goes back once it is free, and comes anew page by page
    _call_glibc("mallopt", -1, 1 << 23)
    # M_ARENA_MAX: what threads keep for themselves, eight times as often as there are cores, was 30 MB
    _call_glibc("mallopt", -8, max(2, os.cpu_count() or 1))
    return openvino.Core()
