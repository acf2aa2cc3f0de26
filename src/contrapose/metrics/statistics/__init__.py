"""Statistics of column totals: bootstrap intervals, paired tests and corrections."""
