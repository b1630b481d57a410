/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bits_rank.c COUNT MAX SEED - a rank of a job: COUNT allreduces of 1 to MAX elements, every size as likely in each octave,
 * int32 and float32 in turn. Each result is compared with a sum made here, of data that differ by rank and have both
 * signs; integers must be exact. At last it prints a hash of all bits that have come out, for whoever compares two
 * aggregators: the same SEED and the same lanes make the same bits.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <tally.h>

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9;
	x ^= x >> 27;
	x *= 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Element i of operation `number` at a rank. */
static int32_t datum(uint64_t seed, uint32_t number, uint32_t rank, size_t i)
{
	return (int32_t)(mix(seed + ((uint64_t)number << 40) + ((uint64_t)rank << 32) + i) >> 40) -
	       (1 << 23);
}

static float real(int32_t value)
{
	return (float)value / 4096;
}

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ at[i]) * 0x100000001b3;
	return h;
}

/* Of values below 2^11 a sum may be off by a little: tally.h's bound is far below this. */
static bool is_wrong(uint64_t seed, uint32_t number, uint32_t size, size_t i, const int32_t *ints,
		     const float *floats)
{
	int64_t sum = 0;
	double reals = 0;

	for (uint32_t rank = 0; rank < size; rank++) {
		sum += datum(seed, number, rank, i);
		reals += (double)real(datum(seed, number, rank, i));
	}
	return number % 2 ? fabs((double)floats[i] - reals) > 0.001 * size : ints[i] != sum;
}

/* One operation; false: *bits have not what it made. */
static bool step(struct tally_comm *comm, uint64_t seed, uint32_t number, size_t elements,
		 int32_t *ints, float *floats, uint64_t *bits)
{
	uint32_t size = tally_comm_size(comm), me = tally_comm_rank(comm);
	bool is_real = number % 2;

	for (size_t i = 0; i < elements; i++) {
		ints[i] = datum(seed, number, me, i);
		floats[i] = real(datum(seed, number, me, i));
	}
	if (is_real ? tally_allreduce(floats, floats, elements, TALLY_FLOAT32, TALLY_SUM, comm)
		    : tally_allreduce(ints, ints, elements, TALLY_INT32, TALLY_SUM, comm)) {
		fprintf(stderr, "%s\n", tally_get_last_error(comm));
		return false;
	}
	for (size_t i = 0; i < elements; i++) {
		if (!is_wrong(seed, number, size, i, ints, floats))
			continue;
		fprintf(stderr, "WRONG SUM: operation %u of %zu elements, element %zu\n", number,
			elements, i);
		return false;
	}
	*bits = is_real ? hash(*bits, floats, elements * sizeof(*floats))
			: hash(*bits, ints, elements * sizeof(*ints));
	return true;
}

static bool run(struct tally_comm *comm, uint32_t count, uint32_t max, uint64_t seed,
		uint64_t *bits)
{
	int32_t *ints = malloc(max * sizeof(*ints));
	float *floats = malloc(max * sizeof(*floats));
	bool is_good = ints && floats;

	for (uint32_t number = 0; number < count && is_good; number++) {
		double part = (double)(mix(seed + number) >> 11) / 9007199254740992.0;
		size_t elements = (size_t)exp(log((double)max + 1) * part);

		is_good = step(comm, seed, number, elements > max ? max : elements, ints, floats,
			       bits);
	}
	free(ints);
	free(floats);
	return is_good;
}

int main(int argc, char **argv)
{
	struct tally_comm *comm = NULL;
	uint64_t bits = 0xcbf29ce484222325;
	bool is_good;

	if (argc != 4) {
		fprintf(stderr, "usage: bits_rank COUNT MAX SEED\n");
		return 2;
	}
	if (tally_comm_init_env(&comm, NULL)) {
		fprintf(stderr, "%s\n", tally_get_last_error(NULL));
		return 1;
	}
	is_good = run(comm, (uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]),
		      (uint64_t)atoll(argv[3]), &bits);
	if (is_good)
		printf("%016llx\n", (unsigned long long)bits);
	is_good = is_good && !tally_comm_finalize(comm);
	tally_comm_destroy(comm);
	return !is_good;
}
