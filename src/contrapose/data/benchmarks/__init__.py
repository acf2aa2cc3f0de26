"""Benchmark readers: one module per benchmark, with its card and its reader."""
