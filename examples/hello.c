/* SPDX-License-Identifier: Apache-2.0 */
/* hello.c - every rank brings its number plus one, and all get the sum: tally run -n 4 -- ./hello */
#include <stdio.h>
#include <tally.h>

int main(void)
{
	struct tally_comm *comm = NULL;
	float mine, sum;
	int result = tally_comm_init_env(&comm, NULL);

	if (result) {
		fprintf(stderr, "hello: %s\n", tally_get_last_error(NULL));
		return 1;
	}
	mine = (float)(tally_comm_rank(comm) + 1);
	result = tally_allreduce(&mine, &sum, 1, TALLY_FLOAT32, TALLY_SUM, comm);
	if (result)
		fprintf(stderr, "hello: %s\n", tally_get_last_error(comm));
	else
		printf("rank %u of %u: brought %.0f, the sum is %.0f\n", tally_comm_rank(comm),
		       tally_comm_size(comm), (double)mine, (double)sum);
	if (!result)
		result = tally_comm_finalize(comm);
	tally_comm_destroy(comm);
	return result ? 1 : 0;
}
