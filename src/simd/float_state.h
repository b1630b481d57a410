/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float_state.h - the processor's floating-point state as this library counts with it: round to nearest
 * even, denormals as they are, no traps. A program may have set its thread otherwise (PyTorch's
 * set_flush_denormal, fesetround): all ranks are to get the same bits all the same.
 */
#ifndef SIMD_FLOAT_STATE_H
#define SIMD_FLOAT_STATE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum {
	FLOAT_STATE_DEFAULT = 0x1f80, /* MXCSR after reset */
	FLOAT_STATE_FLAGS = 0x3f,     /* what has happened so far: no setting */
};

static inline uint64_t float_state_read(void)
{
	return _mm_getcsr();
}

static inline void float_state_write(uint64_t state)
{
	_mm_setcsr((unsigned)state);
}

#elif defined(__aarch64__)

enum { FLOAT_STATE_DEFAULT = 0, FLOAT_STATE_FLAGS = 0 }; /* FPCR; the flags are elsewhere */

static inline uint64_t float_state_read(void)
{
	uint64_t state;

	__asm__ __volatile__("mrs %0, fpcr" : "=r"(state));
	return state;
}

static inline void float_state_write(uint64_t state)
{
	__asm__ __volatile__("msr fpcr, %0" : : "r"(state) : "memory");
}

#else /* nothing known that a program could set */

enum { FLOAT_STATE_DEFAULT = 0, FLOAT_STATE_FLAGS = 0 };

static inline uint64_t float_state_read(void)
{
	return FLOAT_STATE_DEFAULT;
}

static inline void float_state_write(uint64_t state)
{
	(void)state;
}

#endif

/* Sets it; what it returns is for float_state_end. No function between the two may be inlined across
 * them: call what counts through a pointer, or from another file. */
static inline uint64_t float_state_begin(void)
{
	uint64_t before = float_state_read();

	if ((before & ~(uint64_t)FLOAT_STATE_FLAGS) != FLOAT_STATE_DEFAULT)
		float_state_write(FLOAT_STATE_DEFAULT);
	return before;
}

static inline void float_state_end(uint64_t before)
{
	if ((before & ~(uint64_t)FLOAT_STATE_FLAGS) != FLOAT_STATE_DEFAULT)
		float_state_write(before);
}

#endif
