"""Three loops worth compiling, with numba (`pip install 'sumwise[fast]'`).

`sum_waves` adds up random Fourier features (Eq. 24) over sets without ever holding φ: the
features of one instance live in cache and are added to their set at once. Its time is the
cosine, so that is a polynomial that vectorises: cos v = 1 − 2 sin² h with h = v/2 − qπ in
[−π/2, π/2], sin h by its Taylor series to h²¹ (remainder 1e-18).

`sum_waves_single` does the same in single precision, for designs that are kept so: three times as
fast, and right to about 1e-6 of a feature. It takes inputs that are standardised already.

`adam` is the paper's hyperparameter search on a spectrum. All have a NumPy twin, in `design`
and `evidence`, that gives the same numbers to rounding. Importing this module imports numba.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# q = round(v / 2π) by adding 1.5 · 2⁵², which leaves no bits for a fraction
_ROUND = 6755399441055744.0
_INV_TWO_PI = 1.0 / (2.0 * math.pi)
# π in two parts; the first ends in 20 zero bits, so q times it is exact for |q| < 2²⁰, which
# `waves.LARGEST_ANGLE` keeps well inside of
_PI_HIGH = 3.14159265346825122833
_PI_LOW = 1.21542010130123844986e-10

_S3, _S5, _S7, _S9, _S11, _S13, _S15, _S17, _S19, _S21 = (
    (-1.0) ** (n // 2) / math.factorial(n) for n in range(3, 22, 2)
)


@njit(cache=True, nogil=True, fastmath={"contract"}, inline="always")
def _cosine(v):  # type: ignore[no-untyped-def]
    q = (v * _INV_TWO_PI + _ROUND) - _ROUND
    h = (0.5 * v - q * _PI_HIGH) - q * _PI_LOW
    z = h * h
    tail = _S15 + z * (_S17 + z * (_S19 + z * _S21))
    sine = h + h * z * (
        _S3 + z * (_S5 + z * (_S7 + z * (_S9 + z * (_S11 + z * (_S13 + z * tail)))))
    )
    return 1.0 - 2.0 * sine * sine


@njit(cache=True, nogil=True, fastmath={"contract"})
def sum_waves(x, theta, starts, shift, scale, frequencies, phases, amplitude, out):  # type: ignore[no-untyped-def]
    """Write u_a into `out` (A, W + 1), Σθ last; `frequencies` is (D, W), so W is contiguous."""
    waves, n_inputs = phases.shape[0], x.shape[1]
    room = (waves + 31) // 32 * 32  # whole vectors: the rest of a loop would run one by one
    depth = (n_inputs + 3) // 4 * 4  # inputs go four at a time: fewer loads and stores of angles
    b, c = np.zeros((depth, room)), np.zeros(room)
    b[:n_inputs, :waves], c[:waves] = frequencies, phases
    z, angle, total = np.zeros(depth), np.empty(room), np.empty(room)
    for a in range(starts.shape[0] - 1):
        total[:] = 0.0
        bias = 0.0
        for n in range(starts[a], starts[a + 1]):
            for d in range(n_inputs):
                z[d] = (x[n, d] - shift[d]) / scale[d]
            z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
            for k in range(room):
                angle[k] = c[k] - z0 * b[0, k] - z1 * b[1, k] - z2 * b[2, k] - z3 * b[3, k]
            for d in range(4, depth, 4):
                z0, z1, z2, z3 = z[d], z[d + 1], z[d + 2], z[d + 3]
                for k in range(room):
                    angle[k] -= (
                        z0 * b[d, k] + z1 * b[d + 1, k] + z2 * b[d + 2, k] + z3 * b[d + 3, k]
                    )
            weight = theta[n]
            for k in range(room):
                total[k] += weight * _cosine(angle[k])
            bias += weight
        for k in range(waves):
            out[a, k] = amplitude[k] * total[k]
        out[a, waves] = bias


# cos 2πv = 1 − 2 sin² πh with h = v − round(v), and sin πh by its Taylor series to h¹³
_ROUND_SINGLE = np.float32(1.5 * 2.0**23)
_P1, _P3, _P5, _P7, _P9, _P11, _P13 = (
    np.float32((-1.0) ** (n // 2) * math.pi**n / math.factorial(n)) for n in range(1, 14, 2)
)
_ONE, _TWO = np.float32(1.0), np.float32(2.0)
_TOGETHER = 64  # rows


@njit(cache=True, nogil=True, fastmath={"contract"}, inline="always")
def _cosine_of_turns(v):  # type: ignore[no-untyped-def]
    h = v - ((v + _ROUND_SINGLE) - _ROUND_SINGLE)
    y = h * h
    sine = h * (_P1 + y * (_P3 + y * (_P5 + y * (_P7 + y * (_P9 + y * (_P11 + y * _P13))))))
    return _ONE - _TWO * sine * sine


@njit(cache=True, nogil=True, fastmath={"contract"})
def sum_waves_single(inputs, theta, starts, turns, phases, amplitude, out):  # type: ignore[no-untyped-def]
    """Write u_a into `out` (A, W + 1), Σθ last, all in single precision.

    `inputs` is (D, N), standardised; `turns` (D, W) and `phases` (W) are divided by 2π. Every so
    many rows what was added up goes to a sum in double precision: of a large set, single precision
    would round each cosine in the same direction.
    """
    waves, n_inputs = phases.shape[0], inputs.shape[0]
    room = (waves + 31) // 32 * 32
    depth = (n_inputs + 3) // 4 * 4
    b, c = np.zeros((depth, room), np.float32), np.zeros(room, np.float32)
    b[:n_inputs, :waves], c[:waves] = turns, phases
    z, angle = np.zeros(depth, np.float32), np.empty(room, np.float32)
    total, whole = np.empty(room, np.float32), np.empty(room)
    for a in range(starts.shape[0] - 1):
        total[:] = np.float32(0.0)
        whole[:] = 0.0
        bias = 0.0
        for n in range(starts[a], starts[a + 1]):
            for d in range(n_inputs):
                z[d] = inputs[d, n]
            z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
            for k in range(room):
                angle[k] = c[k] - z0 * b[0, k] - z1 * b[1, k] - z2 * b[2, k] - z3 * b[3, k]
            for d in range(4, depth, 4):
                z0, z1, z2, z3 = z[d], z[d + 1], z[d + 2], z[d + 3]
                for k in range(room):
                    angle[k] -= (
                        z0 * b[d, k] + z1 * b[d + 1, k] + z2 * b[d + 2, k] + z3 * b[d + 3, k]
                    )
            weight = np.float32(theta[n])
            for k in range(room):
                total[k] += weight * _cosine_of_turns(angle[k])
            bias += theta[n]
            if (n - starts[a]) % _TOGETHER == _TOGETHER - 1:
                for k in range(room):
                    whole[k] += total[k]
                    total[k] = np.float32(0.0)
        for k in range(waves):
            out[a, k] = amplitude[k] * (whole[k] + total[k])
        out[a, waves] = bias


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def adam(values, power, count, log_prior, log_noise, epochs, rate):  # type: ignore[no-untyped-def]
    """`epochs` Adam steps on (log λ, log β); see `evidence.adam` for the arguments."""
    m_prior = m_noise = v_prior = v_noise = 0.0
    decay_m = decay_v = 1.0
    for _ in range(epochs):
        inverse_prior, inverse_noise = math.exp(-log_prior), math.exp(-log_noise)
        slope_prior = slope_noise = 0.0
        for i in range(values.shape[0]):
            signal = values[i] * inverse_prior
            inverse = 1.0 / (signal + inverse_noise)
            pull = (count[i] - power[i] * inverse) * inverse
            slope_prior += pull * signal
            slope_noise += pull
        slope_prior *= -0.5  # of the loss, minus the log evidence
        slope_noise *= -0.5 * inverse_noise
        decay_m *= 0.9
        decay_v *= 0.999
        m_prior = 0.9 * m_prior + 0.1 * slope_prior
        m_noise = 0.9 * m_noise + 0.1 * slope_noise
        v_prior = 0.999 * v_prior + 0.001 * slope_prior * slope_prior
        v_noise = 0.999 * v_noise + 0.001 * slope_noise * slope_noise
        step = rate / (1.0 - decay_m)
        root = math.sqrt(1.0 - decay_v)
        log_prior -= step * m_prior / (math.sqrt(v_prior) / root + 1e-8)
        log_noise -= step * m_noise / (math.sqrt(v_noise) / root + 1e-8)
    return log_prior, log_noise
