"""Engines: each turns a model and data into one and the same kind of posterior."""
