"""Naive twins: every algorithm once more, as short and as slow as its definition."""

from __future__ import annotations

import itertools
import math
import statistics

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
    """Return the image as a camera with this orientation mark stores it."""
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


# --- geometry ----------------------------------------------------------------------------------------


def piecewise_affine(source, target, triangles, width, height):
    """Where each pixel comes from, by barycentric coordinates, pixel by pixel; NaN outside."""
    found = np.full((height, width, 2), np.nan)
    for y in range(height):
        for x in range(width):
            for corners in triangles:
                a, b, c = target[corners]
                weights = np.linalg.solve(np.array([[*a, 1], [*b, 1], [*c, 1]]).T, [x, y, 1])
                if (weights >= -1e-9).all():
                    found[y, x] = weights @ source[corners]
    return found


def moving_least_squares(source, target, v, alpha):
    """One point of [S 6.4-6.5], with the sums written out."""
    w = [1 / max(((p - v) ** 2).sum(), 1e-8) ** alpha for p in target]
    p_star = sum(wi * p for wi, p in zip(w, target, strict=True)) / sum(w)
    q_star = sum(wi * q for wi, q in zip(w, source, strict=True)) / sum(w)
    left = sum(wi * np.outer(p - p_star, p - p_star) for wi, p in zip(w, target, strict=True))
    right = sum(wi * np.outer(p - p_star, q - q_star) for wi, p, q in zip(w, target, source, strict=True))
    return (v - p_star) @ np.linalg.inv(left) @ right + q_star


# partition: hierarchical, equal-size k-means and the judges


def hierarchical_groups(codes, k, linkage):
    """Return the groups of [A alg. 1], with the tree cut and pruned anew for each of them."""
    from scipy.cluster.hierarchy import linkage as scipy_linkage
    from scipy.spatial.distance import pdist

    x = np.array(codes, dtype=np.float64)
    n, m = len(x), len(x) // k
    nodes = [(row, None, None) for row in range(n)]  # (number, left, right)
    for left, right, *_ in scipy_linkage(pdist(x), linkage):
        nodes.append((len(nodes), nodes[int(left)], nodes[int(right)]))
    tree, groups = nodes[-1], []
    for j in range(m):
        size = n // m + (j < n % m)
        clusters = [tree]
        while len(clusters) < m - j:  # undo the highest merge
            clusters.remove(highest := max(clusters))
            clusters += highest[1:]
        largest = max(clusters, key=lambda node: (len(_leaves(node)), -node[0]))
        merge = min(node for node in _nodes(largest) if len(_leaves(node)) >= size)
        sides = [sorted(_leaves(side)) for side in merge[1:]]
        sides.sort(key=lambda rows: (-len(rows), _spread(x, rows), rows[0]))
        whole, other = sides
        centre = x[whole].mean(axis=0)
        other.sort(key=lambda row: (((x[[row]] - centre) ** 2).sum(axis=1)[0], row))
        groups.append(whole + other[: size - len(whole)])
        tree = _pruned(tree, set(groups[-1]))
    return {frozenset(group) for group in groups}


def _spread(x, rows):
    # row by row, as a tie on paper is decided by rounding
    return ((x[rows] - x[rows].mean(axis=0)) ** 2).sum(axis=1).sum()


def _nodes(node):
    _, left, right = node
    return [node] if left is None else [node, *_nodes(left), *_nodes(right)]


def _leaves(node):
    return [number for number, left, _ in _nodes(node) if left is None]


def _pruned(node, gone):
    number, left, right = node
    if left is None:
        return None if number in gone else node
    left, right = _pruned(left, gone), _pruned(right, gone)
    return (number, left, right) if left and right else left or right


def label_squares(codes, labels):
    """Return the total of squared distances to the means of the rows of equal label."""
    labels = np.asarray(labels)
    return within_squares(codes, [np.flatnonzero(labels == label).tolist() for label in set(labels.tolist())])


def trades(labels, a):
    """Yield the labels after each trade of group a: two people swap, or one moves to a smaller group."""
    labels = np.asarray(labels)
    size = np.bincount(labels)
    for i in range(len(labels)):
        for j in range(len(labels)):
            if labels[i] == a != labels[j]:
                swapped = labels.copy()
                swapped[[i, j]] = labels[[j, i]]
                yield swapped
    for i in range(len(labels)):
        for b in range(len(size)):
            if a in (labels[i], b) and size[b] < size[labels[i]]:
                moved = labels.copy()
                moved[i] = b
                yield moved


def traded(codes, labels):
    """Return labels after the best trade of each group in turn, made again and again until none helps."""
    least = 1e-12 * (np.asarray(codes) ** 2).sum(axis=1).max()
    while True:
        before = labels
        for a in range(max(labels) + 1):
            while True:
                best = min(trades(labels, a), key=lambda other: label_squares(codes, other))
                if label_squares(codes, best) >= label_squares(codes, labels) - least:
                    break
                labels = best
        if before is labels:
            return labels


def least_squares(codes, sizes):
    """Return the least total within-group squares of any partition into groups of these sizes."""

    def search(rows, sizes):
        if not rows:
            return 0.0
        best = np.inf
        for size in set(sizes):
            rest = list(sizes)
            rest.remove(size)
            for others in itertools.combinations(rows[1:], size - 1):
                group = [rows[0], *others]
                left = [row for row in rows if row not in group]
                best = min(best, within_squares(codes, [group]) + search(left, rest))
        return best

    return search(list(range(len(codes))), list(sizes))


def judgement(codes, labels):
    """Return the five figures of [A 4.2] by their definitions, with one code per person."""
    x, labels = np.array(codes, dtype=np.float64), list(labels)
    distance = [[math.dist(p, q) for q in x] for p in x]
    groups = [[i for i, label in enumerate(labels) if label == g] for g in sorted(set(labels))]
    pairs = [[distance[i][j] for i, j in itertools.combinations(group, 2)] for group in groups]

    def silhouette(i):
        means = {
            g: math.fsum(distance[i][j] for j in group) / (len(group) - (i in group))
            for g, group in enumerate(groups)
        }
        a = means.pop(next(g for g, group in enumerate(groups) if i in group))
        b = min(means.values())
        return (b - a) / max(a, b) if max(a, b) else 0.0

    return (
        sum(min(d) for d in pairs) / len(groups),
        sum(sum(d) / len(d) for d in pairs) / len(groups),
        sum(max(d) for d in pairs) / len(groups),
        sum(silhouette(i) for i in range(len(x))) / len(x) if len(groups) > 1 else math.nan,
        label_squares(x, labels),
    )


