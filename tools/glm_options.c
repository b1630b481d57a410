/* SPDX-License-Identifier: Apache-2.0 */
/* glm_options.c - the command line of tally glm train. */
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glm/weave.h"
#include "tools/command.h"
#include "tools/glm.h"

#define COMMAND "glm train"

enum {
	BATCH_MAX = 1 << 20,
	MICRO_MAX = 360, /* as many as fit a packet with the narrowest wire */
	EPOCHS_MAX = 1000000,
	THREADS_MAX = 64,
};

static const char help[] =
	"tally glm train - fit a linear model to a file, alone or with many ranks\n"
	"\n"
	"usage: tally glm train FILE [-m MODEL] [OPTION...]\n"
	"\n"
	"  printf '1 1:1 2:1\\n-1 1:1\\n1 2:1\\n-1 3:1\\n' >rows\n"
	"  tally run -n 4 -- tally glm train rows -m rows.model --epochs 20\n"
	"  tally glm evaluate rows -m rows.model\n"
	"\n"
	"FILE has a line per row, \"label index:value index:value ...\" (LIBSVM), plain, gz or xz. "
	"Every\n"
	"rank reads it and keeps its share of the columns; they exchange activations, nothing "
	"else. The\n"
	"model has the same bits whatever the number of ranks and threads, and liblinear-predict "
	"reads it.\n"
	"\n"
	"what\n"
	"  --loss NAME              logistic (default), hinge, squared-hinge; least-squares: "
	"labels "
	"are\n"
	"                           numbers to come near to, not classes\n"
	"  --l1 X, --l2 X           X times the sum of |w|, X/2 times that of w^2 (0)\n"
	"  --bias X                 one more feature, X in every row (none)\n"
	"  --scale X                train on the values times X; the model is for values as they "
	"are "
	"(1)\n"
	"how\n"
	"  -B, --batch N            rows per step (64)\n"
	"  -b, --micro-batch N      rows per packet; auto: measured in the first epoch (auto)\n"
	"  --rate X                 of a step; auto: from the data (auto)\n"
	"  --schedule NAME          constant, inverse (default): rate / (1 + decay * epochs),\n"
	"                           sqrt: rate / sqrt(1 + decay * epochs), step: rate * "
	"decay^epochs\n"
	"  --decay X                (0.1; of step 0.9)\n"
	"  --epochs N               passes over the file (10)\n"
	"  --early-stop N           or until N epochs have not made the loss smaller, on --test if "
	"there is one\n"
	"  --seed S, --no-shuffle   rows come in an order that S says (1), or as in the file\n"
	"  --bits N                 train on values of N bits, 1 to 8: as bit planes, of which N "
	"are "
	"read\n"
	"                           (float32)\n"
	"  --layout NAME            csr, dense (float32 both, same model), weave (--bits), auto: "
	"by "
	"density\n"
	"                           (auto)\n"
	"where\n"
	"  --threads N              per rank (1)\n"
	"  --no-overlap             compute nothing while a packet travels, to compare; same "
	"model\n"
	"  --comm NAME              latency, dense, auto: measured (auto); mpi: tally-glm-mpi\n"
	"  --parallel NAME          model (default): ranks share columns; data: rows, to compare\n"
	"  --wire NAME              fixed64, exact (default); qM.N, M + N = 31: a third of the "
	"bytes, rounded\n"
	"what comes of it\n"
	"  -m, --model FILE         the model, in liblinear's format\n"
	"  --test FILE              scored after each epoch, never trained with\n"
	"  --checkpoint FILE        the whole state, replaced after each --checkpoint-every N "
	"epochs (1)\n"
	"  --resume                 go on from it, to the same bits as without a pause\n"
	"  --plot FILE.svg          loss over epochs and over time (gnuplot)\n"
	"  --json                   one object per epoch and one at the end; tally run "
	"--no-prefix\n"
	"  --help, --version\n"
	"\n"
	"Columns: loss is the mean over all rows, of the model after the epoch, without l1 and l2. "
	"seconds:\n"
	"training alone, since the beginning.\n"
	"Exit status: 0 done; 1 it failed, and a line says on which rank and why; 2 wrong command "
	"line.\n";

