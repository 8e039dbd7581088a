"""Training: the appearance model, the parameter GAN and the generator's map."""
