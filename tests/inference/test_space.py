"""The optimiser's vector: there and back, bounds, priors, starts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import mixed_features, random_parameters, tensor

from oakgp.inference.space import Bounds, ParameterSpace
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.terms import term_set

FEATURES = mixed_features()
KERNELS = {
    "mixed": AdditiveKernel(FEATURES, term_set(7, 3)),
    "numeric": AdditiveKernel(FEATURES[:3], term_set(3, 2)),
    "categorical": AdditiveKernel(FEATURES[5:], term_set(2, 2)),
    "none": AdditiveKernel((), term_set(0, 0)),
}

spaces = pytest.mark.parametrize(
    "space",
    [
        pytest.param(
            ParameterSpace(kernel, learn_scales=scales and name != "none", tied=tied),
            id=f"{name}-scales={scales}-tied={tied}",
        )
        for name, kernel in KERNELS.items()
        for scales in (False, True)
        for tied in (False, True)
    ],
)


def flat(parameters: Parameters) -> list[torch.Tensor]:
    p = parameters
    return [p.lengthscales, p.scales, p.order_variances, p.noise, *p.mixing, *p.diagonal]


@spaces
def test_unpack_undoes_pack(space: ParameterSpace) -> None:
    parameters = random_parameters(space.kernel, np.random.default_rng(0))
    theta = space.pack(parameters)
    assert len(theta) == len(space.limits())
    back = space.unpack(tensor(theta))
    np.testing.assert_allclose(space.pack(back), theta, atol=1e-14)
    lengths = back.lengthscales.numpy()
    np.testing.assert_allclose(lengths[space.numeric], parameters.lengthscales[space.numeric])
    assert (np.delete(lengths, space.numeric) == 1).all()
    if space.learn_scales:
        torch.testing.assert_close(back.scales, parameters.scales)
    else:
        assert (back.scales == 1).all()
    if space.tied:
        assert (back.order_variances == parameters.order_variances[0]).all()
    else:
        torch.testing.assert_close(back.order_variances, parameters.order_variances)
    for one, other in zip(flat(back)[3:], flat(parameters)[3:], strict=True):
        torch.testing.assert_close(one, other)


@spaces
def test_starts_are_within_bounds_and_seeded(space: ParameterSpace) -> None:
    low, high = np.array(space.limits()).T
    assert (low < high).all()
    for length, noise in ((1.0, 0.1), (1e9, 1e-20), (1e-9, 1e9)):
        start = space.start(length, noise, seed=4)
        assert ((low <= start) & (start <= high)).all()
        np.testing.assert_array_equal(start, space.start(length, noise, seed=4))
    if space.kernel.categorical:
        assert (space.start(1.0, 0.1, seed=4) != space.start(1.0, 0.1, seed=5)).any()


@spaces
def test_every_entry_of_the_vector_matters(space: ParameterSpace) -> None:
    """The Jacobian of the hyperparameters by the vector has a row's worth in every column."""
    theta = tensor(space.pack(random_parameters(space.kernel, np.random.default_rng(1))))

    def everything(vector: torch.Tensor) -> torch.Tensor:
        return torch.cat([t.reshape(-1) for t in flat(space.unpack(vector))])

    jacobian = torch.autograd.functional.jacobian(everything, theta)
    assert bool((jacobian.abs().sum(dim=0) > 0).all())


def test_vectors_are_clipped_to_the_bounds() -> None:
    space = ParameterSpace(
        KERNELS["numeric"], bounds=Bounds(lengthscale=(0.5, 2.0), noise=(0.1, 1))
    )
    parameters = random_parameters(space.kernel, np.random.default_rng(0))
    extreme = Parameters(
        tensor([0.01, 1.0, 50.0]), parameters.scales, parameters.order_variances, tensor(1e-9)
    )
    back = space.unpack(tensor(space.pack(extreme)))
    np.testing.assert_allclose(back.lengthscales, [0.5, 1.0, 2.0])
    assert float(back.noise) == pytest.approx(0.1)


def test_higher_orders_start_smaller_all_their_terms_together() -> None:
    kernel = KERNELS["mixed"]
    orders = ParameterSpace(kernel).unpack(tensor(ParameterSpace(kernel).start(1.0, 0.1, 0)))
    whole = orders.order_variances.numpy() * kernel.terms.counts()
    np.testing.assert_allclose(whole, [1.0, 1.0, 0.5, 0.25])
