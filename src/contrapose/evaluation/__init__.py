"""Evaluation of models: select examples, score them, measure, and audit benchmarks."""
