"""Meshes that are put away are those that were put there."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksame.analysis.tracking.mesh_store import CHUNK_FRAMES, MeshStore, iterate_chunks

MESHES = np.random.default_rng(0).integers(-32767, 32767, (40, 468, 2)).astype(np.int16)
BYTES = MESHES[0].nbytes


@given(
    rows=st.lists(st.integers(-1, len(MESHES) - 1), max_size=60),
    in_memory=st.sampled_from([1, 10 * BYTES, 100 * BYTES]),
    parts=st.lists(st.integers(0, len(MESHES)), max_size=3),
)
def test_what_is_read_is_what_an_array_would_give(rows, in_memory, parts):
    shelf = MeshStore(in_memory)
    for part in np.split(MESHES, sorted(parts)):
        shelf.put(part)
    shelved, array = shelf.of(rows), np.concatenate([MESHES, np.zeros_like(MESHES[:1])])[rows]
    assert shelved.shape == array.shape
    np.testing.assert_array_equal(shelved[:], array)
    for which in (slice(3, 20, 2), np.arange(len(rows))[::-1], np.arange(len(rows)) % 3 == 0):
        np.testing.assert_array_equal(shelved[which], array[which])
    for row in range(len(rows)):
        np.testing.assert_array_equal(shelved[row], array[row])


def test_several_threads_read_at_once():
    shelf = MeshStore(BYTES)
    shelf.put(MESHES)
    shelved = shelf.of(np.arange(len(MESHES)))
    with ThreadPoolExecutor(4) as pool:
        for row, mesh in enumerate(pool.map(lambda row: shelved[row % len(MESHES)], range(400))):
            np.testing.assert_array_equal(mesh, MESHES[row % len(MESHES)])


@pytest.mark.skipif(os.name == "nt", reason="a file without a name has one there, until it is closed")
def test_the_file_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shelf = MeshStore(BYTES)
    shelf.put(MESHES)
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(shelf.of([7])[0], MESHES[7])


def test_chunks_are_all_of_it_in_order():
    shelf = MeshStore()
    rows = np.arange(2 * CHUNK_FRAMES + 5) % 7
    shelf.put(MESHES)
    chunks = list(iterate_chunks(shelf.of(rows)))
    assert [len(chunk) for chunk in chunks] == [CHUNK_FRAMES, CHUNK_FRAMES, 5]
    np.testing.assert_array_equal(np.concatenate(chunks), MESHES[rows])
