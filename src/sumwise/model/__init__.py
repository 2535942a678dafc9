"""The regression model: basis functions, posterior, evidence, fitting and predictions."""
