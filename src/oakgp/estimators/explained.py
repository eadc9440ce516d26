"""What all estimators can say about their predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from oakgp.model import Label, Model
from oakgp.table import Table

if TYPE_CHECKING:
    from oakgp.explain.explanation import Explanation
    from oakgp.sensitivity.dependence import Dependence


class Explained(ABC):
    """Explanations of a fitted model: of rows, of differences, of its components."""

    @abstractmethod
    def _fitted(self) -> Model:
        """Return the model, or say that there is none yet."""

    def explain(
        self,
        X: Any,
        terms: Any = None,
        *,
        max_terms: int = 50,
        scale: str = "link",
        output: Label | None = None,
        n_samples: int = 256,
        random_state: int = 0,
    ) -> Explanation:
        """Return why the predictions at the rows of X are what they are.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows.
        terms : sequence of terms, optional
            Which to list; the kept or else the largest when not given. The others are one part
            together.
        max_terms : int, default=50
            How many to list when ``terms`` is not given.
        scale : {"link", "response"}, default="link"
            Whether to split the function itself (log odds, log rates; of Gaussian regression the
            response), where parts are exact and have posterior deviations, or the expected
            response (probabilities, counts).
        output : label, optional
            Of which latent function, or the probability of which class; see `output_model`.
        n_samples : int, default=256
            Draws behind Shapley values on the response scale; those on the link scale are exact.
        random_state : int, default=0
            Seed of these draws.

        Returns
        -------
        Explanation
            ``.terms`` and ``.features`` (Shapley values) hold arrays; ``.to_frame()``,
            ``.plot(row)`` and ``.to_shap()`` show them.
        """
        from oakgp.explain.explanation import explain_rows

        return explain_rows(
            self._fitted(),
            X,
            terms,
            max_terms=max_terms,
            scale=scale,
            output=output,
            n_samples=n_samples,
            seed=random_state,
        )

    def contrast(
        self,
        a: Any,
        b: Any,
        feature: str | int | None = None,
        *,
        terms: Any = None,
        max_terms: int = 20,
        scale: str = "link",
        coverage: float = 0.9,
        output: Label | None = None,
        n_samples: int = 4000,
        random_state: int = 0,
    ) -> Table:
        """Return by how much b exceeds a: two rows, or two values of a feature.

        Parameters
        ----------
        a, b : row, or value
            A table of one row, a mapping from columns to values, or a list of values; with
            ``feature``, two of its values, the other features averaged over their measures.
        feature : str or int, optional
            A column.
        terms : sequence of terms, optional
            Which to list besides the whole; the largest that differ, by the size of the
            difference, when not given.
        max_terms : int, default=20
            How many to look at when ``terms`` is not given.
        scale : {"link", "response"}, default="link"
            Whether to compare the function itself (log odds, log rates; of Gaussian regression
            the response), term by term, or the mean response (of rows), as a whole.
        coverage : float, default=0.9
            Of the intervals.
        output : label, optional
            Of which latent function, or the probability of which class; see `output_model`.
        n_samples : int, default=4000
            Posterior draws behind the interval on the response scale.
        random_state : int, default=0
            Seed of these draws.

        Returns
        -------
        Table
            ``term``, ``difference``, ``sd``, ``low`` and ``high``. The deviation counts that both
            ends are uncertain together, so it is smaller than two bands suggest.
        """
        from oakgp.explain.contrasts import contrast

        return contrast(
            self._fitted(),
            a,
            b,
            feature,
            terms=terms,
            max_terms=max_terms,
            scale=scale,
            coverage=coverage,
            output=output,
            n_samples=n_samples,
            seed=random_state,
        )

    def dependence(
        self, X: Any, terms: Any = None, *, max_terms: int = 50, output: Label | None = None
    ) -> Dependence:
        """Return how the variance splits over the rows of X, whose features may be dependent.

        Sobol indices describe independent features. Here each term's share over the rows is split
        into a structural part (its own variance) and a correlative one (its covariance with the
        others), and ``.message`` says whether the indices can be relied on.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows: those of training, or others.
        terms : sequence of terms, optional
            Which to list; the kept or else the largest when not given.
        max_terms : int, default=50
            How many to list when ``terms`` is not given.
        output : label, optional
            Of which latent function; see `output_model`.

        Returns
        -------
        Dependence
            Tables ``.terms`` and ``.concurvity``, and ``.message``.
        """
        from oakgp.explain.explanation import listed_terms
        from oakgp.sensitivity.dependence import dependence

        model = self._fitted()
        chosen = model.of(output)
        listed = listed_terms(model, chosen, terms, max_terms)
        return dependence(model, chosen, X, listed)

    def plot_components(self, X: Any = None, terms: Any = None, **options: Any) -> Any:
        """Draw components with matplotlib; see `oakgp.explain.plot_components`."""
        from oakgp.explain import plot_components

        return plot_components(self, X, terms, **options)