enum {
	OPT_LOSS = 256,
	OPT_L1,
	OPT_L2,
	OPT_BIAS,
	OPT_SCALE,
	OPT_RATE,
	OPT_SCHEDULE,
	OPT_DECAY,
	OPT_EPOCHS,
	OPT_EARLY_STOP,
	OPT_SEED,
	OPT_NO_SHUFFLE,
	OPT_THREADS,
	OPT_NO_OVERLAP,
	OPT_COMM,
	OPT_PARALLEL,
	OPT_WIRE,
	OPT_BITS,
	OPT_LAYOUT,
	OPT_TEST,
	OPT_CHECKPOINT,
	OPT_CHECKPOINT_EVERY,
	OPT_RESUME,
	OPT_PLOT,
	OPT_JSON,
	OPT_HELP,
	OPT_MODEL = 'm',
	OPT_BATCH = 'B',
	OPT_MICRO = 'b',
};

/* clang-format off */
static const struct option long_options[] = {
	{ "loss", required_argument, NULL, OPT_LOSS },
	{ "l1", required_argument, NULL, OPT_L1 },
	{ "l2", required_argument, NULL, OPT_L2 },
	{ "bias", required_argument, NULL, OPT_BIAS },
	{ "scale", required_argument, NULL, OPT_SCALE },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "micro-batch", required_argument, NULL, OPT_MICRO },
	{ "rate", required_argument, NULL, OPT_RATE },
	{ "schedule", required_argument, NULL, OPT_SCHEDULE },
	{ "decay", required_argument, NULL, OPT_DECAY },
	{ "epochs", required_argument, NULL, OPT_EPOCHS },
	{ "early-stop", required_argument, NULL, OPT_EARLY_STOP },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "no-shuffle", no_argument, NULL, OPT_NO_SHUFFLE },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "no-overlap", no_argument, NULL, OPT_NO_OVERLAP },
	{ "comm", required_argument, NULL, OPT_COMM },
	{ "parallel", required_argument, NULL, OPT_PARALLEL },
	{ "wire", required_argument, NULL, OPT_WIRE },
	{ "bits", required_argument, NULL, OPT_BITS },
	{ "layout", required_argument, NULL, OPT_LAYOUT },
	{ "model", required_argument, NULL, OPT_MODEL },
	{ "test", required_argument, NULL, OPT_TEST },
	{ "checkpoint", required_argument, NULL, OPT_CHECKPOINT },
	{ "checkpoint-every", required_argument, NULL, OPT_CHECKPOINT_EVERY },
	{ "resume", no_argument, NULL, OPT_RESUME },
	{ "plot", required_argument, NULL, OPT_PLOT },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* Options with a whole number, a real one or a name of a file as their value. */
static const struct args_number numbers[] = {
	{ OPT_BATCH, 1, BATCH_MAX, offsetof(struct glm_request, batch), "a number from 1 to 1048576" },
	{ OPT_MICRO, 1, MICRO_MAX, offsetof(struct glm_request, micro), "auto, or a number from 1 to 360" },
	{ OPT_EPOCHS, 1, EPOCHS_MAX, offsetof(struct glm_request, epochs), "a number from 1 to 1000000" },
	{ OPT_EARLY_STOP, 1, EPOCHS_MAX, offsetof(struct glm_request, early_stop), "a number of epochs, at least 1" },
	{ OPT_SEED, 0, UINT64_MAX, offsetof(struct glm_request, seed), "a number" },
	{ OPT_THREADS, 1, THREADS_MAX, offsetof(struct glm_request, threads), "a number from 1 to 64" },
	{ OPT_BITS, 1, WEAVE_BITS_MAX, offsetof(struct glm_request, bits), "a number from 1 to 8" },
	{ OPT_CHECKPOINT_EVERY, 1, EPOCHS_MAX, offsetof(struct glm_request, checkpoint_every),
	  "a number of epochs, at least 1" },
};

static const struct {
	int option;
	double min, max;
	size_t at; /* in struct glm_request: a double */
	const char *why;
} reals[] = {
	{ OPT_L1, 0, 1e6, offsetof(struct glm_request, options.l1), "a number from 0 to 1e6" },
	{ OPT_L2, 0, 1e6, offsetof(struct glm_request, options.l2), "a number from 0 to 1e6" },
	{ OPT_BIAS, 0, 1e6, offsetof(struct glm_request, options.bias), "a number from 0 to 1e6" },
	{ OPT_SCALE, 1e-30, 1e30, offsetof(struct glm_request, scale), "a number above 0" },
	{ OPT_RATE, 1e-30, 1e30, offsetof(struct glm_request, options.rate), "auto, or a number above 0" },
	{ OPT_DECAY, 0, 1e6, offsetof(struct glm_request, options.decay), "a number from 0 to 1e6" },
};

