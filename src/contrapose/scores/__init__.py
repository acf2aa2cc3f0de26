"""Score tables, and the score files that people already have.

A score table holds a model's score of every image-caption pair of a benchmark's examples. It is
read from a file here, or computed by `contrapose.engine`.
"""
