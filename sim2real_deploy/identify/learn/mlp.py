"""Fits networks of two hidden layers, in numpy.

They have about 1300 weights, which one core fits in seconds; with such small batches a framework's
overhead would outweigh the arithmetic. So learning has no dependency that running lacks, and the
same data and seed give the same bits.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim2real_deploy.twin.networks import Weights, softsign

Array = npt.NDArray[np.float64]

BATCH = 256
RATE = 1e-2  # initial learning rate; it decays along a cosine
DECAY = 1e-5
FIRST_MOMENT, SECOND_MOMENT = 0.9, 0.999


@dataclass(frozen=True, slots=True)
class Mlp:
    """Softsign layers; inputs are centred by `mean`, scales are part of the weights."""

    mean: Weights
    layers: tuple[Weights, ...]  # w0, b0, w1, b1, w2, b2

    def __call__(self, inputs: Array) -> Array:
        w0, b0, w1, b1, w2, b2 = self.layers
        values = (inputs - self.mean).astype(np.float32)
        return np.asarray(softsign(softsign(values @ w0 + b0) @ w1 + b1) @ w2 + b2, np.float64)


def fit_mlp(
    inputs: Array, outputs: Array, weights: Array, *, hidden: int, steps: int, seed: int
) -> Mlp:
    """Least squares with a weight for each row and output. The network starts at zero."""
    mean, scale = inputs.mean(0), inputs.std(0) + 1e-9
    total = np.maximum(weights.sum(0), 1e-9)
    size = np.sqrt((weights * outputs**2).sum(0) / total) + 1e-9
    x = ((inputs - mean) / scale).astype(np.float32)
    y = (outputs / size).astype(np.float32)
    share = (weights * len(weights) / total).astype(np.float32)
    rng = np.random.default_rng(seed)
    layers = _optimised(x, y, share, _begin(x.shape[1], hidden, y.shape[1], rng), steps, rng)
    layers[0] = (layers[0] / scale[:, None]).astype(np.float32)
    layers[4], layers[5] = layers[4] * np.float32(size), layers[5] * np.float32(size)
    return Mlp(mean.astype(np.float32), tuple(layer.astype(np.float32) for layer in layers))


def _begin(inputs: int, hidden: int, outputs: int, rng: np.random.Generator) -> list[Weights]:
    def drawn(rows: int) -> Weights:
        drawn = rng.standard_normal((rows, hidden)) * np.sqrt(1.5 / rows)
        return np.asarray(drawn, np.float32)

    zeros = np.zeros(hidden, np.float32)
    last = np.zeros((hidden, outputs), np.float32)
    return [drawn(inputs), zeros, drawn(hidden), zeros.copy(), last, np.zeros(outputs, np.float32)]


def _optimised(
    x: Weights,
    y: Weights,
    share: Weights,
    layers: list[Weights],
    steps: int,
    rng: np.random.Generator,
) -> list[Weights]:
    """Adam with decoupled weight decay."""
    first = [np.zeros_like(layer) for layer in layers]
    second = [np.zeros_like(layer) for layer in layers]
    order, at = rng.permutation(len(x)), 0
    batch = min(BATCH, len(x))
    for step in range(1, steps + 1):
        if at + batch > len(order):
            order, at = rng.permutation(len(x)), 0
        rows = order[at : at + batch]
        at += batch
        slopes = _slopes(x[rows], y[rows], share[rows], layers)
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps)) + 1e-5
        for k, slope in enumerate(slopes):
            first[k] += (1 - FIRST_MOMENT) * (slope - first[k])
            second[k] += (1 - SECOND_MOMENT) * (slope * slope - second[k])
            size = np.sqrt(second[k] / (1 - SECOND_MOMENT**step)) + 1e-8
            move = first[k] / (1 - FIRST_MOMENT**step) / size + DECAY * layers[k]
            layers[k] = (layers[k] - rate * move).astype(np.float32)
    return layers


def _slopes(x: Weights, y: Weights, share: Weights, layers: list[Weights]) -> list[Weights]:
    w0, b0, w1, b1, w2, b2 = layers
    z0 = x @ w0 + b0
    a0 = softsign(z0)
    z1 = a0 @ w1 + b1
    a1 = softsign(z1)
    error = (a1 @ w2 + b2 - y) * share * np.float32(2 / len(x))
    back = error @ w2.T / (1 + np.abs(z1)) ** 2
    deep = back @ w1.T / (1 + np.abs(z0)) ** 2
    return [x.T @ deep, deep.sum(0), a0.T @ back, back.sum(0), a1.T @ error, error.sum(0)]
