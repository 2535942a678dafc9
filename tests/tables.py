"""Made-up tables and error curves, for tests of the experiments."""

from __future__ import annotations

import numpy as np

WOBBLE = np.array([-1.0, 1.0] * 4)[:, None]  # of eight splits


def write_csv(path, n_groups=12, name="y"):
    rng = np.random.default_rng(0)
    lines = [f"g,{name},a,b,note"]
    for group in range(n_groups):
        for _ in range(rng.integers(1, 5)):
            a, b = rng.normal(size=2)
            lines.append(f"{group:03},{10 + 3 * a - b:.4f},{a:.4f},{b:.4f},text")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def made_up(levels, splits=8, queries=6, noise=0.01, seed=0):
    """Curves that fall to levels of their own; splits differ much, strategies in one little."""
    rng = np.random.default_rng(seed)
    split = rng.normal(10.0, 1.0, size=(splits, 1))
    fall = np.linspace(2.0, 0.0, queries)
    return {
        name: split + fall + level + noise * rng.normal(size=(splits, queries))
        for name, level in levels.items()
    }