# replace: means by loops over people, clusters by full scans, wrong-map by its definition


def _people_codes(x, subjects):
    """One mean code per subject, in the order of first appearance."""
    names = list(dict.fromkeys(subjects))
    return names, np.array([_mean_of(x, [i for i, s in enumerate(subjects) if s == name]) for name in names])


def mixed(x, labels, subjects, weight_of=lambda name: 1.0):
    """[A eq. 1]; with equal weights it is the centroid of [N fig. 10]."""
    new = np.empty_like(x)
    for group in set(labels):
        rows = [i for i, label in enumerate(labels) if label == group]
        names, codes = _people_codes(x[rows], [subjects[i] for i in rows])
        w = [weight_of(name) for name in names]
        new[rows] = sum(wi * code for wi, code in zip(w, codes, strict=True)) / sum(w)
    return new


def nearest_distance(new, x):
    """The distance of each new code to the nearest original."""
    return np.array([min(math.dist(code, old) for old in x) for code in new])


def is_wrong_map(new, x, subjects):
    """[S def. 4.1] in the Euclidean metric: some other subject's original is nearer than every own."""
    for i, code in enumerate(new):
        own = min(math.dist(code, old) for old, s in zip(x, subjects, strict=True) if s == subjects[i])
        if not any(
            math.dist(code, old) < own for old, s in zip(x, subjects, strict=True) if s != subjects[i]
        ):
            return False
    return True


def _overlapping(x, c, f):
    r_c, r_f = (max(math.dist(x[i], _mean_of(x, rows)) for i in rows) for rows in (c, f))
    return r_c + r_f >= math.dist(_mean_of(x, c), _mean_of(x, f))


def _seeds(x, left, rng):
    c = int(rng.choice(left))
    return c, _farthest_row(x, x[c], _without(left, [c]))


def furthest_clusters(x, k, rng):
    """[S alg. 3] with growth to k in place of the frozen means: (C_c, C_f) pairs, and who is left."""
    left, pairs = list(range(len(x))), []
    while len(left) >= 2 * k:
        c, f = ([row] for row in _seeds(x, left, rng))
        left = _without(left, c + f)
        while len(c) < k:
            f += _nearest_rows(x, _mean_of(x, f), left, 1)
            left = _without(left, f)
            c += _nearest_rows(x, _mean_of(x, c), left, 1)
            left = _without(left, c)
        pairs.append((c, f))
    return pairs, left


def kdiff_clusters(x, k, rng, single):
    """[S alg. 4-5]: (C_c, C_f) pairs, and who joins the last pair."""
    left, pairs = list(range(len(x))), []
    while left:
        c, f = ([row] for row in _seeds(x, left, rng))
        left = _without(left, c + f)
        while len(c) < k and len(left) >= 2:
            new_f, new_c = (_nearest_rows(x, _mean_of(x, rows), left, 1) for rows in (f, c))
            if new_f == new_c or _overlapping(x, c + new_c, f + new_f):
                break
            c, f = c + new_c, f + new_f
            left = _without(left, c + f)
        if single == "grow" and len(c) == 1:
            c += _nearest_rows(x, x[c[0]], left, 1)
            left = _without(left, c)
        pairs.append((c, f))
        if len(left) <= (2 if single == "grow" else 1):
            return pairs, left
    return pairs, left


# obscure: pixel by pixel, with plain integers; mask (h, w) is the face, matrix (2, 3) takes it to the frame


def depth_in_hull(points, height, width):
    """Return how deep inside the hull of points each pixel lies, in pixels; below 0 outside."""
    from scipy.spatial import ConvexHull

    planes = ConvexHull(points).equations  # one per edge: outward normal and offset
    y, x = np.mgrid[:height, :width]
    return -np.max([a * x + b * y + c for a, b, c in planes], axis=0)


def grey_pixel(pixel):
    r, g, b = (int(v) for v in pixel)
    return math.floor((299 * r + 587 * g + 114 * b) / 1000 + 0.5)


def mapped(rgb, mask, new_pixel):
    """Return the image with new_pixel(y, x, pixel) in the mask."""
    out = rgb.copy()
    for y, x in np.ndindex(mask.shape):
        if mask[y, x]:
            out[y, x] = new_pixel(y, x, rgb[y, x])
    return out


def ordinal(rgb, mask, bins):
    edges = [256 * i / bins for i in range(bins + 1)]

    def middle(value):
        i = max(i for i in range(bins) if edges[i] <= value)
        return math.floor((edges[i] + edges[i + 1]) / 2)

    return mapped(rgb, mask, lambda y, x, pixel: [middle(int(v)) for v in pixel])


def threshold(rgb, mask, t):
    return mapped(rgb, mask, lambda y, x, pixel: [255 if v >= t else 0 for v in pixel])


def negative(rgb, mask, t=None):
    """Return the grey negative, or the black and white one at a threshold t."""

    def opposite(y, x, pixel):
        grey = grey_pixel(pixel)
        return 255 - (grey if t is None else 255 if grey >= t else 0)

    return mapped(rgb, mask, opposite)


def square_of_frame(matrix, x, y, size):
    """Return column and row of the square of the frame, size pixels wide, in which a pixel's middle lies."""
    u, v = (a * x + b * y + c for a, b, c in matrix)
    return math.floor((u + 0.5) / size), math.floor((v + 0.5) / size)


def pixelate(rgb, mask, matrix, size):
    blocks = {}
    for y, x in np.ndindex(mask.shape):
        if mask[y, x]:
            blocks.setdefault(square_of_frame(matrix, x, y, size), []).append(rgb[y, x].astype(int))
    means = {block: np.rint(np.mean(values, axis=0)) for block, values in blocks.items()}
    return mapped(rgb, mask, lambda y, x, pixel: means[square_of_frame(matrix, x, y, size)])


