"""Networks: weights, the inference runtime, detectors, landmarks, recognisers, generators."""
