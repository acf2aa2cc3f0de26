"""A model of one's own: it knows four colour words and an image's mean colour, and nothing else."""

import torch

from contrapose.errors import InputError
from contrapose.models import register_model

COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0)}


@register_model("mean-colour")
class MeanColour:
    """Vectors of the mean colour, and of the colours a caption names."""

    name, fingerprint, batch_size = "mean-colour", "mean-colour-1", 256

    def embed_images(self, images):
        """The colour that each image has on the whole."""
        return _unit([image.convert("RGB").resize((1, 1)).getpixel((0, 0)) for image in images])

    def embed_texts(self, texts):
        """The sum of the colours that each caption names."""
        if not all(0 < len(text.split()) <= 64 for text in texts):
            raise InputError("a caption needs one word, and may have 64.")
        words = [[COLOURS.get(word, (0, 0, 0)) for word in text.split()] for text in texts]
        return _unit([torch.tensor(colours).sum(dim=0).tolist() for colours in words])


def _unit(rows):
    vectors = torch.nn.functional.pad(torch.tensor(rows).float(), (0, 1), value=0.01)
    return torch.nn.functional.normalize(vectors, dim=1)
