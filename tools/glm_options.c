/* SPDX-License-Identifier: Apache-2.0 */
/* glm_options.c - the command line of tally glm train. */
#include <stddef.h>

#include "glm/weave.h"
#include "tools/glm.h"
#include "util/opt.h"

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
	"rank reads it and keeps its share of the columns; ranks exchange only activations. The "
	"model\n"
	"has the same bits for any number of ranks and threads, and liblinear-predict reads it.\n"
	"\n"
	"what\n"
	"  --loss NAME              logistic (default), hinge, squared-hinge; least-squares: "
	"labels are\n"
	"                           numbers, not classes\n"
	"  --l1 X, --l2 X           X times the sum of |w|, X/2 times that of w^2 (0)\n"
	"  --bias X                 one more feature, with value X in every row (none)\n"
	"  --scale X                train on values times X; the model is for unscaled values (1)\n"
	"how\n"
	"  -B, --batch N            rows per step (64)\n"
	"  -b, --micro-batch N      rows per packet; auto: measured in the first epoch (auto)\n"
	"  --rate X                 learning rate; auto: from the data (auto)\n"
	"  --schedule NAME          constant, inverse (default): rate / (1 + decay * epochs),\n"
	"                           sqrt: rate / sqrt(1 + decay * epochs), step: rate * "
	"decay^epochs\n"
	"  --decay X                decay of the schedule (0.1; for step 0.9)\n"
	"  --epochs N               passes over the file (10)\n"
	"  --early-stop N           stop after N epochs without a smaller loss, on --test if "
	"given\n"
	"  --seed S, --no-shuffle   order of the rows: by S (1), or as in the file\n"
	"  --bits N                 train on values of N bits, 1 to 8, kept as bit planes "
	"(float32)\n"
	"  --layout NAME            csr, dense (float32 both, same model), weave (--bits), auto: "
	"by density\n"
	"                           (auto)\n"
	"where\n"
	"  --threads N              threads per rank (1)\n"
	"  --no-overlap             for comparison: compute nothing while a packet travels; same "
	"model\n"
	"  --comm NAME              latency, dense, auto: measured (auto); mpi: tally-glm-mpi\n"
	"  --parallel NAME          model (default): ranks share columns; data: rows, for "
	"comparison\n"
	"  --wire NAME              fixed64, exact (default); qM.N, M + N = 31: a third of the "
	"bytes, rounded\n"
	"output\n"
	"  -m, --model FILE         the model, in liblinear's format\n"
	"  --test FILE              rows that are scored after each epoch, and never trained with\n"
	"  --checkpoint FILE        the whole state, replaced after each --checkpoint-every N "
	"epochs (1)\n"
	"  --resume                 continue from it, to the same bits as without a pause\n"
	"  --plot FILE.svg          loss over epochs and over time (gnuplot)\n"
	"  --json                   one object per epoch and one at the end; tally run "
	"--no-prefix\n"
	"  --help, --version\n"
	"\n"
	"Columns: loss is the mean over all rows, of the model after the epoch, without l1 and "
	"l2.\n"
	"seconds: time of training alone, since the beginning.\n"
	"Exit status: 0 done; 1 failed, and a line says on which rank and why; 2 wrong command "
	"line.\n";

static const char *wire_take(struct opt_value *value)
{
	struct glm_request *request = value->request;

	return wire_parse(value->text, &request->options.wire)
		       ? NULL
		       : "fixed64, or qM.N with M + N = 31, as in q12.19";
}

static const char *no_overlap(struct opt_value *value)
{
	struct glm_request *request = value->request;

	request->options.depth = 1;
	return NULL;
}

static const char *const schedules[] = { [GLM_CONSTANT] = "constant",
					 [GLM_INVERSE] = "inverse",
					 [GLM_SQUARE_ROOT] = "sqrt",
					 [GLM_EXPONENTIAL] = "step",
					 [GLM_EXPONENTIAL + 1] = NULL };
static const char *const comms[] = { [EXCHANGE_AUTO] = "auto",
				     [EXCHANGE_LATENCY] = "latency",
				     [EXCHANGE_DENSE] = "dense",
				     [EXCHANGE_MPI] = "mpi",
				     [EXCHANGE_MPI + 1] = NULL };
static const char *const parallels[] = { [GLM_MODEL_PARALLEL] = "model",
					 [GLM_DATA_PARALLEL] = "data",
					 [GLM_DATA_PARALLEL + 1] = NULL };

