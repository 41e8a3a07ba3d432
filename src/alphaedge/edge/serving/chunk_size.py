"""How many examples to predict at once, so that nobody has to wait for long. Pure."""

from dataclasses import dataclass
from typing import Final, final

MIN_EXAMPLES, MAX_EXAMPLES = 8, 512
TARGET_SECONDS: Final = 0.02  # in which a chunk should be predicted


@final
@dataclass
class ChunkSize:
    """The number of examples in a chunk: halved when a chunk takes too long, doubled when a full one takes little time.

    >>> size = ChunkSize()
    >>> size.note(examples=128, seconds=0.001)
    >>> size.examples
    256
    >>> size.note(examples=256, seconds=0.1)
    >>> size.examples
    128
    """

    examples: int = 128

    def note(self, examples: int, seconds: float) -> None:
        """Note how long a prediction took."""
        if seconds > TARGET_SECONDS:
            self.examples = max(MIN_EXAMPLES, min(self.examples, examples) // 2)
        elif examples >= self.examples and seconds < TARGET_SECONDS / 4:
            self.examples = min(MAX_EXAMPLES, 2 * self.examples)
