"""The paper's experiments, a script each."""