def noise(rgb, mask, matrix, hit, values=None):
    """Replace hit pixels (of the frame) by values, or flip them in black and white at 128."""
    height, width = hit.shape

    def noisy(y, x, pixel):
        column, row = square_of_frame(matrix, x, y, 1)
        at, grey = (row % height, column % width), grey_pixel(pixel)
        if values is not None:
            return values[at] if hit[at] else grey
        white = (grey >= 128) != hit[at]
        return 255 if white else 0

    return mapped(rgb, mask, noisy)


# faces: who is who, and which boxes are one face


def link_people(evidence, line, names, rules):
    """Link faces one pair at a time: the rule of ``analysis.linking`` in plain words.

    ``evidence``: for each recogniser (codes, mean, spread, weight, same person or None). ``rules``: the
    constants of the module. Returns the sets of faces, and the reasons of every loose link that was cut.
    """
    n, share = len(evidence[0][0]), [one[3] / sum(e[3] for e in evidence) for one in evidence]

    def distance(r, a, b):  # root of the mean squared distance over all pairs
        x = evidence[r][0]
        return math.sqrt(sum(math.dist(x[i], x[j]) ** 2 for i in a for j in b) / (len(a) * len(b)))

    usual = [[(mean, spread) for _ in range(n)] for _, mean, spread, *_ in evidence]

    def opinions(a, b):
        out = []
        for r in range(len(evidence)):
            d = distance(r, a, b)
            sides = [
                (_mean_number(usual[r][i][0] for i in s), _mean_number(usual[r][i][1] for i in s))
                for s in (a, b)
            ]
            out.append(sum((d - mean) / spread for mean, spread in sides) / 2)
        return out

    def score(a, b):
        return sum(w * z for w, z in zip(share, opinions(a, b), strict=True))

    strangers = [[j for j in range(n) if j != i and score([i], [j]) > rules.STRANGER] for i in range(n)]
    compared = []
    for r, (_, mean, spread, *_) in enumerate(evidence):
        row = []
        for i in range(n):
            far = [distance(r, [i], [j]) for j in strangers[i]]
            count = len(far) + rules.USUAL_FACES
            middle = (sum(far) + rules.USUAL_FACES * mean) / count
            square = sum((d - middle) ** 2 for d in far) + rules.USUAL_FACES * spread**2
            row.append((middle, math.sqrt(square / count)))
        compared.append(row)
    usual = compared

    def strict(i, j):
        alone = any(e[4] is not None and distance(r, [i], [j]) <= e[4] for r, e in enumerate(evidence))
        return alone or score([i], [j]) <= line.at(rules.STRICT_RATE)

    sets = _strictly(n, names, strict, lambda i, j: score([i], [j]))
    called = [next((names[i] for i in one if names[i] is not None), None) for one in sets]
    allowed = line.at(min(rules.SMALL_SET_RATE, 2 * rules.EXPECTED_LOSS / max(len(sets) - 1, 1)))
    paid, joined, cuts = math.floor(rules.COUNTED_LOSS * len(sets)), 0, []
    links = sorted(
        (score(a, b) + rules.SIZE_PENALTY * math.log(min(len(a), len(b))), x, y)
        for (x, a), (y, b) in itertools.combinations(enumerate(sets), 2)
    )
    subject, chained = list(range(len(sets))), set()
    for e, x, y in links:
        one, two = subject[x], subject[y]
        if e > line.at(rules.LOOSEST_RATE) or (e > allowed and joined >= paid):
            break
        if one == two or (called[one] is not None and called[two] is not None):
            continue
        mine = [i for c, s in zip(subject, sets, strict=True) if c == one for i in s]
        theirs = [i for c, s in zip(subject, sets, strict=True) if c == two for i in s]
        if {one, two} & chained:
            different = sum(z > rules.DIFFERENT for z in opinions(mine, theirs))
            if different >= rules.OPINIONS:
                cuts.append(different)
                continue
        keep, drop = min(one, two), max(one, two)
        called[keep] = called[keep] or called[drop]
        subject = [keep if c == drop else c for c in subject]
        chained = (chained - {drop}) | {keep}
        joined += 1
    found = {
        c: frozenset(i for k, s in zip(subject, sets, strict=True) if k == c for i in s) for c in subject
    }
    return set(found.values()), cuts


