"""Gaussian posterior over the coefficients w (paper §4.3).

    S⁻¹ = λ I + β Σ_a u_a u_aᵀ / s_a                Eq. 12
    m   = β S Σ_a ȳ_a u_a / s_a                     Eq. 11
    ȳ_a | D ~ N(mᵀ u_a, s_a / β + u_aᵀ S u_a)       Eq. 14
    y | x, D ~ N(mᵀ φ(x), 1/β + φ(x)ᵀ S φ(x))       Eq. 23

Both follow from one thin singular value decomposition of the t×K matrix with rows u_a / √s_a,

    [u_a / √s_a] = Q diag(√g) R,      S = Σ_i r_i r_iᵀ / (λ + β g_i) + (I − RᵀR) / λ,

which is t×t work while there are fewer labels than features (the dual form) and K×K work
afterwards (the primal form). Nothing squares the condition number, S is never formed, and other
λ and β on the same labels cost O(t) more. Several outputs share S; each has its own mean.

Where sets have effects of their own, of variance κ/β, the noise of a total is s_a + κ (Σθ)² in
place of s_a (`Posterior.noise_scale`). A mixture of models has the mean and covariance of the whole
mixture here (`from_covariance`): questions need no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sumwise.model.design import Design, freeze
from sumwise.util.files import let_go
from sumwise.util.parted import Rows
from sumwise.util.shapes import Float

EPSILON = float(np.finfo(float).eps)
BLOCK = 2048  # sets handled together, so that intermediate arrays stay in cache


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The two precisions: λ of the prior (Eq. 6) and β of the noise (Eq. 7)."""

    prior_precision: float
    noise_precision: float


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """The decomposition of the labelled sets, which does not depend on λ and β."""

    left: Float[np.ndarray, "t r"]  # Q
    values: Float[np.ndarray, " r"]  # g: squared singular values, r = min(t, K)
    directions: Float[np.ndarray, "r K"]  # R, orthonormal rows
    projected: Float[np.ndarray, "r M"]  # Qᵀ (ȳ / √s)
    residual_power: float  # ‖ȳ/√s‖² outside the span of Q, over all outputs
    log_noise_scale: float  # Σ_a log s_a

    def __post_init__(self) -> None:
        freeze(self.left, self.values, self.directions, self.projected)

    @property
    def n_labels(self) -> int:
        return len(self.left)

    @property
    def n_outputs(self) -> int:
        return self.projected.shape[1]