#define AT(field) OPT_FIELD(struct glm_request, field)
/* clang-format off */
static const struct opt table[] = {
	{ "loss", OPT_CHOICE, AT(options.loss), .names = loss_names,
	  .takes = "logistic, hinge, squared-hinge or least-squares" },
	{ "l1", OPT_REAL, AT(options.l1), .high = 1e6, .takes = "a number from 0 to 1e6" },
	{ "l2", OPT_REAL, AT(options.l2), .high = 1e6, .takes = "a number from 0 to 1e6" },
	{ "bias", OPT_REAL, AT(options.bias), .high = 1e6, .takes = "a number from 0 to 1e6" },
	{ "scale", OPT_REAL, AT(scale), .low = 1e-30, .high = 1e30, .takes = "a number above 0" },
	{ "batch", OPT_NUMBER, 'B', AT(options.batch), .min = 1, .max = BATCH_MAX },
	{ "micro-batch", OPT_NUMBER, 'b', AT(options.micro), .min = 1, .max = MICRO_MAX, .instead = "auto",
	  .takes = "auto, or a number from 1 to 360" },
	{ "rate", OPT_REAL, AT(options.rate), .low = 1e-30, .high = 1e30, .instead = "auto",
	  .takes = "auto, or a number above 0" },
	{ "schedule", OPT_CHOICE, AT(options.schedule), .names = schedules,
	  .takes = "constant, inverse, sqrt or step" },
	{ "decay", OPT_REAL, AT(options.decay), .high = 1e6, .takes = "a number from 0 to 1e6" },
	{ "epochs", OPT_NUMBER, AT(epochs), .min = 1, .max = EPOCHS_MAX },
	{ "early-stop", OPT_NUMBER, AT(early_stop), .min = 1, .max = EPOCHS_MAX,
	  .takes = "a number of epochs, at least 1" },
	{ "seed", OPT_NUMBER, AT(options.seed) },
	{ "no-shuffle", OPT_UNSET, AT(options.is_shuffled) },
	{ "threads", OPT_NUMBER, AT(threads), .min = 1, .max = THREADS_MAX },
	{ "no-overlap", OPT_DO, .call = no_overlap },
	{ "comm", OPT_CHOICE, AT(comm), .names = comms, .takes = "auto, latency or dense; mpi in tally-glm-mpi" },
	{ "parallel", OPT_CHOICE, AT(options.parallel), .names = parallels, .takes = "model or data" },
	{ "wire", OPT_CALL, .call = wire_take },
	{ "bits", OPT_NUMBER, AT(options.bits), .min = 1, .max = WEAVE_BITS_MAX },
	{ "layout", OPT_CHOICE, AT(options.layout), .names = glm_layout_names, .takes = "auto, csr, dense or weave" },
	{ "model", OPT_TEXT, 'm', AT(model), .takes = "the name of a file" },
	{ "test", OPT_TEXT, AT(test), .takes = "the name of a file" },
	{ "checkpoint", OPT_TEXT, AT(checkpoint), .takes = "the name of a file" },
	{ "checkpoint-every", OPT_NUMBER, AT(checkpoint_every), .min = 1, .max = EPOCHS_MAX,
	  .takes = "a number of epochs, at least 1" },
	{ "resume", OPT_FLAG, AT(is_resumed) },
	{ "plot", OPT_TEXT, AT(plot), .takes = "the name of a file" },
	{ "json", OPT_FLAG, AT(is_json) },
};
/* clang-format on */
const struct opt_command glm_train_command = { .name = "tally glm train",
					       .help = help,
					       .table = table,
					       .count = OPT_COUNT(table) };

static int refuse(const char *name, const char *value, const char *why)
{
	return opt_refuse(glm_train_command.name, name, value, why);
}

static int layout_settle(const struct glm_options *options)
{
	if (options->bits && options->layout != GLM_LAYOUT_AUTO &&
	    options->layout != GLM_LAYOUT_WEAVE)
		return refuse("--layout", glm_layout_names[options->layout],
			      "is for float32 values: with --bits leave it out, or give weave");
	if (!options->bits && options->layout == GLM_LAYOUT_WEAVE)
		return refuse("--layout", "weave", "needs --bits N");
	if (options->bits && options->parallel != GLM_MODEL_PARALLEL)
		return refuse("--bits", NULL, "needs --parallel model");
	return 0;
}

/* What options mean together. */
static int request_settle(struct glm_request *request, bool has_decay, bool has_every)
{
	struct glm_options *options = &request->options;
	int status;

	if (!has_decay)
		options->decay = options->schedule == GLM_EXPONENTIAL ? 0.9 : 0.1;
	if (has_decay && options->schedule == GLM_CONSTANT)
		return refuse(
			"--decay", NULL,
			"needs --schedule inverse, sqrt or step: a constant rate has no decay");
	if (options->schedule == GLM_EXPONENTIAL && !(options->decay > 0 && options->decay <= 1))
		return refuse("--decay", NULL,
			      "must be above 0 and at most 1 with --schedule step");
	if (options->micro > options->batch)
		return refuse("--micro-batch", NULL, "must be at most --batch");
	if (options->parallel == GLM_DATA_PARALLEL && request->threads > 1)
		return refuse("--threads", NULL, "must be 1 with --parallel data");
	if (options->parallel == GLM_DATA_PARALLEL && options->depth)
		return refuse("--no-overlap", NULL,
			      "is not for --parallel data, where nothing overlaps");
	status = layout_settle(options);
	if (status)
		return status;
	if (request->is_resumed && !request->checkpoint)
		return refuse("--resume", NULL, "needs --checkpoint FILE, to resume from");
	if (has_every && !request->checkpoint)
		return refuse("--checkpoint-every", NULL, "needs --checkpoint FILE");
	return 0;
}

int glm_request_parse(struct glm_request *request, int argc, char **argv)
{
	struct opt_line line;
	int status;

	*request = (struct glm_request){
		.options = { .loss = GLM_LOGISTIC,
			     .bias = -1,
			     .batch = 64,
			     .seed = 1,
			     .schedule = GLM_INVERSE,
			     .is_shuffled = true },
		.comm = EXCHANGE_AUTO,
		.scale = 1,
		.epochs = 10,
		.threads = 1,
		.checkpoint_every = 1,
	};
	status = opt_read(&glm_train_command, request, argc, argv, &line);
	if (status != OPT_GO_ON)
		return status;
	status = request_settle(request, opt_has(&glm_train_command, &line, "decay"),
				opt_has(&glm_train_command, &line, "checkpoint-every"));
	if (status)
		return status;
	if (!line.words)
		return refuse("FILE", NULL, "missing: give the file to train on");
	if (line.words > 1)
		return refuse(line.word[1], NULL, "is one file too many: give one");
	request->file = line.word[0];
	return OPT_GO_ON;
}