def _mean_number(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def _strictly(n, names, strict, score):
    """Spread names along strict links layer by layer, best link first; join the rest."""
    who = list(names)
    while True:
        layer = {}
        for i in (i for i in range(n) if who[i] is None):
            near = [j for j in range(n) if who[j] is not None and strict(i, j)]
            if near:
                layer[i] = who[min(near, key=lambda j: score(i, j))]
        if not layer:
            break
        for i, name in layer.items():
            who[i] = name
    sets = {}
    for i in range(n):
        if who[i] is not None:
            sets.setdefault(who[i], []).append(i)
    rest = [[i] for i in range(n) if who[i] is None]
    while True:
        pair = next(
            ((a, b) for a, b in itertools.combinations(rest, 2) if any(strict(i, j) for i in a for j in b)),
            None,
        )
        if pair is None:
            break
        rest = [one for one in rest if one not in pair] + [pair[0] + pair[1]]
    return sorted([*sets.values(), *rest], key=min)


def suppress(boxes, scores, overlap):
    """Keep a box unless a better one that was kept covers the same face; plain numbers only."""
    kept = []
    for i in sorted(range(len(boxes)), key=lambda i: -scores[i]):
        a, again = boxes[i], False
        for b in (boxes[j] for j in kept):
            width = min(a[2], b[2]) - max(a[0], b[0])
            height = min(a[3], b[3]) - max(a[1], b[1])
            common = max(width, 0) * max(height, 0)
            sizes = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
            again |= common > overlap * (sum(sizes) - common) or common > 0.9 * min(sizes)
        if not again:
            kept.append(i)
    return kept


# attributes: skin tone pixel by pixel, by the definitions of sRGB and CIE L*a*b* (D65)


def lab_pixel(pixel):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in pixel)]
    rows = [(0.412453, 0.357580, 0.180423), (0.212671, 0.715160, 0.072169), (0.019334, 0.119193, 0.950227)]
    x, y, z = (
        sum(m * c for m, c in zip(row, linear, strict=True)) / white
        for row, white in zip(rows, (0.950456, 1.0, 1.088754), strict=True)
    )
    fx, fy, fz = (t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def skin(rgb, centres, reach):
    """Median L*, b* and chroma of discs; how far the first two's L* differ. The border is repeated."""
    h, w = rgb.shape[:2]
    reach = max(1.0, reach)
    patches = []
    for cx, cy in np.rint(centres):
        patch = []
        for dy in range(-int(reach) - 1, int(reach) + 2):
            for dx in range(-int(reach) - 1, int(reach) + 2):
                if dx * dx + dy * dy <= reach * reach:
                    x, y = min(max(int(cx + dx), 0), w - 1), min(max(int(cy + dy), 0), h - 1)
                    patch.append(lab_pixel(rgb[y, x]))
        patches.append(patch)
    lightness, a, b = np.median([pixel for patch in patches for pixel in patch], axis=0)
    own = [np.median([pixel[0] for pixel in patch]) for patch in patches[:2]]
    return lightness, b, np.hypot(a, b), abs(own[0] - own[1])


# appearance model and its fitting: shape by shape, triangle by triangle, one large system


def align(shape, target):
    """One shape moved by the similarity (a, b, dx, dy) that solves the normal equations."""
    rows = [row for x, y in shape for row in ([x, -y, 1, 0], [y, x, 0, 1])]
    a, b, dx, dy = np.linalg.lstsq(np.array(rows), np.ravel(target), rcond=None)[0]
    return np.array([[a * x - b * y + dx, b * x + a * y + dy] for x, y in shape])


def procrustes(shapes, rounds):
    """Generalised Procrustes, by its definition: align, average, align the average, again."""
    plain = mean = sum(shapes) / len(shapes)
    for _ in range(rounds):
        aligned = [align(shape, mean) for shape in shapes]
        mean = align(sum(aligned) / len(shapes), plain)
    return np.array([align(shape, mean) for shape in shapes]), mean


def project(x, mean, axes):
    """alpha_j = sum_i (x_i - mean_i) Phi_ji, added up exactly."""
    return np.array([[math.fsum((row - mean) * axis) for axis in axes] for row in np.asarray(x, float)])


def joint_step(images, appearance, error):
    """Delta p of the joint least squares of shape (p, c) and appearance (b, p), by one large system."""
    both = np.hstack([images, appearance.T])
    return np.linalg.lstsq(both, error, rcond=None)[0][: images.shape[1]]


def composed(s_0, shape, move, triangles):
    """Each vertex of s_0 moved back, then carried by the affine maps of its triangles, weighed by area."""
    new = np.zeros_like(shape)
    total = np.zeros(len(shape))
    for corners in triangles:
        (ax, ay), (bx, by), (cx, cy) = s_0[corners]
        area = abs((bx - ax) * (cy - ay) - (by - ay) * (cx - ax)) / 2
        affine = np.linalg.lstsq(np.c_[s_0[corners], np.ones(3)], shape[corners], rcond=None)[0]  # (3, 2)
        for vertex in corners:
            new[vertex] += area * (np.append(s_0[vertex] - move[vertex], 1) @ affine)
            total[vertex] += area
    return new / total[:, None]


# --- utility: window by window, pair by pair, group by group ------------------------------------------


def ssim(a, b, sigma=1.5, reach=5):
    """Return the mean over all whole windows of the formula of Wang et al. 2004 (13)."""
    offsets = range(-reach, reach + 1)
    weight = {(i, j): math.exp(-(i * i + j * j) / (2 * sigma**2)) for i in offsets for j in offsets}
    total, c1, c2 = sum(weight.values()), (0.01 * 255) ** 2, (0.03 * 255) ** 2
    found = []
    for y in range(reach, a.shape[0] - reach):
        for x in range(reach, a.shape[1] - reach):
            window = [
                (w / total, float(a[y + i, x + j]), float(b[y + i, x + j])) for (i, j), w in weight.items()
            ]
            mean_a, mean_b = sum(w * p for w, p, _ in window), sum(w * q for w, _, q in window)
            var_a = sum(w * (p - mean_a) ** 2 for w, p, _ in window)
            var_b = sum(w * (q - mean_b) ** 2 for w, _, q in window)
            both = sum(w * (p - mean_a) * (q - mean_b) for w, p, q in window)
            found.append(
                (2 * mean_a * mean_b + c1)
                * (2 * both + c2)
                / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))
            )
    return sum(found) / len(found)


def group_entropy(values, groups):
    kinds = len(set(values))
    found = []
    for group in sorted(set(groups)):
        members = [value for value, g in zip(values, groups, strict=True) if g == group]
        shares = [members.count(value) / len(members) for value in set(members)]
        found.append(-sum(p * math.log(p) for p in shares) / math.log(kinds) if kinds > 1 else 0.0)
    return found


def diversity(x, subjects):
    far = [
        math.dist(x[i], x[j])
        for i, j in itertools.combinations(range(len(x)), 2)
        if subjects[i] != subjects[j]
    ]
    if not far:
        return {}
    apart = [d for d in far if d > 0] or [0.0]
    mean, middle = math.fsum(far) / len(far), math.fsum(apart) / len(apart)
    std = math.sqrt(math.fsum((d - middle) ** 2 for d in apart) / len(apart))
    return {"min": min(far), "max": max(far), "median": float(np.median(far)), "mean": mean, "std": std}


def kept_together(*columns):
    """Return sets of rows, joined until no two of them share a value in any column."""
    parts = [{row} for row in range(len(columns[0]))]
    while True:
        for a, b in itertools.combinations(parts, 2):
            if any(column[i] == column[j] for column in columns for i in a for j in b):
                parts = [part for part in parts if part not in (a, b)] + [a | b]
                break
        else:
            return parts


def identity_consistency(x, persons, folds, strangers=()):
    right, fold = 0.0, [persons[:i].count(person) % folds for i, person in enumerate(persons)]
    for i in range(len(x)):
        others = [(math.dist(x[i], x[j]), persons[j]) for j in range(len(x)) if fold[j] != fold[i]]
        others += [(math.dist(x[i], stranger), "a stranger") for stranger in strangers]
        if not others:  # nobody to be compared with
            continue
        least = min(far for far, _ in others)
        nearest = [who for far, who in others if far == least]
        right += sum(who == persons[i] for who in nearest) / len(nearest)
    return right / len(x)


# --- classic recognisers: pixel by pixel, pair by pair, with textbook matrices ------------------------


