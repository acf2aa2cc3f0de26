"""Diagnosis of models: cooperative games over words and regions, and their dividends."""
