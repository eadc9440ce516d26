"""Variational inference from minibatches, for tables of any length.

`hyperparameters` learns from a stream of batches; `passes` then gives q all rows. Both hold one
batch against the inducing points at a time: memory is that of the table and of m^2 numbers.
"""
