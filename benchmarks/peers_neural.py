"""Training of a neural basis as the paper describes it, in eager PyTorch, one thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

import sumwise as sw

RATE = 1e-3  # the paper's

torch.set_num_threads(1)


class Literal(nn.Module):
    """Linear layers with ReLU between them, log λ and log β; called, it is Eq. 22 term by term.

    The K×K matrix, and all that follows it, has the precision of log λ and log β.
    """

    def __init__(
        self, layers: Sequence[tuple[np.ndarray, np.ndarray]], log_precisions: np.ndarray
    ) -> None:
        super().__init__()
        modules: list[nn.Module] = []
        for weight, bias in layers:
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.weight, linear.bias = _parameter(weight), _parameter(bias)
            modules += [linear, nn.ReLU()]
        self.phi = nn.Sequential(*modules[:-1])
        self.log_lam, self.log_beta = map(_parameter, log_precisions)

    def forward(self, x, theta, owner, scale, total):  # type: ignore[no-untyped-def]
        phi = self.phi(x)
        n_sets, n_basis = len(total), phi.shape[1]
        u = torch.zeros(n_sets, n_basis, dtype=phi.dtype).index_add(0, owner, theta[:, None] * phi)
        u = u.to(total.dtype)
        beta = self.log_beta.exp()
        prior = self.log_lam.exp() * torch.eye(n_basis, dtype=total.dtype)
        precision = prior + beta * u.T @ (u / scale[:, None])  # S⁻¹
        chol = torch.linalg.cholesky(precision)
        mean = torch.cholesky_solve(beta * (u.T @ (total / scale))[:, None], chol)[:, 0]
        return (
            n_sets / 2 * self.log_beta
            + n_basis / 2 * self.log_lam
            - 0.5 * scale.log().sum()
            - chol.diagonal().log().sum()  # ½ log |S|
            - 0.5 * beta * (total**2 / scale).sum()
            + 0.5 * mean @ precision @ mean
            - n_sets / 2 * math.log(2 * math.pi)
        )


def train(
    layers: Sequence[tuple[np.ndarray, np.ndarray]],
    log_precisions: np.ndarray,
    sets: sw.Sets,
    y_bar: np.ndarray,
    epochs: int,
) -> float:
    """The log evidence after so many epochs of Adam, all of it on automatic derivatives."""
    model = Literal(layers, log_precisions)
    network, matrices = layers[0][0].dtype, log_precisions.dtype
    data = (
        torch.tensor(sets.x.astype(network)),
        torch.tensor(sets.theta.astype(network)),
        torch.tensor(np.repeat(np.arange(len(sets)), sets.sizes)),
        torch.tensor(np.add.reduceat(sets.theta**2, sets.starts[:-1]).astype(matrices)),
        torch.tensor(y_bar.astype(matrices)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(epochs):
        optimizer.zero_grad()
        (-model(*data)).backward()
        optimizer.step()
    with torch.no_grad():
        return model(*data).item()


def _parameter(values: np.ndarray) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values))
