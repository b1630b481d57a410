#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""resnet50_trace.py [STEP_MS] - the 161 tensors of ResNet-50 as a trace for tally bench replay (LAYER, ELEMENTS, FORWARD_NS, BACKWARD_NS).
The sizes follow from the network. The times are not measured: a step computes for STEP_MS (300), a third of it forward, and
each layer has the share of its multiplications; those of normalisation are taken for nothing."""
import sys


def tensors():
    """(elements, multiplications for one image of 224 x 224) of each, in the order of the forward pass."""
    def conv(size, kernel, into, out):
        elements = kernel * kernel * into * out
        return [(elements, elements * size * size), (out, 0), (out, 0)]  # normalisation: weight and bias

    found = conv(112, 7, 3, 64)
    into = 64
    for size, width, blocks in (56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3):
        for block in range(blocks):
            before = 2 * size if block == 0 and width > 64 else size  # the 3 x 3 one has the stride
            found += conv(before, 1, into, width) + conv(size, 3, width, width) + conv(size, 1, width, 4 * width)
            if block == 0:
                found += conv(size, 1, into, 4 * width)
            into = 4 * width
    return found + [(into * 1000, into * 1000), (1000, 0)]


def write(file, step_ms=300.0):
    layers = tensors()
    every = sum(work for _, work in layers)
    size = sum(size for size, _ in layers)
    file.write("# ResNet-50: %d tensors, %d elements; a step computes for %g ms\n" % (len(layers), size, step_ms))
    for i, (size, work) in enumerate(layers):
        forward_ns = step_ms * 1e6 / 3 * work / every
        file.write("%d,%d,%.0f,%.0f\n" % (i, size, forward_ns, 2 * forward_ns))


def main():
    write(sys.stdout, float(sys.argv[1]) if len(sys.argv) > 1 else 300.0)


if __name__ == "__main__":
    main()
