/* SPDX-License-Identifier: Apache-2.0 */
/* types.c - see types.h. */
#include "lib/types.h"

bool type_is_float(uint32_t dtype)
{
	return dtype >= TALLY_FLOAT16 && dtype <= TALLY_BFLOAT16;
}

bool type_is_signed(uint32_t dtype)
{
	return dtype == TALLY_INT8 || dtype == TALLY_INT32 || dtype == TALLY_INT64;
}

static bool is_complex(uint32_t dtype)
{
	return dtype == TALLY_COMPLEX64 || dtype == TALLY_COMPLEX128;
}

bool type_lanes_can(uint32_t dtype, int op)
{
	if (op > TALLY_AVG || dtype == TALLY_BOOL)
		return false;
	if (is_complex(dtype))
		return op == TALLY_SUM || op == TALLY_AVG;
	return lanes_can((enum lanes_type)dtype, (enum lanes_op)op);
}

bool type_fold_can(uint32_t dtype, int op)
{
	if (op == TALLY_USER)
		return true;
	if (is_complex(dtype))
		return op == TALLY_PROD;
	if (dtype == TALLY_BOOL)
		return op == TALLY_MIN || op == TALLY_MAX || (op >= TALLY_BAND && op <= TALLY_LXOR);
	if (op >= TALLY_BAND && op <= TALLY_LXOR)
		return !type_is_float(dtype);
	return op == TALLY_PROD || op == TALLY_MIN || op == TALLY_MAX || op == TALLY_MINLOC ||
	       op == TALLY_MAXLOC;
}

uint32_t type_pair(int op)
{
	return op == TALLY_MINLOC || op == TALLY_MAXLOC ? 2 : 1;
}
