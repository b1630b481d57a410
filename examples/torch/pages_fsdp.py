#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a language model of characters, a small transformer whose parameters are sharded by FSDP, and lets it write:

    torchrun --nproc-per-node 4 examples/torch/pages_fsdp.py --backend tally
    torchrun --nproc-per-node 4 examples/torch/pages_fsdp.py --backend gloo

Nothing but the backend's name differs. The text is that of the manual pages of Debian's manpages-dev."""
import argparse
import glob
import gzip
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--backend", default="tally")
parser.add_argument("--pages", default="/usr/share/man/man[237]/*.gz", help="compressed files of text")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--batch", type=int, default=16, help="of each rank")
parser.add_argument("--length", type=int, default=128, help="characters that it sees")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--write", type=int, default=200, help="characters, at the end")
options = parser.parse_args()


def read(most=4 << 20):
    """ASCII, of the first pages."""
    text = bytearray()
    for path in sorted(glob.glob(options.pages)):
        with gzip.open(path) as file:
            text += file.read()
        if len(text) > most:
            break
    if not text:
        raise SystemExit(f"there is no {options.pages}: apt-get install manpages-dev")
    return torch.frombuffer(text, dtype=torch.uint8).clamp(max=127).long()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.character, self.place = nn.Embedding(128, options.width), nn.Embedding(options.length, options.width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(options.width, 4, 4 * options.width, 0, batch_first=True, norm_first=True)
                                    for _ in range(options.layers))
        self.last = nn.Linear(options.width, 128)

    def forward(self, characters):
        length = characters.shape[1]
        x = self.character(characters) + self.place(torch.arange(length))
        for layer in self.layers:
            x = layer(x, nn.Transformer.generate_square_subsequent_mask(length), is_causal=True)
        return self.last(x)


def write(model, seed, count):
    """All ranks write the same: each needs the others' shards."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _ in range(count):
            odds = model(seed[None, -options.length:])[0, -1].softmax(0)
            seed = torch.cat([seed, torch.multinomial(odds, 1, generator=draw)])
    return bytes(seed.tolist()).decode()


dist.init_process_group(options.backend)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
torch.set_num_threads(1)
text, model = read(), Model()
parameters = sum(parameter.numel() for parameter in model.parameters())
for part in (*model.layers, model):
    fully_shard(part, mesh=init_device_mesh("cpu", (size,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
draw, begin = torch.Generator().manual_seed(1 + rank), time.monotonic()
for step in range(options.steps):
    places = torch.randint(len(text) - options.length - 1, (options.batch, 1), generator=draw) + torch.arange(options.length + 1)
    batch = text[places]
    loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % max(1, options.steps // 10) == 0 or step + 1 == options.steps:
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}: loss {mean / size:.5f}", flush=True)
took_s = time.monotonic() - begin
written = write(model, text[:20], options.write)
if rank == 0:
    print(f"{options.backend}, {size} ranks, {parameters / 1e6:.1f} million parameters: {options.steps / took_s:.1f} steps/s")
    print(written)
dist.destroy_process_group()