def decompose(design: Design, y_bar: Float[np.ndarray, "t M"]) -> Spectrum:
    """The spectrum of the sets in `design`, labelled with `y_bar`; no sets is fine."""
    root = np.sqrt(design.noise_scale)[:, None]
    left, singular, directions = np.linalg.svd(design.u / root, full_matrices=False)
    target = y_bar / root
    projected = left.T @ target
    residual = target - left @ projected
    return Spectrum(
        left,
        singular**2,
        directions,
        projected,
        float(np.sum(residual**2)),
        float(np.log(design.noise_scale).sum()),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """p(w | D) = N(m, S), Eq. 10, for outputs measured in units of `output_scale`."""

    mean: Float[np.ndarray, "K M"]  # m, a column per output
    values: Float[np.ndarray, " r"]  # g; infinite along a direction that is known for certain
    directions: Float[np.ndarray, "r K"]  # R
    hyper: Hyperparameters
    output_scale: Float[np.ndarray, " M"]
    effect: float = 0.0  # κ: variance of a set's own effect, in units of 1/β

    def __post_init__(self) -> None:
        freeze(self.mean, self.values, self.directions, self.output_scale)

    @property
    def n_outputs(self) -> int:
        return self.mean.shape[1]

    @property
    def noise_precision(self) -> float:
        return self.hyper.noise_precision

    @property
    def variances(self) -> Float[np.ndarray, " r"]:
        """Of w along each direction: 1 / (λ + β g)."""
        return 1 / (self.hyper.prior_precision + self.hyper.noise_precision * self.values)

    @property
    def individual_noise(self) -> float:
        """Variance of an individual's output given w: its own noise and its set's effect."""
        return (1 + self.effect) / self.noise_precision

    def noise_scale(self, design: Design) -> Float[np.ndarray, " A"]:
        """Variance of each total given w, in units of 1/β."""
        scale = design.noise_scale
        if self.effect:
            scale = scale + self.effect * design.effect_scale
        return scale if design.left is None else scale * design.left

    def noise(self, design: Design) -> Float[np.ndarray, " A"]:
        """Variance of each total given w."""
        return self.noise_scale(design) / self.noise_precision

    def variance_along(self, u: Rows) -> Float[np.ndarray, " A"]:
        """u_aᵀ S u_a for every row of `u`."""
        out = np.empty(len(u))
        for low in range(0, len(u), BLOCK):
            some = u[low : low + BLOCK]
            along, rest = self._split(some)
            out[low : low + BLOCK] = along**2 @ self.variances
            if rest is not None:
                unseen = np.einsum("ak,ak->a", rest, rest)
                out[low : low + BLOCK] += unseen / self.hyper.prior_precision
            let_go(some)
        return out

    def covariance_along(self, u: Float[np.ndarray, "A K"]) -> Float[np.ndarray, "A A"]:
        """u_aᵀ S u_b for every pair of rows of `u`."""
        half = self.root_times(u)
        return half @ half.T

    def root_times(self, u: Float[np.ndarray, "A K"]) -> Float[np.ndarray, "A K"]:
        """Rows R u_a with R the symmetric root of S."""
        return self._spread(u, 0.5)

    def times(self, u: Float[np.ndarray, "A K"]) -> Float[np.ndarray, "A K"]:
        """Rows S u_a."""
        return self._spread(u, 1.0)

    def _spread(self, rows: Float[np.ndarray, "A K"], power: float) -> Float[np.ndarray, "A K"]:
        """Rows times S, or times its symmetric root if `power` is ½."""
        along, rest = self._split(rows)
        along *= self.variances**power
        spread = along @ self.directions
        return spread if rest is None else spread + rest / self.hyper.prior_precision**power

    def _split(
        self, rows: Float[np.ndarray, "A K"]
    ) -> tuple[Float[np.ndarray, "A r"], Float[np.ndarray, "A K"] | None]:
        """Rows along the labelled directions, and their part outside all of these, if there is any.

        The squared size of that part is not ‖u‖² − ‖along‖², which would cancel.
        """
        along = rows @ self.directions.T
        if len(self.directions) == rows.shape[1]:
            return along, None
        return along, rows - along @ self.directions

    def sample(self, n_samples: int, rng: np.random.Generator) -> Float[np.ndarray, "L K M"]:
        """Draws of w, a column per output."""
        n_basis, n_outputs = self.mean.shape
        noise = rng.standard_normal((n_samples * n_outputs, n_basis))
        spread = self._spread(noise, 0.5).reshape(n_samples, n_outputs, n_basis)
        return self.mean + spread.transpose(0, 2, 1)

    def condition_on(self, design: Design) -> Posterior:
        """The posterior as if the sets of `design` were measured too: S changes, m does not.

        Variances do not depend on the values measured, so a question that is still open can be
        conditioned on exactly.
        """
        certain = np.isinf(self.values)
        known = np.sqrt(self.values[~certain])[:, None] * self.directions[~certain]
        new = design.u / np.sqrt(self.noise_scale(design))[:, None]
        sure = self.directions[certain]  # known for certain: nothing is left to learn along these
        rows = np.vstack([known, new - (new @ sure.T) @ sure])
        try:
            _, singular, directions = np.linalg.svd(rows, full_matrices=False)
        except np.linalg.LinAlgError:  # divide and conquer rarely fails, and not for the transpose
            axes, singular, _ = np.linalg.svd(rows.T, full_matrices=False)
            directions = axes.T
        if certain.any():  # directions left by rounding need not be orthogonal to them
            size = np.linalg.norm(np.vstack([known, new]))
            left = singular > 10 * EPSILON * len(self.mean) * size
            singular, directions = singular[left], directions[left]
        return replace(
            self,
            values=np.concatenate([self.values[certain], singular**2]),
            directions=np.vstack([sure, directions]),
        )


def condition(
    spectrum: Spectrum,
    hyper: Hyperparameters,
    output_scale: Float[np.ndarray, " M"] | None = None,
) -> Posterior:
    """The posterior after the labels of `spectrum`; without labels, the prior."""
    beta = hyper.noise_precision
    gain = beta * np.sqrt(spectrum.values) / (hyper.prior_precision + beta * spectrum.values)
    mean = spectrum.directions.T @ (gain[:, None] * spectrum.projected)
    scale = np.ones(spectrum.n_outputs) if output_scale is None else output_scale
    return Posterior(mean, spectrum.values, spectrum.directions, hyper, scale)


def from_covariance(
    mean: Float[np.ndarray, "K M"],
    covariance: Float[np.ndarray, "K K"],
    noise: tuple[float, float],
    output_scale: Float[np.ndarray, " M"],
) -> Posterior:
    """The Gaussian with this mean and covariance of w.

    Its λ is the precision along the least certain direction, and along the others g is what exceeds
    that. Variances that are 0 but for rounding are 0: nothing is left to learn along these.

    Args:
        noise: Variance of an individual's own noise, and of a set's effect.
    """
    variances, axes = _axes(covariance)
    top = max(float(variances[-1]), EPSILON * noise[0])  # also where all is known but for rounding
    rounding = EPSILON * len(variances) * top
    with np.errstate(divide="ignore"):
        excess = np.where(variances > rounding, 1 / np.maximum(variances, rounding), np.inf)
    hyper = Hyperparameters(1 / top, 1 / noise[0])
    values = np.maximum(excess - 1 / top, 0.0) * noise[0]
    return Posterior(mean, values, axes.T.copy(), hyper, output_scale, noise[1] / noise[0])


def committee(
    n_members: int, noise_precision: float, output_scale: Float[np.ndarray, " M"]
) -> Posterior:
    """The coefficients of L equally likely models, one of which is right.

    With the outputs of the models as features, w is one of the L unit vectors: its mean is 1/L
    everywhere, and S = I/L − 11ᵀ/L², which knows for certain that the coefficients add up to 1.
    So u_aᵀ S u_a is the variance of the models' totals.
    """
    return Posterior(
        mean=np.full((n_members, 1), 1 / n_members),
        values=np.array([np.inf]),
        directions=np.full((1, n_members), n_members**-0.5),
        hyper=Hyperparameters(float(n_members), noise_precision),
        output_scale=output_scale,
    )


def _axes(
    covariance: Float[np.ndarray, "K K"],
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K K"]]:
    """Eigenvalues and eigenvectors; by another algorithm where the fastest does not converge."""
    try:
        found = np.linalg.eigh(covariance)
    except np.linalg.LinAlgError:  # LAPACK's syevd gives up on some matrices that are well behaved
        from scipy.linalg import eigh

        found = eigh(covariance, driver="ev")
    return found[0], found[1]
