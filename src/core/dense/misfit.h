/* SPDX-License-Identifier: Apache-2.0 */
/*
 * misfit.h - packets from a child's own address that no sound child sends, by kind. An engine counts them,
 * control names them when a job stands still. docs/protocol.md, R-CT-43.
 */
#ifndef CORE_MISFIT_H
#define CORE_MISFIT_H

#include "core/dense/switch.h"

enum misfit {
	MISFIT_NONE,
	MISFIT_VERSION, /* R-WIRE-7 */
	MISFIT_TYPE,    /* also R-SW-1: none for a switch */
	MISFIT_LANES,
	MISFIT_LENGTH,
	MISFIT_FLAGS,
	MISFIT_SLOT, /* R-SW-1 */
	MISFIT_MORE_LANES,
	MISFIT_DIFFERS, /* R-SW-7 */
	MISFIT_AHEAD,   /* DROP_ALARM */
	MISFIT_OVERRUN, /* latency mode: it has opened a round while a child still asks for an older one */
	MISFIT_COUNT
};

CORE_INLINE enum misfit misfit_of_fault(enum wire_fault fault)
{
	switch (fault) {
	case WIRE_FAULT_VERSION:
		return MISFIT_VERSION;
	case WIRE_FAULT_TYPE:
		return MISFIT_TYPE;
	case WIRE_FAULT_LANES:
		return MISFIT_LANES;
	case WIRE_FAULT_LENGTH:
		return MISFIT_LENGTH;
	case WIRE_FAULT_FLAGS:
		return MISFIT_FLAGS;
	default: /* too short to name anybody */
		return MISFIT_NONE;
	}
}

CORE_INLINE enum misfit misfit_of_verdict(enum switch_verdict verdict)
{
	switch (verdict) {
	case SWITCH_DROP_TYPE:
		return MISFIT_TYPE;
	case SWITCH_DROP_SLOT:
		return MISFIT_SLOT;
	case SWITCH_DROP_LANES:
		return MISFIT_MORE_LANES;
	case SWITCH_MISMATCH:
		return MISFIT_DIFFERS;
	case SWITCH_DROP_ALARM:
		return MISFIT_AHEAD;
	default: /* late copies, and those of another life, are sound */
		return MISFIT_NONE;
	}
}

#endif
