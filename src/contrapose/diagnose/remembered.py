"""Players that were found once: games, findings and pictures all ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from contrapose.data import Example
from contrapose.diagnose.players import Groups, Masks, Missing, Regions, Words


@dataclass(frozen=True, slots=True)
class RememberedWords:
    """Word groups, found once for each example.

    Attributes:
        source: who finds them.
        found: by the example's id.
    """

    source: Words
    found: dict[str, Sequence[Groups] | Missing] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Where they come from."""
        return self.source.name

    @property
    def joint(self) -> bool:
        """Whether the captions of an example have the same players."""
        return self.source.joint

    def find(self, examples: Sequence[Example]) -> list[Sequence[Groups] | Missing]:
        """The groups of each caption."""
        new = [example for example in examples if example.id not in self.found]
        for example, groups in zip(new, self.source.find(new), strict=True):
            self.found[example.id] = groups
        return [self.found[example.id] for example in examples]


@dataclass(frozen=True, slots=True)
class RememberedRegions:
    """Regions, found once for each example.

    Attributes:
        source: who finds them.
        found: by the example's id.
    """

    source: Regions
    found: dict[str, Sequence[Masks] | Missing] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Where they come from."""
        return self.source.name

    @property
    def joint(self) -> bool:
        """Whether the images of an example have the same players."""
        return self.source.joint

    def find(self, examples: Sequence[Example]) -> list[Sequence[Masks] | Missing]:
        """The regions of each image."""
        new = [example for example in examples if example.id not in self.found]
        for example, masks in zip(new, self.source.find(new), strict=True):
            self.found[example.id] = masks
        return [self.found[example.id] for example in examples]
