"""Minimum-KL fit of the sinh-arcsinh shape: the objective, its gradient, its starting point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from oakgp.flows.columns import Array

SQUASH = 10.0  # sinh(t) continues linearly beyond |t| = 10, where it is 1.1e4
_MAX_OFFSET = 1e2  # a log from farther away than 100 spreads is a straight line
_RIDGE = 1e-4  # pull towards the start: a column that is normal already leaves a flat optimum


@dataclass(frozen=True)
class Shape:
    """A fitted shape: w = side * log(distance + offset) or y, u = shift + stretch * w, then S."""

    log_side: int
    offset: float
    shift: float
    stretch: float
    skewness: float
    tailweight: float
    loss: float


def squashed_sinh(t: Array) -> Array:
    """Sinh up to |t| = 10, its tangent beyond."""
    inner = np.clip(t, -SQUASH, SQUASH)
    return np.asarray(np.sinh(inner) + np.cosh(SQUASH) * (t - inner))


def center_spread(values: Array, mass: Array) -> tuple[float, float]:
    """Give median and central spread; wider quantiles when a tie fills the centre."""
    share = np.cumsum(mass)
    for z in (1.0, 2.0, 3.0):
        low, mid, high = values[np.searchsorted(share[:-1], ndtr([-z, 0.0, z]))]
        spread = float((0.5 * high - 0.5 * low) / z)
        if spread > 0:
            break
    return float(mid), spread


def _density_mass(mass: Array) -> Array:
    """Give the masses for the slope term: an atom among continuous values has no density.

    With its full mass, the optimum would be a map that is as steep as the bounds allow at the
    atom and flat everywhere else. Masses of a discrete column are all alike and stay.
    """
    capped = np.minimum(mass, 10.0 * np.median(mass))
    return np.asarray(capped / np.sum(capped))


def fit_shape(y: Array, mass: Array, side: int) -> Shape:
    """Minimise the profile KL over (shift, log stretch, skewness, log tailweight, log offset).

    Parameters
    ----------
    y : array of shape (n,)
        Scaled values in increasing order.
    mass : array of shape (n,)
        Their masses, which sum to one.
    side : int
        1 for a log from the minimum up, -1 for one from the maximum down, 0 for no log.

    Returns
    -------
    Shape
        The parameters and their loss.
    """
    distance = side * y - np.min(side * y)
    offset, lowest = _log_offset(distance, mass) if side else (1.0, 1.0)
    w = side * np.log(distance + offset) if side else y
    center, spread = center_spread(w, mass)
    stretch = 1.0 / (spread or 1.0)
    theta = np.array([-center * stretch, np.log(stretch), 0.0, 0.0, np.log(offset)])
    reach = np.array([10.0, 3.0, 4.0, 2.0, 0.0])
    bounds = np.stack([theta - reach, theta + reach], axis=1)
    if side:
        bounds[4] = np.log([lowest, _MAX_OFFSET])
    density = _density_mass(mass)

    def loss(at: Array) -> tuple[float, Array]:
        value, gradient = profile_kl(at, y, distance, mass, density, side)
        step = at - theta
        return value + _RIDGE * float(step @ step), gradient + 2.0 * _RIDGE * step

    # Not L-BFGS-B: its 10 x 10 factorisations go through threaded LAPACK, which on a busy machine
    # takes twenty times as long as the whole of SLSQP.
    options = {"maxiter": 200, "ftol": 1e-8}
    found = minimize(loss, theta, method="SLSQP", jac=True, bounds=bounds, options=options)
    shift, log_stretch, skewness, log_tail, log_offset = (float(v) for v in found.x)
    return Shape(
        log_side=side,
        offset=float(np.exp(log_offset)),
        shift=shift,
        stretch=float(np.exp(log_stretch)),
        skewness=skewness,
        tailweight=float(np.exp(log_tail)),
        loss=float(found.fun),
    )


def _log_offset(distance: Array, mass: Array) -> tuple[float, float]:
    """Give a first offset, which makes the log's outer quantiles symmetric, and the lowest one."""
    ordered = np.sort(distance)
    # Below the first gap a tie at the minimum would be torn off for the sake of its slope.
    lowest = float(np.clip(0.5 * (ordered[1] - ordered[0]), 1e-8, 1.0))
    low, mid, high = distance[np.searchsorted(np.cumsum(mass)[:-1], (0.05, 0.5, 0.95))]
    excess = (high - mid) - (mid - low)
    offset = (mid * mid - low * high) / excess if excess > 1e-3 else 10.0
    return float(np.clip(offset, lowest, _MAX_OFFSET)), lowest


def profile_kl(
    theta: Array, y: Array, distance: Array, mass: Array, density: Array, side: int
) -> tuple[float, Array]:
    """Give log sd(s) - mean(log s'(y)) and its gradient; the last shift and scale are eliminated.

    With s = S(t), t = tailweight * arcsinh(u) + skewness and u = shift + stretch * w, the best
    last scale is 1 / sd(s), which leaves the KL, up to a constant, as a function of theta.
    """
    a, log_b, skewness, log_tail, log_offset = theta
    b, tail, offset = np.exp([log_b, log_tail, log_offset])
    r = distance + offset
    w = side * np.log(r) if side else y
    u = a + b * w
    h = np.hypot(1.0, u)
    arc = np.arcsinh(u)
    t = tail * arc + skewness
    inner = np.clip(t, -SQUASH, SQUASH)
    slope = np.cosh(inner)
    s = squashed_sinh(t)
    centered = s - mass @ s
    variance = max(float(mass @ centered**2), 1e-300)
    value = 0.5 * np.log(variance) - density @ (np.log(slope) - np.log(h)) - log_b - log_tail

    # Per point: d value / d t and d value / d u, then the chain rule to each parameter.
    by_t = mass * centered * slope / variance - density * np.where(inner == t, np.tanh(t), 0.0)
    by_u = by_t * tail / h + density * (u / h) / h
    gradient = [by_u.sum(), by_u @ (u - a) - 1.0, by_t.sum(), by_t @ arc * tail - 1.0, 0.0]
    if side:
        value += density @ np.log(r)
        gradient[4] = float((by_u * b * side + density) @ (offset / r))
    return float(value), np.asarray(gradient)
