"""Every option of every method is in the certificate, from which an audit runs the method again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksame.analysis.strata import PREDICTED_LABELS
from ksame.audit.rerun import can_rerun, rerun_differences, stated_method
from ksame.core.errors import UsageError
from ksame.core.guarantee import Guarantee
from ksame.methods import AD_HOC, METHODS, Method
from ksame.methods.base import GroupMethod
from ksame.release import Private, Release
from ksame.render.obscure import METHODS as AMOUNTS

OWN = ("a path/of a person.npz", "own.npz", "/tmp/x")  # what no certificate may show


def values(method: Method[Any], name: str) -> st.SearchStrategy[Any]:
    """Return the values that an option may have."""
    (field,) = (one for one in method.option_fields() if one.name == name)
    choices, words = method.choices(field), field.metadata["or_path"]
    if choices is not None:
        return st.sampled_from(sorted(choices))
    if words is not None:
        return st.sampled_from([*words, *OWN])
    if name == "strength":
        amount = AMOUNTS[method.name]
        known = st.floats(amount.low, amount.high) if amount.default is not None else st.nothing()
        return st.none() | known
    kinds = {
        "k": st.integers(2, 10**6),
        "select": st.sampled_from([None, *PREDICTED_LABELS]),
        "grey": st.booleans(),
        "plain": st.booleans(),
    }
    return kinds[name]  # whoever adds an option of another kind says here what it may be


@st.composite
def methods(draw: st.DrawFn) -> Method[Any]:
    """Any method with any options."""
    method = METHODS[draw(st.sampled_from(list(METHODS)))]
    options = {one.name: draw(values(method, one.name)) for one in method.option_fields()}
    if "generator" in options and options["generator"] != "bundled":
        options["generator_map"] = OWN[0]
    elif "generator" in options:
        options["generator_map"] = "bundled"
    return method.with_options(options)


def certificate_of(method: Method[Any]) -> dict[str, Any]:
    """Return the certificate of a release by a method, as it is read from a file."""
    release = Release({}, Guarantee("none"), method, "portrait", {}, Private((), {}))
    return json.loads(json.dumps(release.certificate()))


@given(methods())
def test_a_certificate_states_the_method_with_its_options(method):
    certificate = certificate_of(method)
    assert can_rerun(certificate)
    assert not any(path in json.dumps(certificate) for path in OWN)
    default = METHODS[method.name]
    secret = {
        one.name: getattr(default, one.name)
        for one in method.option_fields()
        if getattr(method, one.name) in OWN
    }
    assert stated_method(certificate) == method.with_options(secret), "the defaults stand in for paths"
    assert certificate["k"] == method.k


@pytest.mark.parametrize("name", METHODS)
def test_a_certificate_has_every_option_and_no_more(name):
    stated = certificate_of(METHODS[name])["method"]
    assert set(stated) == {"name"} | {one.name for one in METHODS[name].option_fields()}
    assert stated_method({"method": stated}) == METHODS[name]
    assert stated_method({"method": {"name": name}}) == METHODS[name]


@pytest.mark.parametrize("name", ["ksame-m", "ksame-pixel", "anonfaces"])
def test_a_column_of_the_publisher_is_not_known_to_an_attacker_and_that_is_said(name):
    method = METHODS[name].with_options({"select": "ward"})
    certificate = certificate_of(method)
    assert stated_method(certificate) == METHODS[name]
    assert any("by which labels" in note for note in rerun_differences(certificate))


@given(methods(), st.sampled_from(["nonsense", 7, None, ["x"]]))
def test_a_value_that_there_is_not_is_refused_where_a_method_is_made(method, value):
    for one in method.option_fields():
        choices = method.choices(one)
        if choices is not None:
            with pytest.raises(UsageError, match=f"There is no {one.name}"):
                method.with_options({one.name: value})


@pytest.mark.parametrize("k", [1, 0, -3, 2.5])
@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if isinstance(one, GroupMethod)])
def test_a_k_that_protects_nobody_is_refused(name, k):
    with pytest.raises(UsageError):
        METHODS[name].with_options({"k": k})


@pytest.mark.parametrize("name", AD_HOC)
def test_a_strength_beyond_its_range_is_refused(name):
    with pytest.raises(UsageError, match="strength"):
        METHODS[name].with_options({"strength": AMOUNTS[name].high + 1e6})


@pytest.mark.parametrize(
    "certificate", [{}, {"method": "ksame-m"}, {"method": {"name": "magic"}}, {"method": {}}]
)
def test_a_method_that_is_not_stated_is_not_run_again(certificate):
    assert not can_rerun(certificate)