def equalised(chip):
    """Each value becomes the share of brighter-than-darkest pixels up to it, on 0 .. 255 (OpenCV's words)."""
    values = [int(v) for v in chip.ravel()]
    darkest = values.count(min(values))
    if darkest == len(values):
        return chip
    up_to = {v: sum(other <= v for other in values) - darkest for v in set(values)}
    new = [
        round(np.float32(up_to[v]) * np.float32(np.float32(255) / (len(values) - darkest))) for v in values
    ]
    return np.array(new, np.uint8).reshape(chip.shape)


def lbp(chip, grid=7):
    """Count the uniform patterns of ring 1 in each cell, then those of ring 2."""
    uniform = [
        p for p in range(256) if sum(a != b for a, b in itertools.pairwise(f"{p:08b}" + f"{p:08b}"[0])) <= 2
    ]
    ring = [(0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1), (1, 0), (1, 1)]
    height, width = (side - 4 for side in chip.shape)
    counts = np.zeros((2, grid, grid, 59), int)
    for y in range(height):
        for x in range(width):
            for radius in (1, 2):
                centre = chip[y + 2, x + 2]
                pattern = sum(
                    2**i
                    for i, (dy, dx) in enumerate(ring)
                    if chip[y + 2 + radius * dy, x + 2 + radius * dx] >= centre
                )
                which = uniform.index(pattern) if pattern in uniform else 58
                counts[radius - 1, y * grid // height, x * grid // width, which] += 1
    return counts.ravel()


def hog(chip, cell=10, orientations=16):
    """Let every pixel vote for its orientation with the length of its gradient; cells of unit length."""
    rows, columns = ((side - 2) // cell for side in chip.shape)
    votes = np.zeros((rows, columns, orientations))
    for y in range(rows * cell):
        for x in range(columns * cell):
            dy = int(chip[y + 2, x + 1]) - int(chip[y, x + 1])
            dx = int(chip[y + 1, x + 2]) - int(chip[y + 1, x])
            degrees = math.degrees(math.atan2(dy, dx)) % 180
            which = int(degrees / (180 / orientations) + 1e-9) % orientations
            votes[y // cell, x // cell, which] += math.sqrt(dy * dy + dx * dx)
    for line in votes:
        for one in line:
            one /= max(math.sqrt(sum(v * v for v in one)), 1e-9)
    return votes.ravel()


def lpq(chip, window=7, grid=8, rho=0.9):
    """Fourier coefficients of every window by their definition, decorrelated, signs as a byte, counted."""
    half = range(-(window // 2), window // 2 + 1)
    places = [(y, x) for y in half for x in half]
    frequencies = [(1, 0), (0, 1), (1, 1), (1, -1)]  # of x and y
    turns = [[2 * math.pi * (u * x + v * y) / window for y, x in places] for u, v in frequencies]
    waves = np.array(
        [[math.cos(t) for t in turn] for turn in turns] + [[math.sin(t) for t in turn] for turn in turns]
    )
    pixels = np.array([[rho ** math.dist(a, b) for b in places] for a in places])
    mix = np.linalg.inv(np.linalg.cholesky(waves @ pixels @ waves.T))
    height, width = (side - window + 1 for side in chip.shape)
    counts = np.zeros((grid, grid, 256), int)
    for y in range(height):
        for x in range(width):
            seen = np.array([float(chip[y + dy + window // 2, x + dx + window // 2]) for dy, dx in places])
            signs = mix @ (waves @ seen) > 1e-6
            counts[y * grid // height, x * grid // width, sum(2**i for i in range(8) if signs[i])] += 1
    return counts.ravel()


def eigenspace(x, keep):
    """Mean, axes in columns and variances that hold a share of the variance, from the covariance itself."""
    x = np.asarray(x, float)
    variances, axes = np.linalg.eigh(np.cov(x, rowvar=False))
    variances, axes = variances[::-1], axes[:, ::-1]
    m = next(i for i in range(1, len(variances) + 1) if sum(variances[:i]) >= keep * sum(variances) - 1e-9)
    return x.mean(axis=0), axes[:, :m], variances[:m]


def mahalanobis(gallery, probes, keep=0.98):
    """The root of (I - J)^T S^-1 (I - J) in the eigenspace [G5 3.1]."""
    _, axes, variances = eigenspace(gallery, keep)
    steps = [[axes.T @ (np.asarray(p, float) - g) for g in gallery] for p in probes]
    return np.array([[math.sqrt(d @ np.linalg.inv(np.diag(variances)) @ d) for d in row] for row in steps])


def fisherfaces(gallery, subjects, probes, keep=0.98):
    """Scatter matrices person by person; axes of S_b where S_w is the identity."""
    mean, axes, _ = eigenspace(gallery, keep)
    y = (np.asarray(gallery, float) - mean) @ axes
    people, n = sorted(set(subjects)), len(y)
    c, m = len(people), axes.shape[1]
    s_w, s_b, s_t = np.zeros((m, m)), np.zeros((m, m)), np.zeros((m, m))
    for person in people:
        own = y[[who == person for who in subjects]]
        centre = own.mean(axis=0)
        s_b += len(own) * np.outer(centre, centre)
        s_w += sum(np.outer(row - centre, row - centre) for row in own)
        s_t += sum(np.outer(row, row) for row in own)
    mixed = (1 - c / n) * s_w / max(n - c, 1) + c / n * s_t / (n - 1)
    values, vectors = np.linalg.eigh(mixed)
    root = vectors @ np.diag(values**-0.5) @ vectors.T  # after it S_w is the identity
    phi = np.linalg.eigh(root @ s_b @ root)[1][:, ::-1][:, : c - 1].T @ root
    return np.array(
        [[math.dist(phi @ axes.T @ p, phi @ axes.T @ g) for g in gallery] for p in probes.astype(float)]
    )


# --- tune --------------------------------------------------------------------------------------------------


def recommended(rows, risk):
    """Look at every (method, k, proved, bound, high, loss) and keep the one that loses least."""
    best = None
    for method, k, proved, bound, high, loss in rows:
        if (bound if proved else high) <= risk and (best is None or (loss, k) < (best[2], best[1])):
            best = method, k, loss
    return best and best[:2]


def cut(tree, share):
    """Join clusters up to every height of a linkage until enough people are not alone."""
    n = len(tree) + 1
    for height in tree[:, 2]:
        clusters = {i: {i} for i in range(n)}
        for step, (one, other, at, _) in enumerate(tree):
            if at <= height:
                clusters[n + step] = clusters.pop(int(one)) | clusters.pop(int(other))
        company = [len(cluster) for cluster in clusters.values() if len(cluster) > 1 for _ in cluster]
        if len(company) >= share * n:
            return float(height), int(np.median(company))
    raise AssertionError("at the top everybody is in one cluster")


# --- attacks: every order of the people that the distances allow, every threshold, every pixel ---------


def chances(distance, column, own):
    """How likely the right person is among the first 1, 2, ... names: all orders that distances allow."""
    people = sorted(set(column))
    nearest = {p: min(d for d, c in zip(distance, column, strict=True) if c == p) for p in people}
    orders = [
        order
        for order in itertools.permutations(people)
        if all(nearest[a] <= nearest[b] for a, b in itertools.pairwise(order))
    ]
    return [sum(own in order[:r] for order in orders) / len(orders) for r in range(1, len(people) + 1)]


def accepted_share(right, wrong, fpr):
    """The most right pairs that any threshold accepts which accepts at most that share of the wrong ones."""
    best = 0.0
    for threshold in {*right, *wrong, math.inf}:
        if sum(w < threshold for w in wrong) <= int(fpr * len(wrong)):
            best = max(best, sum(r < threshold for r in right) / len(right))
    return best


def candidates(person, releases):
    """Who shares every group of a person in every release, given as lists of (group, person)."""
    everyone = set.intersection(*({p for _, p in release} for release in releases))
    return {
        other
        for other in everyone
        if all({g for g, p in rel if p == person} <= {g for g, p in rel if p == other} for rel in releases)
    }


def runs_of(row, alike):
    """Distances between the middles of neighbouring steps of a row of colours (w, 3), step by step."""
    middles, step = [], []
    for x in range(1, len(row) + 1):
        size = (
            max(abs(float(a) - float(b)) for a, b in zip(row[x], row[x - 1], strict=True))
            if x < len(row)
            else 0
        )
        if size > alike:
            step.append((x, size))
        elif step:
            middles.append(sum(x * s for x, s in step) / sum(s for _, s in step))
            step = []
    return [b - a for a, b in itertools.pairwise(middles)]


def block_means(image, size, scale):
    """An image (h, w) whose pixels are the means of those in the same square of the frame."""
    height, width = image.shape
    square = {
        (y, x): (math.floor((scale * y + 1) / size), math.floor((scale * x + 1) / size))
        for y in range(height)
        for x in range(width)
    }
    members = {}
    for at, cell in square.items():
        members.setdefault(cell, []).append(float(image[at]))
    return np.array([[np.mean(members[square[y, x]]) for x in range(width)] for y in range(height)])


# --- identity shift: every way to hand out the faces of a pool -----------------------------------------


def pool_faces(people, pool, still, used):
    """Return rows of distinct free pool faces with the least sum of squared distances, or None."""
    best, rows = float("inf"), None
    for chosen in itertools.permutations(range(len(pool)), len(people)):
        total = 0.0
        for person, face in enumerate(chosen):
            if used[person][face]:
                total = float("inf")
                break
            for axis, skip in enumerate(still):
                if not skip:
                    total += float(people[person][axis] - pool[face][axis]) ** 2
        if total < best:
            best, rows = total, chosen
    return rows


def shifted(x, who, rows, pool, pool_shifted, still):
    """Return every face moved by its person's difference, axis by axis."""
    names = list(dict.fromkeys(who))
    new = []
    for face, name in zip(x, who, strict=True):
        row = rows[names.index(name)]
        step = zip(face, pool_shifted[row], pool[row], still, strict=True)
        new.append([c if skip else c + (d - h) for c, d, h, skip in step])
    return new


# Tracks through videos.


def interpolated(values, at, count):
    """Rows straight between those at some places, and constant beyond them."""
    result = []
    for t in range(count):
        left = [i for i in range(len(at)) if at[i] <= t]
        right = [i for i in range(len(at)) if at[i] >= t]
        if not left or not right:
            result.append(values[0] if not left else values[-1])
        elif at[left[-1]] == at[right[0]]:
            result.append(values[left[-1]])
        else:
            a, b = left[-1], right[0]
            result.append(values[a] + (values[b] - values[a]) * ((t - at[a]) / (at[b] - at[a])))
    return np.array(result)


def parabola(series, at, reach):
    """The value at a place of the parabola fitted to its neighbours on either side."""
    near = np.arange(at - reach, at + reach + 1)
    return np.polyval(np.polyfit(near - at, series[near], 2), 0)


def persons(tracks, same):
    """Groups of (clip, frames, code): the nearest two groups are joined, again and again, while they may be.

    Two may be one if some code of one is within the distance of some code of the other, and nobody of
    one is in an image together with somebody of the other.
    """
    groups = [[t] for t in tracks]

    def apart(a, b):
        if any(x[0] == y[0] and set(x[1]) & set(y[1]) for x in a for y in b):
            return math.inf
        return min(float(np.linalg.norm(np.subtract(x[2], y[2]))) for x in a for y in b)

    while len(groups) > 1:
        pairs = [(apart(a, b), i, j) for (i, a), (j, b) in itertools.combinations(enumerate(groups), 2)]
        best, i, j = min(pairs)
        if best > same:
            break
        groups[i] = groups[i] + groups.pop(j)
    return groups


# the parameter GAN: losses by their formulas, one row at a time


def perceptron(net, row):
    """One hidden layer, leaky rectifier 0.2: the outputs for one row."""
    w, b, v, c = net
    hidden = [sum(x * w[i][j] for i, x in enumerate(row)) + b[j] for j in range(len(b))]
    hidden = [h if h > 0 else 0.2 * h for h in hidden]
    return [sum(h * v[j][o] for j, h in enumerate(hidden)) + c[o] for o in range(len(c))]


def gan_losses(loss, d, real, fake, c_real=None, c_fake=None):
    """L_D and L_G [S 8.4-8.6] without the penalty; with c the auxiliary losses (8.8, 8.11) are added."""
    y, y_fake = [perceptron(d, x) for x in real], [perceptron(d, x) for x in fake]

    def mean(values):
        return sum(values) / len(values)

    if loss == "lsgan":
        l_d = 0.5 * mean([(o[0] - 1) ** 2 for o in y]) + 0.5 * mean([o[0] ** 2 for o in y_fake])
        l_g = 0.5 * mean([(o[0] - 1) ** 2 for o in y_fake])
    else:
        l_d, l_g = mean([o[0] for o in y_fake]) - mean([o[0] for o in y]), -mean([o[0] for o in y_fake])
    if c_real is not None:
        q = len(c_real[0])
        l_d += mean([math.dist(o[1:], c) ** 2 for o, c in zip(y, c_real, strict=True)]) / (2 * q)
        l_g += mean([math.dist(o[1:], c) ** 2 for o, c in zip(y_fake, c_fake, strict=True)]) / (2 * q)
    return l_d, l_g


def gradient_penalty(net, rows, step=1e-6):
    """The mean of (||grad_x y_0|| - 1)^2 by differences."""
    total = 0.0
    for row in rows:
        slopes = []
        for i in range(len(row)):
            up, down = list(row), list(row)
            up[i] += step
            down[i] -= step
            slopes.append((perceptron(net, up)[0] - perceptron(net, down)[0]) / (2 * step))
        total += (math.hypot(*slopes) - 1) ** 2
    return total / len(rows)


def energy_distance(a, b):
    """2 E|a - b| - E|a - a'| - E|b - b'|, pair by pair."""

    def mean(xs, ys):
        return sum(math.dist(x, y) for x in xs for y in ys) / (len(xs) * len(ys))

    return 2 * mean(a, b) - mean(a, a) - mean(b, b)


def calm(codes, seen, sigma):
    """Codes smoothed frame by frame: gaps filled on a line, ends held, a Gaussian of six sigma."""
    good = [t for t, ok in enumerate(seen) if ok]
    filled = []
    for t in range(len(codes)):
        before = max((g for g in good if g <= t), default=good[0])
        after = min((g for g in good if g >= t), default=good[-1])
        share = 0.0 if after == before else (t - before) / (after - before)
        filled.append((1 - share) * codes[before] + share * codes[after])
    reach = math.ceil(3 * sigma)
    weight = [math.exp(-((i / sigma) ** 2) / 2) for i in range(-reach, reach + 1)]
    return [
        sum(
            w * filled[min(max(t + i, 0), len(codes) - 1)]
            for i, w in zip(range(-reach, reach + 1), weight, strict=True)
        )
        / sum(weight)
        for t in range(len(codes))
    ]


# --- eyes, brows and mouth of a new face: point by point -------------------------------------------------


def in_form(move, own, features, whole, near):
    """Each feature moves by ``whole``; every point by the mean of the features near it and its own move."""
    result = []
    for point, step in zip(own, move, strict=True):
        steps, shares, free = [], [], 1.0
        for name, feature in enumerate(features):
            far = min(math.dist(point, own[i]) for i in feature)
            shares.append(math.exp(-((far / near) ** 2)))
            steps.append(whole(name, point) - point)
            free *= 1 - shares[-1]
        total = sum(shares) + free
        result.append((sum(s * w for s, w in zip(steps, shares, strict=True)) + free * step) / total)
    return np.array(result)


def eyeballs(at, new, ring):
    """An eye of an image, its lids as near to its axis as those of a mesh are, but not further off."""

    def along_and_off(mesh, i):
        axis = mesh[ring[8]] - mesh[ring[0]]
        here = mesh[i] - mesh[ring[0]]
        length = axis @ axis
        return here @ axis / length, (axis[0] * here[1] - axis[1] * here[0]) / length

    def high(mesh):
        off = [along_and_off(mesh, i)[1] for i in ring]
        return max(off) - min(off)

    share = min(1.0, high(new) / high(at))
    axis = at[ring[8]] - at[ring[0]]
    across = np.array([-axis[1], axis[0]])
    places = [along_and_off(at, i) for i in ring]
    return np.array([at[ring[0]] + along * axis + share * off * across for along, off in places])


def between_lips(height, colours):
    """The colour at a height between the lips, 0 to 1: on a line between the middles of even bands."""
    middles = [(i + 0.5) / len(colours) for i in range(len(colours))]
    if height <= middles[0]:
        return colours[0]
    for i in range(len(colours) - 1):
        if height <= middles[i + 1]:
            share = (height - middles[i]) / (middles[i + 1] - middles[i])
            return (1 - share) * colours[i] + share * colours[i + 1]
    return colours[-1]


# --- videos, measured: pair by pair, frame by frame, pixel by pixel --------------------------------------


def pairs_alike(x, persons, threshold):
    near = [
        math.dist(x[i], x[j]) <= threshold
        for i in range(len(x))
        for j in range(i)
        if persons[i] == persons[j]
    ]
    return sum(near) / len(near) if near else math.nan


def over_time(before, after, persons):
    def centred(values, i):
        own = [value for value, person in zip(values, persons, strict=True) if person == persons[i]]
        return values[i] - sum(own) / len(own)

    old, new = ([centred(values, i) for i in range(len(values))] for values in (before, after))
    spread = math.sqrt(sum(a * a for a in old) * sum(b * b for b in new))
    return sum(a * b for a, b in zip(old, new, strict=True)) / spread if spread > 1e-9 else math.nan


def flicker(before, after, region, still, around):
    """Sum up the changes of both, the original's light aside, where the original's are small all around."""
    height, width = region.shape
    places = [(y, x) for y in range(height) for x in range(width) if region[y, x]]
    if not places:
        return 0, 0, 0
    light = statistics.median(int(before[1][y][x]) / max(int(before[0][y][x]), 1) for y, x in places)

    def changed(pair, y, x):
        return abs(int(pair[1][y][x]) - light * int(pair[0][y][x]))

    change = [[changed(before, y, x) for x in range(width)] for y in range(height)]

    def inside(at, size):  # mirrored at the edge, which is not repeated
        at = abs(at)
        return at if at < size else 2 * (size - 1) - at

    old = new = pixels = 0
    reach = around // 2
    for y in range(height):
        for x in range(width):
            near = [
                change[inside(y + i, height)][inside(x + j, width)]
                for i in range(-reach, reach + 1)
                for j in range(-reach, reach + 1)
            ]
            if region[y, x] and sum(near) / len(near) <= still:
                old, pixels = old + change[y][x], pixels + 1
                new += changed(after, y, x)
    return old, new, pixels


# --- what a face is built like: corner to corner -----------------------------------------------------------


def proportions(mesh):
    """Return the width of the nose and the height of both lips by the width of the face, of one mesh."""
    wings, ears = (129, 358), (234, 454)
    upper, lower = (0, 13), (14, 17)
    apart = {pair: math.hypot(*(mesh[pair[0]] - mesh[pair[1]])) for pair in (wings, ears, upper, lower)}
    return apart[wings] / apart[ears], (apart[upper] + apart[lower]) / apart[ears]


# generator: styles, and the likeliest way to more of an attribute


def synthesised(rows, matrices, side):
    """An image (side, side, 3) of one style for each layer: the sum of the layers, squashed to 0 to 255."""
    values = [
        sum(
            rows[layer][i] * matrix[i][out]
            for layer, matrix in enumerate(matrices)
            for i in range(len(rows[layer]))
        )
        for out in range(3 * side * side)
    ]
    image = np.zeros((side, side, 3))
    for out, value in enumerate(values):
        channel, place = divmod(out, side * side)
        image[place // side, place % side, channel] = round((math.tanh(value) + 1) * 127.5)
    return image


def likeliest(spread, slope, step):
    """The least change x of a code, by x' spread^-1 x, with slope x = step, and that least: by Lagrange."""
    d, a = len(spread), len(step)
    system = np.zeros((d + a, d + a))
    system[:d, :d] = 2 * np.linalg.inv(spread)
    system[:d, d:] = slope.T
    system[d:, :d] = slope
    x = np.linalg.solve(system, np.concatenate([np.zeros(d), step]))[:d]
    return x, x @ np.linalg.inv(spread) @ x


def law_with_several(outputs, subjects, k):
    """Whether every output has k subjects, and no subject stands behind outputs with different people."""
    behind = {out: {s for o, s in zip(outputs, subjects, strict=True) if o == out} for out in outputs}
    return all(len(people) >= k for people in behind.values()) and all(
        a == b for a in behind.values() for b in behind.values() if a & b
    )


# portraits: how like a code's geometry is to the likest of others


def likest(code, others):
    """Return the largest cosine between the first half of a code and that of any other, one by one."""
    half = len(code) // 2
    best = -2.0
    for other in others:
        dot = sum(float(a) * float(b) for a, b in zip(code[:half], other[:half], strict=True))
        lengths = sum(float(a) ** 2 for a in code[:half]) * sum(float(b) ** 2 for b in other[:half])
        best = max(best, dot / lengths**0.5)
    return best


# portraits


def haar(bands):
    """Return (3, 2 h, 2 w) of the bands (12, h, w) of an inverse Haar wavelet, pixel by pixel."""
    _, height, width = bands.shape
    image = np.zeros((3, 2 * height, 2 * width))
    for colour in range(3):
        for y in range(2 * height):
            for x in range(2 * width):
                mean = bands[colour, y // 2, x // 2]
                down, across, both = bands[3 + 3 * colour : 6 + 3 * colour, y // 2, x // 2]
                up, left = 1 - 2 * (y % 2), 1 - 2 * (x % 2)
                image[colour, y, x] = (mean + up * down + left * across + up * left * both) / 2
    return image


# portraits: how near one may be to people


def limit(codes, subjects, threshold, nearly=0.05, least=0.8):
    """Return what all but a share of pairs of different people are apart by, between two bounds."""
    apart = sorted(
        sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) ** 0.5
        for one, who in zip(codes, subjects, strict=True)
        for two, other in zip(codes, subjects, strict=True)
        if who != other
    )
    place = nearly * (len(apart) - 1)
    low, rest = int(place), place - int(place)
    at = apart[low] + (rest * (apart[low + 1] - apart[low]) if rest else 0)
    return max(least * threshold, min(at, threshold))


def kinship(face, members, own, others, thresholds):
    """Return the mean distance to others less that to one's own people, as a mean over recognisers."""

    def mean_distance(name, rows):
        apart = [
            sum((a - b) ** 2 for a, b in zip(members[name][row], face[name][0], strict=True)) ** 0.5
            for row in rows
        ]
        return sum(apart) / len(apart) / thresholds[name]

    if not others:
        return 0.0
    return sum(mean_distance(name, others) - mean_distance(name, own) for name in face) / len(face)


# tone: the colours of a photo at some grey levels


def tone_curve(colours, grey, levels, smoothing=6.0):
    """Return for each level the mean of colour less grey over pixels, by how near they are to the level."""
    curve = []
    for level in levels:
        weights = [math.exp(-0.5 * ((level - g) / smoothing) ** 2) + 1e-12 for g in grey]
        total = sum(weights)
        curve.append(
            [
                sum(w * (c[channel] - g) for w, c, g in zip(weights, colours, grey, strict=True)) / total
                if total
                else 0.0
                for channel in range(3)
            ]
        )
    return curve


# heads: the best source patch for each target, by trying all

PATCH_RADIUS = 2


def patch_costs(image, counts, sources, targets):
    """Return how unlike the patch at each target is to that at its source."""
    costs = []
    for (sy, sx), (ty, tx) in zip(sources, targets, strict=True):
        total = 0.0
        for dy, dx in itertools.product(range(-PATCH_RADIUS, PATCH_RADIUS + 1), repeat=2):
            to, of = (ty + dy, tx + dx), (sy + dy, sx + dx)
            if counts[to]:
                apart = image[to].astype(float) - image[of].astype(float)
                total += float((apart**2).sum())
        costs.append(total)
    return np.array(costs)


def nearest_patches(image, counts, centres, targets):
    """Return for each target the source patch most like its own."""
    r = PATCH_RADIUS
    found = []
    for ty, tx in targets:
        to = np.s_[ty - r : ty + r + 1, tx - r : tx + r + 1]
        costs = []
        for sy, sx in centres:
            of = np.s_[sy - r : sy + r + 1, sx - r : sx + r + 1]
            apart = ((image[to].astype(float) - image[of].astype(float)) ** 2).sum(axis=2)
            costs.append((apart * counts[to]).sum())
        found.append(centres[int(np.argmin(costs))])
    return np.array(found)
