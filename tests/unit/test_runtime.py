"""Networks: the plain ones from any thread, let go and opened again."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from queue import LifoQueue

import numpy as np
import pytest

from ksame.models import runtime, weights
from ksame.models.catalogue import CATALOGUE, Weight

INPUTS = {
    "yunet": (1, 3, 64, 96), "blazeface": (1, 192, 192, 3), "centerface": (1, 3, 64, 96),
    "mesh": (1, 192, 192, 3), "emotion": (1, 64, 64, 1),
    "age": (1, 3, 64, 64), "gender": (1, 3, 32, 32),
}  # fmt: skip


@pytest.mark.weights
@pytest.mark.parametrize("name", INPUTS)
def test_infer_is_the_plain_network_from_any_thread(name):
    shape = INPUTS[name]
    x = np.random.default_rng(0).random((3, *shape), dtype=np.float32)
    core = runtime.core()
    model = core.read_model(weights.path(name))
    model.reshape(shape)
    plain = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = [[np.array(value) for value in plain(each).values()] for each in x]
    with ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(lambda i: runtime.infer(name, x[i % 3], shape=shape), range(9)))
    for i, output in enumerate(outputs):
        for mine, theirs in zip(output, expected[i % 3], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.weights
def test_a_network_that_was_let_go_is_opened_again():
    x = np.random.default_rng(0).random(INPUTS["gender"], dtype=np.float32)
    (before,) = runtime.infer("gender", x)
    runtime.unload("gender")
    assert not any(key[0] == "gender" for key in runtime._idle_requests)
    runtime.preload("gender")
    ready = {id(request) for request in runtime._idle_requests["gender", None, None].queue}
    (after,) = runtime.infer("gender", x)
    np.testing.assert_array_equal(before, after)
    now = {id(request) for request in runtime._idle_requests["gender", None, None].queue}
    assert now == ready, "none was opened anew"


@pytest.mark.weights
def test_packed_weights_are_unpacked_once_and_both_requests_agree():
    """OpenVINO alone gives nonsense for the second of two requests, and takes 100 MB more."""
    x = np.random.default_rng(0).random((1, 160, 160, 3), dtype=np.float32)
    runtime.unload("facenet")
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda _: runtime.infer("facenet", x)[0], range(6)))
    core = runtime.core()
    one = {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1}
    plain = core.compile_model(core.read_model(weights.path("facenet")), "CPU", one)
    expected = np.array(plain(x)[0])
    for output in outputs:
        np.testing.assert_array_equal(output, outputs[0])
        np.testing.assert_allclose(output, expected, atol=0.01 * np.linalg.norm(expected))
    requests = list(runtime._idle_requests["facenet", None, None].queue)
    assert len(requests) == 2
    assert requests[0].filed is requests[1].filed
    assert len(requests[0].filed) == pytest.approx(4 * weights.CATALOGUE["facenet"].size, rel=0.05)


@pytest.mark.weights
@pytest.mark.parametrize("shape", [None, (1, 3, 112, 112)])
def test_large_weights_lie_in_a_file_and_give_the_same_numbers(shape):
    x = np.random.default_rng(0).random((1, 3, 112, 112), dtype=np.float32)
    runtime.unload("sface")
    (output,) = runtime.infer("sface", x, shape=shape)
    core = runtime.core()
    plain = core.compile_model(weights.path("sface"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_allclose(output, plain(x)[0], atol=1e-4 * np.abs(plain(x)[0]).max())
    for request in list(runtime._idle_requests["sface", None, shape].queue):
        assert len(request.filed) == pytest.approx(weights.CATALOGUE["sface"].size, rel=0.05)
    runtime.unload("sface")


@pytest.mark.weights
def test_a_large_network_for_pictures_of_any_size_is_left_as_it_is():
    """Nothing can be shown to it before there is a picture."""
    x = np.random.default_rng(0).random((1, 3, 64, 96), dtype=np.float32)
    runtime.unload("centerface")
    runtime.infer("centerface", x, shape=(1, 3, -1, -1))
    (request, *_) = runtime._idle_requests["centerface", None, (1, 3, -1, -1)].queue
    assert not hasattr(request, "filed")
    runtime.unload("centerface")


@pytest.mark.weights
def test_weights_that_are_packed_in_another_way_are_left_to_openvino_alone(monkeypatch):
    """A network of somebody else's may keep them so: then one stream serves both requests."""
    x = np.random.default_rng(0).random((1, 160, 160, 3), dtype=np.float32)
    runtime.unload("facenet")
    (expected,) = runtime.infer("facenet", x)
    runtime.unload("facenet")
    monkeypatch.setattr(runtime, "mmap_weights", lambda model: None)
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda _: runtime.infer("facenet", x)[0], range(6)))
    runtime.unload("facenet")
    for output in outputs:
        np.testing.assert_allclose(output, expected, atol=0.01 * np.linalg.norm(expected))


