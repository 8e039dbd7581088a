"""Naive twins: every algorithm once more, as short and as slow as its definition."""

from __future__ import annotations

import math

import numpy as np

# media: EXIF orientation, by the words of EXIF 2.3 section 4.6.4 A, pixel by pixel

FIRST_ROW_AND_COLUMN = {  # mark: where the stored row 0 and column 0 are seen
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}


def turned(upright, mark):
    """Return the picture as a camera with this orientation mark stores it."""
    import numpy as np

    height, width = upright.shape[:2]
    row_side, column_side = FIRST_ROW_AND_COLUMN[mark]
    sideways = row_side in ("left", "right")
    stored = np.empty((width, height, 3) if sideways else (height, width, 3), np.uint8)
    for i in range(stored.shape[0]):
        for j in range(stored.shape[1]):
            seen = {row_side: i, column_side: j}  # distance from each named side
            y = seen["top"] if "top" in seen else height - 1 - seen["bottom"]
            x = seen["left"] if "left" in seen else width - 1 - seen["right"]
            stored[i, j] = upright[y, x]
    return stored


# partition: full scans in double precision, ties to the first; groups as sets of rows


def _nearest_rows(x, point, rows, k):
    distance = [float(((x[row] - point) ** 2).sum()) for row in rows]
    return [rows[i] for i in sorted(range(len(rows)), key=lambda i: distance[i])[:k]]  # sorted is stable


def _farthest_row(x, point, rows):
    return max(rows, key=lambda row: float(((x[row] - point) ** 2).sum()))  # max takes the first


def _without(rows, taken):
    return [row for row in rows if row not in taken]


def _mean_of(x, rows):
    return np.array([math.fsum(column) for column in x[rows].T]) / len(rows)


def mdav_groups(codes, k):
    """Return the groups of MDAV-generic [S alg. 2], line by line."""
    x = np.array(codes, dtype=np.float64)
    left, groups = list(range(len(x))), []
    while len(left) >= 3 * k:
        r = _farthest_row(x, _mean_of(x, left), left)
        groups.append(_nearest_rows(x, x[r], left, k))
        left = _without(left, groups[-1])
        s = _farthest_row(x, x[r], left)
        groups.append(_nearest_rows(x, x[s], left, k))
        left = _without(left, groups[-1])
    if len(left) >= 2 * k:
        r = _farthest_row(x, _mean_of(x, left), left)
        groups.append(_nearest_rows(x, x[r], left, k))
        left = _without(left, groups[-1])
    return {frozenset(group) for group in [*groups, left]}


def ksame_groups(codes, k, order):
    """Return the groups of k-Same [N fig. 10] when faces are taken in this order."""
    x = np.array(codes, dtype=np.float64)
    left, groups = list(order), []
    while len(left) >= 2 * k:
        groups.append(_nearest_rows(x, x[left[0]], left, k))
        left = _without(left, groups[-1])
    return {frozenset(group) for group in [*groups, left]}


def maxdist_groups(codes, k):
    """Return the groups of k-Same when each next seed is the face farthest from the last."""
    x = np.array(codes, dtype=np.float64)
    left, groups = list(range(len(x))), []
    seed = _farthest_row(x, _mean_of(x, left), left)
    while len(left) >= 2 * k:
        groups.append(_nearest_rows(x, x[seed], left, k))
        left = _without(left, groups[-1])
        seed = _farthest_row(x, x[seed], left)
    return {frozenset(group) for group in [*groups, left]}


def within_squares(codes, groups):
    """Return the total of squared distances to the groups' means."""
    x = np.array(codes, dtype=np.float64)
    return sum(float(((x[rows] - x[rows].mean(axis=0)) ** 2).sum()) for rows in map(list, groups))


def kmember_groups(codes, k, first):
    """Return the groups of greedy k-member clustering, each loss computed from its definition."""
    x = np.array(codes, dtype=np.float64)
    left, groups, start = list(range(len(x))), [], first

    def rise(group, row):
        return within_squares(x, [[*group, row]]) - within_squares(x, [group])

    while len(left) >= k:
        start = _farthest_row(x, x[start], left)
        group = [start]
        while len(group) < k:
            group.append(min(_without(left, group), key=lambda row, group=group: rise(group, row)))
        groups.append(group)
        left = _without(left, group)
    for row in left:
        min(groups, key=lambda group, row=row: rise(group, row)).append(row)
    return {frozenset(group) for group in groups}


# --- represent ---------------------------------------------------------------------------------------


def principal(x):
    """Mean, all axes and variances by the covariance matrix, as the textbook has it."""
    psi = x.mean(axis=0)
    covariance = sum(np.outer(row - psi, row - psi) for row in x) / (len(x) - 1)
    values, vectors = np.linalg.eigh(covariance)
    return psi, vectors[:, ::-1].T, values[::-1]
