/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sip.h - SipHash-2-4 (Aumasson, Bernstein): a number of 64 bits from a secret key of 16 bytes and a few bytes
 * that anybody may know. Who lacks the key cannot tell it from a random one, whatever other pairs are known.
 */
#ifndef CORE_SIP_H
#define CORE_SIP_H

#include "core/shared/env.h"

enum { SIP_KEY_BYTES = 16 };

uint64_t sip64(const uint8_t key[SIP_KEY_BYTES], const uint8_t *at, uint32_t bytes);

#endif
