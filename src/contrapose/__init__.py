"""Contrapose measures, explains and repairs compositional understanding.

It asks one question of vision-language models in many ways: does the model notice the small
change, in a caption or in an image, that flips the meaning?
"""

__version__ = "0.1.0"
