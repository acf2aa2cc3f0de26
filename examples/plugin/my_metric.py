"""A metric of your own: how far the right caption is ahead of the best wrong one."""

import numpy as np

from contrapose.results.shapes import register_metric


@register_metric(shape="choice", name="margin", better="higher")
def margin(scores, match, present):
    right = np.where(match & present, scores, -np.inf).max(axis=(1, 2))
    wrong = np.where(~match & present, scores, -np.inf).max(axis=(1, 2))
    return right - wrong
