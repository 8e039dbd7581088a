from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import ksame

PROMISED = {
    "CannotGuarantee",
    "Context",
    "FaceSet",
    "Guarantee",
    "GuaranteeError",
    "GuaranteeViolated",
    "InputError",
    "KSameError",
    "Microaggregator",
    "Partition",
    "Release",
    "Report",
    "ResidualFace",
    "UsageError",
    "WeightsError",
    "attack",
    "audit",
    "deidentify",
    "methods",
    "partition",
    "replace",
    "run",
    "verify",
}


def test_the_public_names_are_those_promised():
    assert set(ksame.__all__) == PROMISED
    assert sorted(ksame.__all__) == ksame.__all__
    assert all(getattr(ksame, name) is not None for name in ksame.__all__)


def test_the_errors_are_one_tree_with_their_exit_codes():
    codes = {
        name: getattr(ksame, name).exit_code
        for name in PROMISED
        if hasattr(getattr(ksame, name), "exit_code")
    }
    assert codes == {
        "KSameError": 1,
        "WeightsError": 1,
        "UsageError": 2,
        "GuaranteeError": 3,
        "CannotGuarantee": 3,
        "GuaranteeViolated": 3,
        "InputError": 4,
        "ResidualFace": 5,
    }
    assert all(issubclass(getattr(ksame, name), ksame.KSameError) for name in codes)


def test_each_partition_and_replacement_is_a_function_of_its_name():
    methods = ksame.partition.METHODS
    assert all(getattr(ksame.partition, name) is method for name, method in methods.items())
    assert all(callable(getattr(ksame.replace, name)) for name in ("centroid", "furthest", "kdiff", "mix"))


def test_every_partition_module_is_listed():
    modules = {module.name for module in pkgutil.iter_modules(ksame.partition.__path__)}
    shared = {"quality", "remaining", "select"}  # used by several partitions
    assert set(ksame.partition.METHODS) == modules - shared


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = ksame.magic


def test_codes_alone_need_neither_inference_nor_codecs():
    heavy = {"PIL", "cv2", "openvino", "sklearn"}
    code = f"import ksame, sys; ksame.partition.mdav; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
