"""Why a model fails: games over words and regions, their dividends, and what these say."""
