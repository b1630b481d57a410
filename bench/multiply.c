/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multiply.c - a thread on every core multiplies matrices until the program gets SIGTERM: training, as bench/compare has it beside
 * allreduces. Says "ready" on stderr, and at its end a line of JSON: {"multiplications":COUNT,"cpu_s":SECONDS}. They
 * have SIZE^3 multiplications and additions of float32 each.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 192, CORES_MAX = 1024 };

struct matrices {
	float a[SIZE][SIZE], b[SIZE][SIZE], c[SIZE][SIZE];
};

static atomic_bool is_over;
static atomic_ullong multiplications;

static void multiply(struct matrices *of)
{
	for (uint32_t i = 0; i < SIZE; i++)
		for (uint32_t k = 0; k < SIZE; k++)
			for (uint32_t j = 0; j < SIZE; j++)
				of->c[i][j] += of->a[i][k] * of->b[k][j];
}

static void *thread_run(void *matrices)
{
	struct matrices *of = matrices;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		multiply(of);
		atomic_fetch_add_explicit(&multiplications, 1, memory_order_relaxed);
	}
	return NULL;
}

static void fill(struct matrices *of)
{
	for (uint32_t i = 0; i < SIZE; i++)
		for (uint32_t j = 0; j < SIZE; j++) {
			of->a[i][j] = (float)(i % 7) - 3;
			of->b[i][j] = (float)(j % 5) - 2;
		}
}

int main(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	static pthread_t threads[CORES_MAX];
	struct matrices *matrices;
	struct timespec cpu;
	sigset_t end;
	int signal;

	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	pthread_sigmask(SIG_BLOCK, &end, NULL); /* also of the threads: main waits for it */
	if (cores < 1 || cores > CORES_MAX)
		return 1;
	matrices = calloc((size_t)cores, sizeof(*matrices));
	for (long i = 0; matrices && i < cores; i++) {
		fill(&matrices[i]);
		if (pthread_create(&threads[i], NULL, thread_run, &matrices[i]))
			return 1;
	}
	if (!matrices)
		return 1;
	fprintf(stderr, "ready\n");
	sigwait(&end, &signal);
	atomic_store(&is_over, true);
	for (long i = 0; i < cores; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("{\"multiplications\":%llu,\"cpu_s\":%.6f}\n", atomic_load(&multiplications),
	       (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
	free(matrices);
	return 0;
}
