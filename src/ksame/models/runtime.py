"""Run networks in OpenVINO: compiled once, callable from any thread, unloaded on request."""

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

_idle_requests: dict[tuple[Any, ...], LifoQueue[Any]] = {}  # infer requests that are free
_call_counts: Counter[tuple[str | Path, tuple[int, ...]]] = Counter()  # calls of each network by input size
_specialised_shapes: dict[str | Path, set[tuple[int, ...]]] = defaultdict(
    set
)  # sizes with a compiled network of their own
LARGE_NETWORK_BYTES = 5_000_000  # size of the weights file
MMAP_MIN_NUMBERS = 16_384  # constants of at least this size are moved to a memory-mapped file
SPECIALISE_AFTER_CALLS, SPECIALISED_SHAPES_MAX = 16, 2
IMAGES = "images"  # key of a network that takes uint8 images instead of floats
UNPACKED = "ksame-network-"  # temporary folder for a network, where the cache is read-only
NETWORK_READERS: dict[str | Path, Callable[[Path], Any]] = {}
"""Readers of weight files that OpenVINO cannot read itself, by the name of the weight."""
_core_lock = threading.Lock()
_compile_locks: dict[tuple[Any, ...], threading.Lock] = defaultdict(
    threading.Lock
)  # each network is compiled by one thread at a time


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
        A weight of the catalogue that OpenVINO can read, .onnx or .tflite; or a file of the user.
    x : array
        The network's input.
    inner : str, optional
        The file inside a bundle such as ``landmarker``.
    shape : tuple of int, optional
        The input's shape, for networks that take any; -1 leaves a side open.
    specialise : bool
        Whether to compile the network again for sizes that are used often. That is faster, but rounds
        differently, and depends on the sizes of earlier calls.
    """
    if specialise and shape is not None and -1 in shape:
        shape = _shape_to_compile(name, shape, x.shape)
    return _infer((name, inner, shape), np.ascontiguousarray(x, dtype=np.float32))


def infer_images(name: str | Path, images: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """Return the outputs of a network for images (n, h, w, 3); safe to call from any thread.

    The network is compiled for this very size and converts the images itself. That takes a third less time
    than ``infer`` with dynamic sides, and the result does not depend on earlier calls. Compiling takes a
    quarter of a second, so use few sizes.
    """
    return _infer((name, None, images.shape, IMAGES), np.ascontiguousarray(images))


def _infer(key: tuple[Any, ...], x: NDArray[Any]) -> list[NDArray[np.float32]]:
    """Return the outputs of the network with this key: name, file in a bundle, shape, IMAGES."""
    idle = _idle_requests.setdefault(key, LifoQueue())
    request = _borrow_request(idle, key)
    request.infer({0: x}, share_inputs=True)  # x is not used after this call
    outputs = [np.array(tensor.data) for tensor in request.output_tensors]  # copies: it owns the buffers
    idle.put(request)
    return outputs


def _shape_to_compile(name: str | Path, shape: tuple[int, ...], own: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to compile a network for: its own for a size that is used often.

    YuNet with dynamic sides takes a third longer for the same numbers.
    """
    _call_counts[name, own] += 1
    if (
        _call_counts[name, own] == SPECIALISE_AFTER_CALLS
        and len(_specialised_shapes[name]) < SPECIALISED_SHAPES_MAX
    ):
        _specialised_shapes[name].add(own)
    return own if own in _specialised_shapes[name] else shape


def preload(name: str | Path, *, inner: str | None = None, shape: tuple[int, ...] | None = None) -> None:
    """Compile a network ahead of ``infer`` with the same options, which takes up to a second."""
    key = name, inner, shape
    if key not in _idle_requests:
        idle = _idle_requests.setdefault(key, LifoQueue())
        idle.put(_borrow_request(idle, key))


def unload(*names: str | Path) -> None:
    """Free the memory of networks; a later ``infer`` compiles them again."""
    for key in list(_idle_requests):
        if key[0] in names:
            del _idle_requests[key]
    _call_glibc("malloc_trim", 0)  # otherwise the allocator keeps the freed memory


def _call_glibc(function: str, *numbers: int) -> None:
    """Call a memory function of glibc; do nothing where there is no glibc."""
    with suppress(OSError, AttributeError, TypeError):
        getattr(ctypes.CDLL(None), function)(*numbers)


def input_shapes(file: Path) -> list[tuple[int, ...]]:
    """Return the shape of each input of a network file of the user; -1 is a dynamic side."""
    try:
        model = core().read_model(file)
    except RuntimeError:
        raise UsageError(f"{file} cannot be read as a network.") from None
    shapes = (port.get_partial_shape() for port in model.inputs)
    return [
        () if s.rank.is_dynamic else tuple(-1 if d.is_dynamic else d.get_length() for d in s) for s in shapes
    ]


