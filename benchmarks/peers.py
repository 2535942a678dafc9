"""The same loop from other parts: scikit-learn's BayesianRidge, and the paper's in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import BayesianRidge

from sumwise.model.design import Design

QUERIES = 30
EPOCHS, RATE = 1000, 1e-3  # the paper's


def first_question(design: Design) -> int:
    """Without labels AggMI grows with ‖u‖²/s, whatever λ and β."""
    return int(np.argmax(np.einsum("ak,ak->a", design.u, design.u) / design.noise_scale))


def ridge_loop(rows: np.ndarray, targets: np.ndarray, first: int) -> list[int]:
    """30 questions by AggMI, with λ and β from BayesianRidge's own search after each."""
    asked = [first]
    while len(asked) < QUERIES:
        scores = ridge_information(fit_ridge(rows, targets, asked), rows)
        scores[asked] = -np.inf
        asked.append(int(np.argmax(scores)))
    fit_ridge(rows, targets, asked)
    return asked


def fit_ridge(rows: np.ndarray, targets: np.ndarray, asked: list[int]) -> BayesianRidge:
    return BayesianRidge(fit_intercept=False).fit(rows[asked], targets[asked])


def ridge_information(ridge: BayesianRidge, rows: np.ndarray) -> np.ndarray:
    """AggMI (Eq. 21): its std is that of ȳ/√s, noise included, so β std² = 1 + β uᵀSu/s."""
    _, std = ridge.predict(rows, return_std=True)
    return 0.5 * np.log(ridge.alpha_ * std**2)


def literal_search(
    design: Design, y_bar: np.ndarray, start: tuple[float, float], epochs: int = EPOCHS
) -> tuple[float, float]:
    """λ and β as the paper finds them: Eq. 22 term by term, Adam on its automatic derivative."""
    import torch

    u, scale, total = _tensors(design.u, design.noise_scale, y_bar)
    n_sets, n_basis = u.shape
    log_lam, log_beta = (
        torch.tensor(math.log(value), dtype=torch.float64, requires_grad=True) for value in start
    )
    optimizer = torch.optim.Adam([log_lam, log_beta], lr=RATE)
    for _ in range(epochs):
        optimizer.zero_grad()
        beta = log_beta.exp()
        precision, chol = _factor(u, scale, log_lam.exp(), beta)
        mean = torch.cholesky_solve(beta * (u.T @ (total / scale))[:, None], chol)[:, 0]
        log_evidence = (
            n_sets / 2 * log_beta
            + n_basis / 2 * log_lam
            - 0.5 * scale.log().sum()
            - chol.diagonal().log().sum()  # ½ log |S|
            - 0.5 * beta * (total**2 / scale).sum()
            + 0.5 * mean @ precision @ mean
            - n_sets / 2 * math.log(2 * math.pi)
        )
        (-log_evidence).backward()
        optimizer.step()
    return log_lam.exp().item(), log_beta.exp().item()


def literal_loop(
    design: Design, y_bar: np.ndarray, start: tuple[float, float], between: Callable[[int], None]
) -> list[int]:
    """Algorithm 1 to the letter, warm-started; after each label `between` is told their number."""
    asked: list[int] = []
    hyper = start
    while len(asked) < QUERIES:
        scores = _literal_information(design, asked, hyper)
        scores[asked] = -np.inf
        asked.append(int(np.argmax(scores)))
        hyper = literal_search(design.rows(asked), y_bar[asked], hyper)
        between(len(asked))
    return asked


def _literal_information(
    design: Design, asked: list[int], hyper: tuple[float, float]
) -> np.ndarray:
    import torch

    u, scale = _tensors(design.u, design.noise_scale)
    lam, beta = _tensors(*hyper)
    _, chol = _factor(u[asked], scale[asked], lam, beta)
    signal = (u * torch.cholesky_solve(u.T, chol).T).sum(dim=1)
    return (0.5 * torch.log1p(beta * signal / scale)).numpy()


def _factor(u, scale, lam, beta):  # type: ignore[no-untyped-def]
    """S⁻¹ (Eq. 12) and its Cholesky factor."""
    import torch

    precision = lam * torch.eye(u.shape[1], dtype=torch.float64) + beta * u.T @ (u / scale[:, None])
    return precision, torch.linalg.cholesky(precision)


def _tensors(*arrays):  # type: ignore[no-untyped-def]
    import torch

    return tuple(torch.tensor(array, dtype=torch.float64) for array in arrays)
