"""α-debiasing: intervals of α, the exact optimum, and its cross-validated estimate."""
