/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - how a training step computes and what it then sends: lines of "layer, elements, forward ns, backward ns", in the
 * order of the forward pass, as SwitchML's dnn_benchmark has them. Lines that begin with no digit are comments.
 */
#ifndef UTIL_TRACE_H
#define UTIL_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum { TRACE_LAYERS_MAX = 4096, TRACE_ELEMENTS_MAX = 1 << 30, TRACE_WHY_BYTES = 160 };

struct trace_layer {
	uint64_t elements; /* 0: it has nothing to send */
	uint64_t forward_ns, backward_ns;
};

struct trace {
	struct trace_layer *layers; /* the caller frees them */
	uint32_t count;
};

/* 0; -1: it cannot be read or is no trace, and `why` says so. Layers without elements alone are none. */
int trace_load(struct trace *trace, const char *path, char why[TRACE_WHY_BYTES]);

/* The same of text that ends with a NUL. */
int trace_parse(struct trace *trace, const char *text, char why[TRACE_WHY_BYTES]);

uint64_t trace_elements(const struct trace *trace);
/* Of all passes, as they are written. */
uint64_t trace_compute_ns(const struct trace *trace);

#endif