@pytest.mark.weights
def test_openvino_reports_to_nobody():
    runtime.core()
    assert "openvino_telemetry" not in sys.modules


@pytest.mark.weights
def test_a_network_inside_a_bundle_is_opened(tmp_path, monkeypatch):
    x = np.random.default_rng(0).random((1, 3, 32, 32))
    (expected,) = runtime.infer("gender", x)
    bundle = tmp_path / "bundle"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.write(weights.path("gender"), "inner.onnx")
    task = Weight(
        "task",
        "",
        CATALOGUE["gender"].carrier,
        "a.task",
        hashlib.sha256(bundle.read_bytes()).hexdigest(),
        1,
        "MIT",
    )
    monkeypatch.setitem(weights.CATALOGUE, "task", task)
    monkeypatch.setenv("KSAME_CACHE", str(tmp_path / "cache"))
    weights.add("task", bundle)
    (output,) = runtime.infer("task", x, inner="inner.onnx")
    np.testing.assert_array_equal(output, expected)


def test_sizes_that_are_asked_for_often_have_a_network_of_their_own(monkeypatch):
    monkeypatch.setattr(runtime, "_call_counts", Counter())
    monkeypatch.setattr(runtime, "_specialised_shapes", defaultdict(set))
    some = (1, 3, -1, -1)
    sizes = [(1, 3, 8, 8), (1, 3, 8, 16), (1, 3, 16, 16)]
    for _ in range(runtime.SPECIALISE_AFTER_CALLS - 1):
        assert all(runtime._shape_to_compile("a", some, size) == some for size in sizes)
    assert [runtime._shape_to_compile("a", some, size) for size in sizes] == [*sizes[:2], some], (
        "no more than two"
    )
    assert runtime._shape_to_compile("a", some, sizes[0]) == sizes[0]
    assert runtime._shape_to_compile("b", some, sizes[0]) == some, "each network counts for itself"


@pytest.mark.weights
def test_a_size_of_its_own_gives_the_same_numbers(monkeypatch):
    monkeypatch.setattr(runtime, "_call_counts", Counter())
    monkeypatch.setattr(runtime, "_specialised_shapes", defaultdict(set))
    x = np.random.default_rng(0).random(INPUTS["yunet"], dtype=np.float32)
    outputs = [runtime.infer("yunet", x, shape=(1, 3, -1, -1)) for _ in range(runtime.SPECIALISE_AFTER_CALLS)]
    assert ("yunet", None, x.shape) in runtime._idle_requests
    for open_, own in zip(outputs[0], outputs[-1], strict=True):
        np.testing.assert_allclose(own, open_, rtol=1e-4, atol=1e-4)


@pytest.mark.weights
@pytest.mark.parametrize(("name", "requests"), [("gender", 1), ("facenet", 2)])
def test_small_networks_are_opened_once_for_each_who_asks_and_large_ones_shared(name, requests):
    runtime.unload(name)
    idle = LifoQueue()
    first = runtime._borrow_request(idle, (name, None, None))
    assert idle.qsize() == requests - 1
    second = runtime._borrow_request(idle, (name, None, None))
    assert idle.qsize() == 0
    assert first is not second
    x = np.random.default_rng(0).random((1, 3, 32, 32) if name == "gender" else (1, 160, 160, 3))
    outputs = []
    for request in (first, second):
        request.infer({0: x.astype(np.float32)})
        outputs.append(np.array(request.output_tensors[0].data))
    np.testing.assert_array_equal(*outputs)


def test_two_threads_may_ask_first():
    """In a process of its own, where nobody has asked yet."""
    both = "from ksame.models import runtime; from concurrent.futures import ThreadPoolExecutor as Pool; "
    both += "one, other = Pool(2).map(lambda _: runtime.core(), range(2)); assert one is other"
    subprocess.run([sys.executable, "-c", both], check=True, timeout=60)


@pytest.mark.weights
def test_images_give_the_numbers_of_their_floats():
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 64, 3), dtype=np.uint8)
    floats = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).astype(np.float32)
    expected = runtime.infer("yunet", floats, shape=floats.shape)
    for output, wanted in zip(runtime.infer_images("yunet", images), expected, strict=True):
        np.testing.assert_allclose(output, wanted, rtol=1e-4, atol=1e-4)
