"""The laboratory: the papers' experiments, and the training of models."""
