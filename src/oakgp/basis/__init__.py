"""The basis engine: finitely many orthonormal functions, found by screening, learned from sums."""