static const struct args_file files[] = {
	{ OPT_MODEL, offsetof(struct glm_request, model) },
	{ OPT_TEST, offsetof(struct glm_request, test) },
	{ OPT_CHECKPOINT, offsetof(struct glm_request, checkpoint) },
	{ OPT_PLOT, offsetof(struct glm_request, plot) },
};

static const struct {
	const char *name;
	enum glm_schedule schedule;
} schedules[] = {
	{ "constant", GLM_CONSTANT },
	{ "inverse", GLM_INVERSE },
	{ "sqrt", GLM_SQUARE_ROOT },
	{ "step", GLM_EXPONENTIAL },
};
/* clang-format on */

_Static_assert(sizeof(long_options) / sizeof(long_options[0]) <= 64, "a bit for each");

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

/* strtod takes more than numbers. */
static bool real_read(const char *text, double min, double max, double *real)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || strspn(text, "+-.0123456789eE") != strlen(text) ||
	    !(value >= min && value <= max))
		return false;
	*real = value;
	return true;
}

/* What is wrong, or NULL. */
static const char *schedule_read(struct glm_options *options, const char *value)
{
	for (size_t i = 0; i < COUNT(schedules); i++) {
		if (strcmp(schedules[i].name, value) != 0)
			continue;
		options->schedule = schedules[i].schedule;
		return NULL;
	}
	return "constant, inverse, sqrt or step";
}

static const char *comm_read(struct glm_request *request, const char *value)
{
	if (!strcmp(value, "auto"))
		request->comm = EXCHANGE_AUTO;
	else if (!strcmp(value, "latency"))
		request->comm = EXCHANGE_LATENCY;
	else if (!strcmp(value, "dense"))
		request->comm = EXCHANGE_DENSE;
	else if (!strcmp(value, "mpi"))
		request->comm = EXCHANGE_MPI;
	else
		return "auto, latency or dense; mpi in tally-glm-mpi";
	return NULL;
}

static const char *parallel_read(struct glm_request *request, const char *value)
{
	if (strcmp(value, "model") != 0 && strcmp(value, "data") != 0)
		return "model or data";
	if (!strcmp(value, "data"))
		request->options.parallel = GLM_DATA_PARALLEL;
	return NULL;
}

/* What one of the tables has; "": none has it. */
static const char *tables_read(struct glm_request *request, int option, const char *value)
{
	const char *why = args_numbers(numbers, COUNT(numbers), request, option, value);

	if (!why || *why)
		return why;
	for (size_t i = 0; i < COUNT(reals); i++) {
		double real;

		if (reals[i].option != option)
			continue;
		if (!real_read(value, reals[i].min, reals[i].max, &real))
			return reals[i].why;
		memcpy((char *)request + reals[i].at, &real, sizeof(real));
		return NULL;
	}
	return args_files(files, COUNT(files), request, option, value);
}

static const char *value_read(void *arg, int option, const char *value)
{
	struct glm_request *request = arg;

	switch (option) {
	case OPT_LOSS:
		return loss_find(value, &request->options.loss)
			       ? NULL
			       : "logistic, hinge, squared-hinge or least-squares";
	case OPT_SCHEDULE:
		return schedule_read(&request->options, value);
	case OPT_COMM:
		return comm_read(request, value);
	case OPT_PARALLEL:
		return parallel_read(request, value);
	case OPT_WIRE:
		return wire_parse(value, &request->options.wire)
			       ? NULL
			       : "fixed64, or qM.N with M + N = 31, as in q12.19";
	case OPT_LAYOUT:
		return glm_layout_find(value, &request->options.layout)
			       ? NULL
			       : "auto, csr, dense or weave";
	case OPT_MICRO:
	case OPT_RATE:
		if (!strcmp(value, "auto"))
			return NULL;
		break;
	case OPT_NO_SHUFFLE:
		request->options.is_shuffled = false;
		return NULL;
	case OPT_NO_OVERLAP:
		request->options.depth = 1;
		return NULL;
	case OPT_RESUME:
		request->is_resumed = true;
		return NULL;
	case OPT_JSON:
		request->is_json = true;
		return NULL;
	}
	return tables_read(request, option, value);
}

