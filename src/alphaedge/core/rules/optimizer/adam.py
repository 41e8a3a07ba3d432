"""Adam (Kingma and Ba, 2015), with g the gradient and t the model's step count.

m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
p <- p - rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
"""

from dataclasses import dataclass
from itertools import groupby
from typing import final

import torch
from torch import Tensor

from alphaedge.errors import check_number


@final
@dataclass(frozen=True)
class Adam:
    """Adam with PyTorch's defaults. lazy_rows: whether id rows that a batch does not name stay as they are."""

    rate: float = 0.001
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    lazy_rows: bool = True

    def __post_init__(self) -> None:
        check_number("rate", self.rate, above=0)
        check_number("beta1", self.beta1, low=0, below=1)
        check_number("beta2", self.beta2, low=0, below=1)
        check_number("eps", self.eps, above=0)

    def update(self, value: Tensor, m: Tensor, v: Tensor, gradient: Tensor, steps: Tensor) -> None:
        """One step in place. All four are [k, ...]; ``steps`` [k] counts each model's steps, this one included."""
        if value.numel() == 0:
            return
        # The fused kernel reads memory in order, whatever the strides say.
        gradient = gradient.contiguous()
        # Models side by side that have taken as many steps are one tensor to the kernel.
        counts = [(count, len(list(some))) for count, some in groupby(steps.tolist())]
        sizes = [size for _, size in counts]
        values, gradients, ms, vs = (list(torch.split_with_sizes(t, sizes)) for t in (value, gradient, m, v))
        numbers = list(torch.tensor([float(count) for count, _ in counts], device=value.device).unbind(0))
        torch._fused_adam_(
            values,
            gradients,
            ms,
            vs,
            [],
            numbers,
            lr=self.rate,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
        )

    def coast(
        self, value: Tensor, m: Tensor, v: Tensor, before: Tensor, missed: Tensor, owner: Tensor | None = None
    ) -> None:
        """``missed`` steps with gradient zero at once, in place, after ``before`` steps; both [k], one per model.

        ``value``, ``m`` and ``v`` are [k, ...], or [U, ...] with ``owner`` [U] saying which model each belongs to.
        With A = sum a_s, a_s = b1^s / (1 - b1^(t+s)), c_s = sqrt(b2^s / (1 - b2^(t+s))) over s = 1..k:
        m <- b1^k m and v <- b2^k v exactly, p <- p - rate A m / (B sqrt(v) + eps) with B = A / sum(a_s / c_s), to
        float32 rounding as long as k <= max(1, min(32, t / 20)); longer coasts are cut into such pieces.
        """
        before, left = before.clone(), missed.clone()
        while bool((left > 0).any()):
            k = torch.minimum(left, torch.clamp(before // 20, 1, 32))
            s = torch.arange(1, int(k.max()) + 1, dtype=torch.float64, device=value.device)
            t = before[:, None] + s
            a = (self.beta1**s / (1 - self.beta1**t)) * (s <= k[:, None])
            c = torch.sqrt(self.beta2**s / (1 - self.beta2**t))
            total, stretched = a.sum(1), (a / c).sum(1).clamp(min=1e-30)
            factors = (self.rate * total, total / stretched, self.beta1 ** k.double(), self.beta2 ** k.double())
            shape = (-1,) + (1,) * (value.dim() - 1)
            ahead, bend, fade_m, fade_v = (
                (f if owner is None else f[owner]).to(value.dtype).view(shape) for f in factors
            )
            value.sub_(ahead * m / (bend * v.sqrt() + self.eps))
            m.mul_(fade_m)
            v.mul_(fade_v)
            before, left = before + k, left - k
