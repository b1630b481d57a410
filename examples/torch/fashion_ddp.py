#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on Fashion-MNIST with DistributedDataParallel, as any script for torchrun does:

    torchrun --nproc-per-node 4 examples/torch/fashion_ddp.py --backend tally
    torchrun --nproc-per-node 4 examples/torch/fashion_ddp.py --backend gloo

Nothing but the backend's name differs. The images are those of Debian's dataset-fashion-mnist."""
import argparse
import gzip
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--backend", default="tally")
parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--images", type=int, default=60000, help="of the training set")
parser.add_argument("--batch", type=int, default=64, help="of each rank")
options = parser.parse_args()


def read(name, skip):
    with gzip.open(os.path.join(options.data, name)) as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=skip)


def load(kind):
    images = read(f"{kind}-images-idx3-ubyte.gz", 16).view(-1, 1, 28, 28).float() / 255
    return images, read(f"{kind}-labels-idx1-ubyte.gz", 8).long()


def accuracy(model, images, labels):
    """Each rank judges its part."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.no_grad():
        right = (model(images[rank::size]).argmax(1) == labels[rank::size]).sum()
    dist.all_reduce(right)
    return right.item() / len(labels)


dist.init_process_group(options.backend)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
torch.set_num_threads(1)
model = DistributedDataParallel(nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
images, labels = (part[:options.images] for part in load("train"))
begin = time.monotonic()
for epoch in range(options.epochs):
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))[rank::size]
    total = torch.zeros(2, dtype=torch.float64)
    for batch in order[:len(order) // options.batch * options.batch].split(options.batch):
        loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += torch.tensor([loss.item(), 1])
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: loss {total[0] / total[1]:.6f}", flush=True)
right = accuracy(model, *load("t10k"))
if rank == 0:
    print(f"{options.backend}, {size} ranks: {100 * right:.2f} % right after {time.monotonic() - begin:.1f} s")
dist.destroy_process_group()