def _borrow_request(idle: LifoQueue[Any], key: tuple[Any, ...]) -> Any:
    """Return a free infer request; create one if all are in use."""
    with suppress(Empty):
        return idle.get_nowait()
    with _compile_locks[key]:
        with suppress(Empty):
            return idle.get_nowait()  # another thread compiled the network meanwhile
        mine, *others = _requests(*key)
        for other in others:
            idle.put(other)
        return mine


def _requests(
    name: str | Path, inner: str | None, shape: tuple[int, ...] | None, kind: str = ""
) -> list[Any]:
    """Return new infer requests of one compiled network.

    Photos are processed in parallel threads, so there are as many requests as threads. Two requests of a
    large network share the weights and have a thread each. A small network is compiled again for a second
    thread and runs in the calling thread, because waking another one took a tenth of the time.
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
    # half precision moves a landmark by a third of a pixel, and differs between machines
    count = 1 if size < LARGE_NETWORK_BYTES else 2
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": count}
    # OpenVINO 2026.4 gives wrong results in a second stream with int8 weights
    settings["NUM_STREAMS"] = 1 if _int8_weights(model) else count
    settings["ENABLE_CPU_PINNING"] = False  # otherwise all requests share the first core
    with _discard_pages(filed):
        compiled = core().compile_model(model, "CPU", settings)
        requests = [compiled.create_infer_request() for _ in range(count)]
        if filed is not None:
            nothing = np.zeros([1 if side.is_dynamic else side.get_length() for side in sides], np.float32)
            for request in requests:
                request.infer({0: nothing})  # copies the weights in the layout of the CPU
                request.filed = filed  # keeps the memory alive: OpenVINO may read it again
    del model
    _call_glibc("malloc_trim", 0)  # reading a network takes its size again, and many are read in a row
    return requests


def _taking_images(model: Any) -> Any:
    """Return a network of (n, c, h, w) floats as one of (n, h, w, c) uint8."""
    from openvino import Layout, Type
    from openvino.preprocess import PrePostProcessor

    steps = PrePostProcessor(model)
    steps.input().tensor().set_element_type(Type.u8).set_layout(Layout("NHWC"))
    steps.input().model().set_layout(Layout("NCHW"))
    return steps.build()


@contextmanager
def _file_of(name: str | Path, inner: str | None) -> Iterator[Path]:
    """Yield the file of a network; one inside a bundle is unpacked, as OpenVINO reads files only.

    The unpacked file stays in the cache and is compared with the verified bundle each time. If the cache is
    read-only, it goes to a temporary folder.
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
    """Discard the pages of a memory-mapped file every 10 ms while it is read; needed ones are read again.

    Otherwise OpenVINO holds up to three copies of the weights while it changes their layout.
    """
    if room is None or not hasattr(mmap, "MADV_DONTNEED"):  # not available on Windows
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
    """Unpack int8 weights of a network, move all large weights to an unnamed file, and return its memory map.

    OpenVINO 2026.4 keeps the weights besides its own copy (FaceNet: 100 MB, SFace: 37 MB), and cannot use two
    streams with int8 weights. Pages of a file can be discarded once used.
    """
    from openvino import op

    packed, large = (
        set(_int8_weights(model)),
        list[tuple[Any, Any, Any]](),
    )  # node to replace, its values, their scale
    for one in model.get_ops():
        if one.get_type_name() == "Multiply":  # int8 weights times a scale, as in a .tflite
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
    """Return the int8 weights of a network."""
    constants = (one for one in model.get_ops() if one.get_type_name() == "Constant")
    return [one for one in constants if one.get_element_type().get_type_name() in ("i8", "u8")]


def core() -> Any:
    """Return the OpenVINO core, created by the first caller."""
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
    # left behind by processes that were killed while they unpacked or fetched a network
    folders.remove_ownerless(Path(tempfile.gettempdir()), UNPACKED)
    folders.remove_ownerless(weights.folder(), weights.UNFINISHED)
    # the first use of numpy by OpenVINO deadlocks if two threads make it at once
    _ = openvino.Tensor(np.zeros(1, np.float32)).data
    # M_MMAP_THRESHOLD: return freed networks to the system at once, but keep the memory of 720p frames:
    # allocating each frame anew took 2 of 27 CPU seconds of a clip
    _call_glibc("mallopt", -3, 1 << 22)
    # M_TRIM_THRESHOLD: otherwise the end of the heap is returned whenever it is free, and faulted in again
    _call_glibc("mallopt", -1, 1 << 23)
    # M_ARENA_MAX: the arenas of threads, eight for each core by default, took 30 MB
    _call_glibc("mallopt", -8, max(2, os.cpu_count() or 1))
    return openvino.Core()
