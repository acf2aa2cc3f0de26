"""A loss of your own: an image is nearer to its caption than to a changed one, by a margin."""

from contrapose.losses import LossBatch, register_loss

GAP = 0.2


@register_loss
class Margin:
    """Hinge loss: the cosine of a caption exceeds that of its hard negative by 0.2."""

    name, weight, needs = "margin", 1.0, {"negative"}

    def __call__(self, batch: LossBatch):
        """Mean over the pairs that have a negative."""
        ahead = (batch.image * (batch.text - batch.negative)).sum(1)
        return ((GAP - ahead).clamp(min=0) * batch.has_negative).mean()
