"""Priors of the hyperparameters: what the evidence leaves open is decided here (MAP).

The response has unit variance and numeric inputs unit scale, so one set of numbers fits all
tables. With few rows the evidence alone takes noise for signal: a rough function of some
interaction explains white noise as well as noise does. Each prior below makes the simpler
explanation the likelier one, by a few nats at most; a hundred rows of real structure outweigh it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from oakgp.kernels.additive import AdditiveKernel, Parameters


@dataclass(frozen=True)
class Priors:
    """Strengths of the priors.

    Parameters
    ----------
    order_rate
        Rate of the exponential prior on the variance of each order.
    whole_orders
        Whether that is the variance of all components of the order together, their number times
        sigma2_r, or of each single one.
    roughness
        c in the density exp(-c / lengthscale): short lengthscales are unlikely.
    scale_spread
        Standard deviation of the log feature variances around 0.
    noise
        Median of the log-normal prior on the noise variance and the standard deviation of its
        logarithm; None: flat.
    """

    order_rate: float
    whole_orders: bool
    roughness: float
    scale_spread: float
    noise: tuple[float, float] | None

    def for_labels(self) -> Priors:
        """Return the same priors for latent functions whose responses are class labels.

        Labels have no noise variance that a rough function could take the place of: its evidence is
        at best that of guessing by the class shares. So roughness needs no prior, which over many
        features would outweigh what labels tell. And where classes part, log odds are large:
        variances may be, too. The paper's priors stay as they were published.
        """
        if not self.whole_orders:
            return self
        return replace(self, order_rate=self.order_rate / 3.0, roughness=0.0)

    def in_units_of(self, variance: float) -> Priors:
        """Return the same priors for latent functions whose natural variance is not 1.

        The paper's priors are on single components and stay as they were published.
        """
        if not self.whole_orders:
            return self
        return replace(self, order_rate=self.order_rate / variance)

    def log_density(
        self,
        kernel: AdditiveKernel,
        parameters: Parameters,
        *,
        scales: bool,
        tied: bool,
        noise: bool = True,
    ) -> Tensor:
        """Return the log density of all hyperparameters, up to a constant.

        Parameters
        ----------
        kernel, parameters
            The model.
        scales
            Whether the feature variances are learned.
        tied
            Whether all order variances are one number, which then counts once.
        noise
            Whether there is a noise variance.
        """
        p = parameters
        variances = p.order_variances[:1] if tied else p.order_variances
        if self.whole_orders and not tied:
            variances = variances * variances.new_tensor(kernel.terms.counts())
        total = -self.order_rate * variances.sum()
        if self.roughness > 0:
            numeric = [i for i, f in enumerate(kernel.features) if not f.is_categorical]
            total = total - self.roughness * (1.0 / p.lengthscales[numeric]).sum()
        if scales:
            total = total - 0.5 * (p.scales.log() ** 2).sum() / self.scale_spread**2
        if noise and self.noise is not None:
            median, spread = self.noise
            total = total - 0.5 * ((p.noise / median).log() / spread) ** 2
        # A weak Gaussian on W and an exponential on kappa keep the scale of a categorical kernel
        # from drifting against its order variance.
        for w, kappa in zip(p.mixing, p.diagonal, strict=True):
            total = total - 0.5 * (w * w).sum() - kappa.sum()
        return total


#: Gamma(1, 0.2) on each order variance, the rest by maximum likelihood (paper, appendix I).
PAPER = Priors(order_rate=0.2, whole_orders=False, roughness=0.0, scale_spread=1.0, noise=None)

#: What `OAKRegressor` takes unless told otherwise.
DEFAULT = Priors(
    order_rate=3.0, whole_orders=True, roughness=0.2, scale_spread=0.4, noise=(0.3, 2.0)
)

PRIORS = {"default": DEFAULT, "paper": PAPER}
