"""Plots of the HTML reports, written as SVG by hand."""

from contrapose.report.html.plots.curves import alpha_plot, equivariance_plot
from contrapose.report.html.plots.dots import Dot, DotRow, dot_plot

__all__ = [
    "Dot",
    "DotRow",
    "alpha_plot",
    "dot_plot",
    "equivariance_plot",
]
