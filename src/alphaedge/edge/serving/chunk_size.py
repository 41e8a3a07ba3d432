"""How many examples to predict at once, so that nobody has to wait for long. Pure."""

from dataclasses import dataclass
from typing import Final, final

MIN_EXAMPLES, MAX_EXAMPLES = 8, 512
TARGET_SECONDS: Final = 0.02  # in which a chunk should be predicted


@final
@dataclass
class ChunkSize:
    """The number of examples in a chunk: halved when a chunk takes too long, doubled when it is short.

    >>> size = ChunkSize()
    >>> size.note(examples=200, seconds=0.001)
    >>> size.examples
    512
    >>> size.note(examples=500, seconds=0.1)
    >>> size.examples
    256
    """

    examples: int = 256

    def note(self, examples: int, seconds: float) -> None:
        """Note how long a prediction took."""
        if seconds > TARGET_SECONDS:
            self.examples = max(MIN_EXAMPLES, self.examples // 2)
        elif 2 * examples > self.examples and seconds < TARGET_SECONDS / 2:
            self.examples = min(MAX_EXAMPLES, 2 * self.examples)
