"""The report's plots, written as SVG by hand."""

from contrapose.report.html.plots.alpha import alpha_plot
from contrapose.report.html.plots.dots import Dot, DotRow, dot_plot
from contrapose.report.html.plots.equivariance import equivariance_plot

__all__ = ["Dot", "DotRow", "alpha_plot", "dot_plot", "equivariance_plot"]
