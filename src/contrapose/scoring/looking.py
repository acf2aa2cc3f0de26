"""Pictures that a model looks at once, however many batches ask about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contrapose.models import Looked, Looks, Model
from contrapose.scoring.calls import ModelError

if TYPE_CHECKING:
    from contrapose.models.capabilities import Picture, Sight


class Looking:
    """Looks at what a batch shows, and keeps it while the next batch shows it too.

    Batches ask about one image after the other, so that little is kept at a time.
    """

    def __init__(self, model: Model):
        self.model = model
        self.kept: dict[int, tuple[Picture, Looked]] = {}

    def __call__(self, pictures: Sequence[Picture]) -> Sequence[Sight]:
        """The same pictures, looked at where the model can; the same object for the same one."""
        if not isinstance(self.model, Looks):
            return pictures
        shown = {id(picture): picture for picture in pictures}
        self.kept = {key: held for key, held in self.kept.items() if key in shown}
        new = [picture for key, picture in shown.items() if key not in self.kept]
        if new:
            looked = self.model.look(new)
            if len(looked) != len(new):
                raise ModelError(
                    f"{self.model.name}: look gave {len(looked)} for {len(new)} images."
                )
            self.kept |= {
                id(picture): (picture, one) for picture, one in zip(new, looked, strict=True)
            }
        return [self.kept[id(picture)][1] for picture in pictures]
