"""Which rule for pools cannot be met: necessary conditions, checked before pools are sought."""

from __future__ import annotations

import numpy as np

from sumwise.data.pool_rules import PoolRules
from sumwise.errors import PoolExhaustedError, SettingError
from sumwise.util.shapes import Int, Mask
from sumwise.util.text import count


def refuse_impossible(rules: PoolRules, free: Mask, most: int) -> None:
    """Refuse rules that no pool can meet, and say which of them binds.

    Args:
        free: Candidates that may still be in a pool.
        most: Members that a pool may have: by its size, by money, and by who is free.
    """
    fewest, left = rules.size[0], int(free.sum())
    if left < fewest:
        used = "" if rules.uses is None else f" (each may be in {count(rules.uses, 'pool')})"
        raise PoolExhaustedError(
            f"a pool needs at least {count(fewest, 'member')}, and "
            f"{count(left, 'candidate')} {'is' if left == 1 else 'are'} free{used}; allow smaller "
            "pools, more uses, or add candidates"
        )
    if most < fewest:
        raise PoolExhaustedError(
            f"a pool needs at least {count(fewest, 'member')}, and the budget pays for {most}; "
            "raise the budget, or allow smaller pools"
        )
    _refuse_together(rules, free, most)
    _refuse_strata(rules, free, most)
    if rules.apart is not None:
        codes = rules.apart[free]
        able = int((codes < 0).sum()) + len(np.unique(codes[codes >= 0]))
        if able < fewest:
            raise SettingError(
                f"apart: candidates have {able} different labels, so a pool has at most {able} "
                f"members, and size asks for at least {fewest}; allow smaller pools"
            )
    if rules.within is not None:
        largest = _largest(rules.within[free])
        if not largest:
            raise PoolExhaustedError(
                "within: no free candidate has a label, and those without one are never in a pool; "
                "give candidates labels, or allow more uses"
            )
        if largest < fewest:
            raise PoolExhaustedError(
                f"within: the largest block has {count(largest, 'free candidate')}, and a pool "
                f"needs at least {fewest}; allow smaller pools"
            )
    if rules.neighbours is not None:
        largest = _largest(components(rules.neighbours, free)[free])
        if largest < fewest:
            raise PoolExhaustedError(
                f"neighbours: at most {count(largest, 'free candidate')} are connected, and a pool "
                f"needs at least {fewest}; allow smaller pools, or name more neighbours"
            )


def _refuse_together(rules: PoolRules, free: Mask, most: int) -> None:
    """Refuse groups that cannot go into a pool, where no other candidates could."""
    if rules.together is None:
        return
    codes = rules.together
    whole = free & ((codes < 0) | ~np.isin(codes, codes[~free]))
    sizes = np.bincount(codes[whole & (codes >= 0)]) if (codes >= 0).any() else np.empty(0, int)
    single = int((whole & (codes < 0)).sum())
    fits = int(sizes[sizes <= most].sum()) + single
    if fits < rules.size[0]:
        raise SettingError(
            f"together: {count(fits, 'candidate')} would fit into a pool of at most {most} with "
            f"all of their group, and a pool needs at least {rules.size[0]}; allow larger pools"
        )
    for name in ("apart", "strata"):
        other = getattr(rules, name)
        both = None if other is None else np.stack([codes, other])[:, (codes >= 0) & (other >= 0)]
        if both is None or not both.shape[1]:
            continue
        pairs, counts = np.unique(both, axis=1, return_counts=True)
        if (counts > 1).any() and len(np.unique(codes[codes >= 0])) == 1 and not single:
            raise SettingError(
                f"together and {name}: group {int(pairs[0, np.argmax(counts)])} has two candidates "
                f"of one label of {name}, so it can never be in a pool; change one of the labels"
            )


def _refuse_strata(rules: PoolRules, free: Mask, most: int) -> None:
    if rules.strata is None:
        return
    every = np.unique(rules.strata[rules.strata >= 0])
    if len(every) > most:
        raise SettingError(
            f"strata: a pool has one candidate of each of {len(every)} strata, and at most "
            f"{count(most, 'member')}; allow larger pools, or merge strata"
        )
    if len(every) < rules.size[0] and not (rules.strata[free] < 0).any():
        raise SettingError(
            f"strata: a pool has one candidate of each of {len(every)} strata, and size asks for "
            f"at least {rules.size[0]} members; allow smaller pools, or split strata"
        )
    missing = np.setdiff1d(every, rules.strata[free])
    if len(missing):
        raise PoolExhaustedError(
            f"strata: of {len(missing)} of {len(every)} strata no candidate is free any more, and "
            "a pool has one of each; allow more uses, or add candidates"
        )


def _largest(codes: Int[np.ndarray, " c"]) -> int:
    """How many have the most frequent code from 0 on."""
    return int(np.bincount(codes[codes >= 0]).max(initial=0)) if (codes >= 0).any() else 0


def components(pairs: Int[np.ndarray, "E 2"], free: Mask) -> Int[np.ndarray, " N"]:
    """Number of the connected part that each free candidate is in."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    kept = pairs[free[pairs].all(axis=1)]
    shape = len(free), len(free)
    graph = coo_array((np.ones(len(kept)), (kept[:, 0], kept[:, 1])), shape=shape)
    found: Int[np.ndarray, " N"] = connected_components(graph, directed=False)[1].astype(int)
    return found
