/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h - the only file of the core that knows which world it is compiled in: user space (gcc or
 * clang, any processor) or eBPF (clang -target bpf). Nothing else in core includes a system header.
 */
#ifndef CORE_ENV_H
#define CORE_ENV_H

#include <stdbool.h> /* the compiler's own, in both worlds */

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 uint8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __u64 uint64_t;
typedef __s8 int8_t;
typedef __s16 int16_t;
typedef __s32 int32_t;
typedef __s64 int64_t;
#else
#include <stddef.h>
#include <stdint.h>
#endif

/* The switch program is one straight text: the verifier sees no calls, and a spin-locked section
 * may contain none. */
#define CORE_INLINE static inline __attribute__((always_inline))

/* The verifier wants every access to a packet compared with the packet's end; in user space the
 * length has been checked once, before. */
#ifdef __bpf__
#define CORE_IN_REACH(at, end) ((const void *)((at) + 1) <= (end))
#else
#define CORE_IN_REACH(at, end) ((void)(end), 1)
#endif

/* Our own bugs stop the process, in release builds too. Never used on what came from outside. */
#define CORE_ASSERT(claim)                         \
	do {                                       \
		if (__builtin_expect(!(claim), 0)) \
			__builtin_trap();          \
	} while (0)

/* R-WIRE-6 */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lanes travel little-endian; a big-endian host needs swaps that nobody has written yet"
#endif

#ifndef __bpf__
/* The four functions that a freestanding compiler may call on its own. */
void *memcpy(void *restrict dst, const void *restrict src, size_t bytes);
void *memmove(void *dst, const void *src, size_t bytes);
void *memset(void *dst, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
#endif

#endif
