#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""steps_record.py MODEL FOLDER [STEPS] - the gradients of a training's consecutive steps, of 8 workers, for bench/steps.

MODEL is lenet or cnn (with batch norm), which learn Fashion-MNIST (Debian's dataset-fashion-mnist), or charlstm, which
learns the licences of Debian's base-files letter by letter. It needs PyTorch. Each worker has batches of its own; the
learning rate falls to a tenth at step 30, and rises again at 45.
"""
import gzip
import pathlib
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WORKERS = 8
IMAGES = pathlib.Path("/usr/share/datasets/fashion-mnist")
TEXTS = pathlib.Path("/usr/share/common-licenses")


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        widths = 1, 24, 48, 64
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        self.fc1, self.fc2 = nn.Linear(64 * 9, 256), nn.Linear(256, 10)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.max_pool2d(F.relu(norm(conv(x))), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class CharLSTM(nn.Module):
    def __init__(self, letters, width=128):
        super().__init__()
        self.embedding = nn.Embedding(letters, 64)
        self.lstm, self.out = nn.LSTM(64, width, batch_first=True), nn.Linear(width, letters)

    def forward(self, x):
        return self.out(self.lstm(self.embedding(x))[0])


def of_images(model, batch, generator):
    def read(name, header):
        return np.frombuffer(gzip.open(IMAGES / name).read()[header:], np.uint8)

    pixels = torch.from_numpy(read("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).copy()).float()
    labels = torch.from_numpy(read("train-labels-idx1-ubyte.gz", 8).copy()).long()
    pixels = (pixels / 255 - .286) / .353

    def loss():
        chosen = torch.randint(len(pixels), (batch,), generator=generator)
        return F.cross_entropy(model(pixels[chosen]), labels[chosen])

    return model, .01, loss


def of_text(generator, batch=16, length=64):
    text = "".join(path.read_text(errors="replace") for path in sorted(TEXTS.iterdir()))
    letters = sorted(set(text))
    numbers = {letter: i for i, letter in enumerate(letters)}
    text, model = torch.tensor([numbers[letter] for letter in text]), CharLSTM(len(letters))

    def loss():
        chosen = torch.randint(len(text) - length - 1, (batch,), generator=generator)
        parts = torch.stack([text[i:i + length + 1] for i in chosen])
        return F.cross_entropy(model(parts[:, :-1]).flatten(0, 1), parts[:, 1:].flatten())

    return model, .2, loss


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 63
    torch.manual_seed(1)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(7)
    model, rate, loss = {"lenet": lambda: of_images(LeNet(), 64, generator), "cnn": lambda: of_images(CNN(), 32, generator),
                         "charlstm": lambda: of_text(generator)}[name]()
    named = list(model.named_parameters())[::-1]  # in the order of the way back
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=.9)
    with open(folder / f"{name}_tensors.csv", "w") as table:
        print("index,name,shape,elements", file=table)
        for i, (tensor, values) in enumerate(named):
            print(i, tensor, "x".join(map(str, values.shape)), values.numel(), sep=",", file=table)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate / 10 if 30 <= step < 45 else rate
        sums = [torch.zeros_like(values) for _, values in named]
        for worker in range(WORKERS):
            model.zero_grad()
            loss().backward()
            torch.cat([values.grad.flatten() for _, values in named]).numpy().tofile(folder / f"{name}_s{step}_w{worker}.f32")
            for total, (_, values) in zip(sums, named):
                total += values.grad / WORKERS
        for total, (_, values) in zip(sums, named):
            values.grad = total
        optimiser.step()


main()