static int layout_settle(const struct glm_options *options)
{
	if (options->bits && options->layout != GLM_LAYOUT_AUTO &&
	    options->layout != GLM_LAYOUT_WEAVE)
		return args_refuse(
			COMMAND, "--layout", glm_layout_name(options->layout),
			"is for float32 values: with --bits leave it out, or give weave");
	if (!options->bits && options->layout == GLM_LAYOUT_WEAVE)
		return args_refuse(COMMAND, "--layout", "weave", "needs --bits N");
	if (options->bits && options->parallel != GLM_MODEL_PARALLEL)
		return args_refuse(COMMAND, "--bits", NULL, "needs --parallel model");
	return 0;
}

/* What options mean together. */
static int request_settle(struct glm_request *request, bool has_decay, bool has_every)
{
	struct glm_options *options = &request->options;
	int status;

	options->batch = (uint32_t)request->batch;
	options->micro = (uint32_t)request->micro;
	options->seed = request->seed;
	options->bits = (uint32_t)request->bits;
	if (!has_decay)
		options->decay = options->schedule == GLM_EXPONENTIAL ? 0.9 : 0.1;
	if (has_decay && options->schedule == GLM_CONSTANT)
		return args_refuse(
			COMMAND, "--decay", NULL,
			"needs --schedule inverse, sqrt or step: a constant rate has no decay");
	if (options->schedule == GLM_EXPONENTIAL && !(options->decay > 0 && options->decay <= 1))
		return args_refuse(COMMAND, "--decay", NULL,
				   "must be above 0 and at most 1 with --schedule step");
	if (options->micro > options->batch)
		return args_refuse(COMMAND, "--micro-batch", NULL, "must be at most --batch");
	if (options->parallel == GLM_DATA_PARALLEL && request->threads > 1)
		return args_refuse(COMMAND, "--threads", NULL, "must be 1 with --parallel data");
	if (options->parallel == GLM_DATA_PARALLEL && options->depth)
		return args_refuse(COMMAND, "--no-overlap", NULL,
				   "is not for --parallel data, where nothing overlaps");
	status = layout_settle(options);
	if (status)
		return status;
	if (request->is_resumed && !request->checkpoint)
		return args_refuse(COMMAND, "--resume", NULL,
				   "needs --checkpoint FILE, to resume from");
	if (has_every && !request->checkpoint)
		return args_refuse(COMMAND, "--checkpoint-every", NULL, "needs --checkpoint FILE");
	return 0;
}

int glm_request_parse(struct glm_request *request, int argc, char **argv)
{
	uint64_t seen = 0;
	int option, status, place;

	*request = (struct glm_request){
		.options = { .loss = GLM_LOGISTIC,
			     .bias = -1,
			     .schedule = GLM_INVERSE,
			     .is_shuffled = true },
		.comm = EXCHANGE_AUTO,
		.scale = 1,
		.batch = 64,
		.seed = 1,
		.epochs = 10,
		.threads = 1,
		.checkpoint_every = 1,
	};
	while ((option = getopt_long(argc, argv, "m:B:b:", long_options, NULL)) != -1) {
		if (option == '?') {
			fprintf(stderr, "tally " COMMAND " --help says which there are\n");
			return EXIT_USAGE;
		}
		if (option == OPT_HELP)
			return args_print(help);
		place = args_place(long_options, option);
		status = args_take(COMMAND, &long_options[place], place, &seen, value_read, request,
				   optarg);
		if (status)
			return status;
	}
	status = request_settle(request, seen >> args_place(long_options, OPT_DECAY) & 1,
				seen >> args_place(long_options, OPT_CHECKPOINT_EVERY) & 1);
	if (status)
		return status;
	if (optind >= argc)
		return args_refuse(COMMAND, "FILE", NULL, "missing: give the file to train on");
	if (optind + 1 < argc)
		return args_refuse(COMMAND, argv[optind + 1], NULL,
				   "is one file too many: give one");
	request->file = argv[optind];
	return -1;
}
