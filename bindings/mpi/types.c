/* SPDX-License-Identifier: Apache-2.0 */
/* types.c - MPI's datatypes and operations as tally has them. */
#include <stdlib.h>

#include "bindings/mpi/shim.h"

enum nature { SIGNED, UNSIGNED, REAL, COMPLEX, TRUTH, BITS, PAIR };

/* MPI's own name for a type, what it is, and tally's. */
struct row {
	MPI_Datatype type;
	enum nature nature;
	int dtype;
	uint32_t width;
};

#define INTEGER_DTYPE(ctype, is_signed)                                    \
	(sizeof(ctype) == 8   ? ((is_signed) ? TALLY_INT64 : TALLY_UINT64) \
	 : sizeof(ctype) == 4 ? ((is_signed) ? TALLY_INT32 : TALLY_UINT32) \
	 : sizeof(ctype) == 1 ? ((is_signed) ? TALLY_INT8 : TALLY_UINT8)   \
			      : -1)
#define SIGNED_ROW(type, ctype)                                      \
	{                                                            \
		type, SIGNED, INTEGER_DTYPE(ctype, 1), sizeof(ctype) \
	}
#define UNSIGNED_ROW(type, ctype)                                      \
	{                                                              \
		type, UNSIGNED, INTEGER_DTYPE(ctype, 0), sizeof(ctype) \
	}
#define PAIR_ROW(type, dtype, ctype)                 \
	{                                            \
		type, PAIR, dtype, 2 * sizeof(ctype) \
	}

/* clang-format off */
static const struct row rows[] = {
	{ MPI_FLOAT, REAL, TALLY_FLOAT32, 4 },
	{ MPI_DOUBLE, REAL, TALLY_FLOAT64, 8 },
	SIGNED_ROW(MPI_INT, int),
	SIGNED_ROW(MPI_LONG, long),
	SIGNED_ROW(MPI_LONG_LONG, long long),
	SIGNED_ROW(MPI_SIGNED_CHAR, signed char),
	SIGNED_ROW(MPI_INT8_T, int8_t),
	SIGNED_ROW(MPI_INT32_T, int32_t),
	SIGNED_ROW(MPI_INT64_T, int64_t),
	SIGNED_ROW(MPI_AINT, MPI_Aint),
	SIGNED_ROW(MPI_OFFSET, MPI_Offset),
	SIGNED_ROW(MPI_COUNT, MPI_Count),
	UNSIGNED_ROW(MPI_UNSIGNED, unsigned),
	UNSIGNED_ROW(MPI_UNSIGNED_LONG, unsigned long),
	UNSIGNED_ROW(MPI_UNSIGNED_LONG_LONG, unsigned long long),
	UNSIGNED_ROW(MPI_UNSIGNED_CHAR, unsigned char),
	UNSIGNED_ROW(MPI_UINT8_T, uint8_t),
	UNSIGNED_ROW(MPI_UINT32_T, uint32_t),
	UNSIGNED_ROW(MPI_UINT64_T, uint64_t),
	{ MPI_C_FLOAT_COMPLEX, COMPLEX, TALLY_COMPLEX64, 8 },
	{ MPI_C_DOUBLE_COMPLEX, COMPLEX, TALLY_COMPLEX128, 16 },
	{ MPI_C_BOOL, TRUTH, TALLY_BOOL, sizeof(_Bool) },
	{ MPI_BYTE, BITS, TALLY_UINT8, 1 },
	PAIR_ROW(MPI_2INT, TALLY_INT32, int),
	/* Fortran's; MPI_DATATYPE_NULL where MPI was built without it. */
	SIGNED_ROW(MPI_INTEGER, MPI_Fint),
	SIGNED_ROW(MPI_INTEGER1, int8_t),
	SIGNED_ROW(MPI_INTEGER4, int32_t),
	SIGNED_ROW(MPI_INTEGER8, int64_t),
	{ MPI_REAL, REAL, TALLY_FLOAT32, 4 },
	{ MPI_REAL4, REAL, TALLY_FLOAT32, 4 },
	{ MPI_REAL8, REAL, TALLY_FLOAT64, 8 },
	{ MPI_DOUBLE_PRECISION, REAL, TALLY_FLOAT64, 8 },
	{ MPI_COMPLEX, COMPLEX, TALLY_COMPLEX64, 8 },
	{ MPI_COMPLEX8, COMPLEX, TALLY_COMPLEX64, 8 },
	{ MPI_COMPLEX16, COMPLEX, TALLY_COMPLEX128, 16 },
	{ MPI_DOUBLE_COMPLEX, COMPLEX, TALLY_COMPLEX128, 16 },
	PAIR_ROW(MPI_2INTEGER, TALLY_INT32, int32_t),
	PAIR_ROW(MPI_2REAL, TALLY_FLOAT32, float),
	PAIR_ROW(MPI_2DOUBLE_PRECISION, TALLY_FLOAT64, double),
};

#define OF(nature) (1u << (nature))
enum { NUMBERS = OF(SIGNED) | OF(UNSIGNED) | OF(REAL) };

