"""The posterior, the one object in which every engine ends, and that of the kernel engine."""

from oakgp.posterior.base import Posterior
from oakgp.posterior.kernel import KernelMap, KernelPosterior

__all__ = ["KernelMap", "KernelPosterior", "Posterior"]
