"""Likelihoods of the response given the latent functions, one a file.

Adding one: a final frozen dataclass under `Likelihood` in a file of its own, and one line in
``LIKELIHOODS``. The law tests then run over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oakgp.likelihoods.base import Expected, Likelihood
from oakgp.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from oakgp.likelihoods.beta import Beta
from oakgp.likelihoods.gamma import Gamma
from oakgp.likelihoods.gaussian import Gaussian
from oakgp.likelihoods.heteroscedastic_gaussian import HeteroscedasticGaussian
from oakgp.likelihoods.negative_binomial import NegativeBinomial
from oakgp.likelihoods.poisson import Poisson
from oakgp.likelihoods.softmax import Softmax
from oakgp.likelihoods.student_t import StudentT

__all__ = [
    "LIKELIHOODS",
    "BernoulliLogit",
    "BernoulliProbit",
    "Beta",
    "Expected",
    "Gamma",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Likelihood",
    "NegativeBinomial",
    "Poisson",
    "Softmax",
    "StudentT",
    "likelihood_from_dict",
]

#: Likelihoods by name: what ``likelihood=`` accepts and what the law tests run over.
LIKELIHOODS: dict[str, type[Likelihood]] = {
    "gaussian": Gaussian,
    "bernoulli_logit": BernoulliLogit,
    "bernoulli_probit": BernoulliProbit,
    "softmax": Softmax,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "gamma": Gamma,
    "student_t": StudentT,
    "beta": Beta,
    "heteroscedastic_gaussian": HeteroscedasticGaussian,
}


def likelihood_from_dict(values: Mapping[str, Any]) -> Likelihood:
    """Restore any likelihood from the values that its ``to_dict`` gave.

    Parameters
    ----------
    values : mapping
        The settings, with the likelihood's name under ``"name"``.
    """
    name = values.get("name")
    if not isinstance(name, str) or name not in LIKELIHOODS:
        raise ValueError(
            f"Unknown likelihood {name!r}; known ones are {sorted(LIKELIHOODS)}. "
            "The model may have been saved by a newer oakgp: update it and load again."
        )
    return LIKELIHOODS[name].from_dict(values)