/* An operation, and for what MPI has it. */
static const struct {
	MPI_Op op;
	int tally;
	unsigned natures;
} ops[] = {
	{ MPI_SUM, TALLY_SUM, NUMBERS | OF(COMPLEX) },
	{ MPI_MAX, TALLY_MAX, NUMBERS },
	{ MPI_MIN, TALLY_MIN, NUMBERS },
	{ MPI_PROD, TALLY_PROD, NUMBERS | OF(COMPLEX) },
	{ MPI_BAND, TALLY_BAND, OF(SIGNED) | OF(UNSIGNED) | OF(BITS) },
	{ MPI_BOR, TALLY_BOR, OF(SIGNED) | OF(UNSIGNED) | OF(BITS) },
	{ MPI_BXOR, TALLY_BXOR, OF(SIGNED) | OF(UNSIGNED) | OF(BITS) },
	{ MPI_LAND, TALLY_LAND, OF(SIGNED) | OF(UNSIGNED) | OF(TRUTH) },
	{ MPI_LOR, TALLY_LOR, OF(SIGNED) | OF(UNSIGNED) | OF(TRUTH) },
	{ MPI_LXOR, TALLY_LXOR, OF(SIGNED) | OF(UNSIGNED) | OF(TRUTH) },
	{ MPI_MINLOC, TALLY_MINLOC, OF(PAIR) },
	{ MPI_MAXLOC, TALLY_MAXLOC, OF(PAIR) },
};
/* clang-format on */

static const struct row *row_of(MPI_Datatype type)
{
	MPI_Count bytes;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (rows[i].type == type)
			/* Fortran's may be longer than we think, by a compiler's option. */
			return rows[i].dtype >= 0 && !PMPI_Type_size_x(type, &bytes) &&
					       bytes == (MPI_Count)rows[i].width
				       ? &rows[i]
				       : NULL;
	return NULL;
}

/* Does the aggregator work it out? Else each rank gets what all have, and does. */
static bool is_summed(const struct row *row, int op)
{
	if (op == TALLY_SUM)
		return true;
	return (op == TALLY_MIN || op == TALLY_MAX) && row->width <= 4 && row->nature != PAIR;
}

enum why types_sum(MPI_Datatype type, MPI_Op op, bool is_all, struct sum *sum)
{
	const struct row *row = row_of(type);
	size_t i = 0, number = sizeof(ops) / sizeof(*ops);

	if (!row)
		return WHY_TYPE;
	while (i < number && ops[i].op != op)
		i++;
	if (i == number || !(ops[i].natures & OF(row->nature)))
		return WHY_OP;
	/* A hash of the program's may rely on what C promises for unsigned. */
	if (row->nature == UNSIGNED && ops[i].tally == TALLY_SUM)
		return WHY_WRAPS;
	if (!is_all && !is_summed(row, ops[i].tally))
		return WHY_GATHERED;
	*sum = (struct sum){ row->dtype, ops[i].tally, row->width, row->nature == PAIR ? 2 : 1 };
	return WHY_NOT;
}

MPI_Count types_bytes(MPI_Datatype type)
{
	MPI_Count bytes;

	return PMPI_Type_size_x(type, &bytes) || bytes == MPI_UNDEFINED ? -1 : bytes;
}

static bool has_gaps(MPI_Datatype type)
{
	MPI_Count lower, extent, true_lower, true_extent, bytes = types_bytes(type);

	return bytes < 0 || PMPI_Type_get_extent_x(type, &lower, &extent) ||
	       PMPI_Type_get_true_extent_x(type, &true_lower, &true_extent) || lower ||
	       true_lower || extent != bytes || true_extent != bytes;
}

/* How a type was made; `types` has as many handles as the last two say, of which MPI has made new ones. */
struct making {
	int integers[3];
	MPI_Aint addresses[2];
	MPI_Datatype of;
	int combiner;
};

/* Made with counts of MPI_Count. To ask MPI for its envelope as of another type is an error, which may end the program. */
static bool is_large(MPI_Datatype type)
{
#if MPI_VERSION >= 4
	MPI_Count integers, addresses, large, types;
	int combiner;

	return PMPI_Type_get_envelope_c(type, &integers, &addresses, &large, &types, &combiner) ||
	       large;
#else
	(void)type;
	return false;
#endif
}

/* False: in no way that is_plain knows. */
static bool making_of(MPI_Datatype type, struct making *making)
{
	int integers, addresses, types;

	if (is_large(type) ||
	    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &making->combiner))
		return false;
	if (making->combiner == MPI_COMBINER_NAMED)
		return true;
	if (integers > 3 || addresses > 2 || types != 1)
		return false;
	return !PMPI_Type_get_contents(type, integers, addresses, types, making->integers,
				       making->addresses, &making->of);
}

/* What MPI has made for us, and not what is its own. */
static void let_go(MPI_Datatype type)
{
	int integers, addresses, types, combiner;

	if (is_large(type)) {
		PMPI_Type_free(&type);
		return;
	}
	if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) ||
	    combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_INTEGER ||
	    combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX)
		return;
	PMPI_Type_free(&type);
}

/* That a type has no gaps is not enough: its pieces may be in another order than in memory. */
bool types_is_plain(MPI_Datatype type)
{
	struct making making;
	bool is_plain;

	if (has_gaps(type) || !making_of(type, &making))
		return false;
	switch (making.combiner) {
	case MPI_COMBINER_NAMED:
		return true;
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_CONTIGUOUS:
	case MPI_COMBINER_RESIZED:
		is_plain = types_is_plain(making.of);
		break;
	case MPI_COMBINER_VECTOR: /* count, blocklength, stride */
		is_plain = (making.integers[0] == 1 || making.integers[1] == making.integers[2]) &&
			   types_is_plain(making.of);
		break;
	default:
		is_plain = false;
	}
	let_go(making.of);
	return is_plain;
}
