"""What users hold: the estimator, scores and batches, questions, the active learner, status."""
