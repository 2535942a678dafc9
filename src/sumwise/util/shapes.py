"""Array types that carry shapes, such as `Float[np.ndarray, "A K"]`.

Annotations are strings here and are never evaluated in normal use, so `import sumwise` does
not pay for jaxtyping. Type checkers see the real names; the tests load jaxtyping first and
have every signature enforced.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["Bool", "Float", "Int"]

if TYPE_CHECKING or "jaxtyping" in sys.modules:
    from jaxtyping import Bool, Float, Int
else:
    Bool = Float = Int = object
