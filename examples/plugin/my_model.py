"""A model of your own: it knows four color words and an image's mean color, and nothing else."""

import torch

from contrapose.errors import InputError
from contrapose.models import register_model

COLORS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0)}


@register_model("mean-color")
class MeanColor:
    """Dual encoder: the mean color of an image, and the colors that a caption names."""

    name, fingerprint, batch_size = "mean-color", "mean-color-1", 256

    def embed_images(self, images):
        """Unit vectors of the mean color of each image."""
        return _unit([image.convert("RGB").resize((1, 1)).getpixel((0, 0)) for image in images])

    def embed_texts(self, texts):
        """Unit vectors of the sum of the colors that each caption names."""
        if not all(0 < len(text.split()) <= 64 for text in texts):
            raise InputError("a caption needs one word, and may have 64.")
        words = [[COLORS.get(word, (0, 0, 0)) for word in text.split()] for text in texts]
        return _unit([torch.tensor(colors).sum(dim=0).tolist() for colors in words])


def _unit(rows):
    vectors = torch.nn.functional.pad(torch.tensor(rows).float(), (0, 1), value=0.01)
    return torch.nn.functional.normalize(vectors, dim=1)
