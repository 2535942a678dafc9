"""Array types that carry shapes, such as `Float[np.ndarray, "A K"]`.

Annotations are strings here and are never evaluated in normal use, so `import sumwise` does
not pay for jaxtyping. Type checkers see the real names; the tests load jaxtyping first and
have every signature enforced.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["Bool", "Float", "Int", "Mask", "Numbers", "PerSet"]

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    import numpy as np
    from jaxtyping import Bool, Float, Int

    PerSet = Float[np.ndarray, " A"]  # a number for each set
    Mask = Bool[np.ndarray, " A"]  # which sets
    Numbers = Float[np.ndarray, "..."]  # of any shape
else:
    Bool = Float = Int = Mask = Numbers = PerSet = object
