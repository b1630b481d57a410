/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_job.c - what the settings say, and whether a rank with them gets to the aggregator and back. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/codec.h"
#include "control/conn.h"
#include "lib/interface.h"
#include "lib/paths.h"
#include "tally.h"
#include "tools/doctor.h"
#include "util/clock.h"

enum {
	TEXT_BYTES = 512,
	CONNECT_MS = 3000,
	JOIN_S = 10,
	COUNT = 10000,       /* of the vector that is added up: some packets */
	LOSS_COUNT = 180000, /* of those that loss is measured with: 500 packets each, */
	LOSS_PACKETS = 4000, /* as many in all, */
	LOSS_S = 5,          /* or what takes so long */
	LOSS_FEW = 3,        /* so many may be anything */
};

/* ---- files and variables ---- */

static void files_look(struct doctor *doctor)
{
	char text[BOOTSTRAP_TEXT_MAX];
	int result = config_load_process(&doctor->config, text);
	const char *open_key = config_open_key(&doctor->config);

	if (result)
		doctor_say(doctor, DOCTOR_FAIL, "config", "mend that line: tally(7), FILES", "%s",
			   text);
	for (uint32_t i = 0; i < CONFIG_FILES; i++) {
		const struct config_file *file = &doctor->config.files[i];

		if (file->path[0] && (file->is_there || !result))
			doctor_say(doctor, DOCTOR_OK, "config", NULL, "%s: %s", file->path,
				   file->is_there ? "read" : "not there");
	}
	if (open_key)
		doctor_say(doctor, DOCTOR_WARN, "config", "chmod o-r",
			   "%s holds a key and may be read by everybody on this host", open_key);
}

static void launcher_look(struct doctor *doctor)
{
	struct bootstrap *boot = &doctor->boot;
	char text[BOOTSTRAP_TEXT_MAX];

	if (!bootstrap_is_launched(bootstrap_getenv, NULL)) {
		doctor_say(doctor, DOCTOR_OK, "launcher", NULL,
			   "none here: tally run, torchrun, mpirun or srun will say who is who");
	} else if (bootstrap_env(boot, config_get, &doctor->config, text)) {
		doctor_say(doctor, DOCTOR_FAIL, "launcher", "tally(7), WHO AM I", "%s", text);
	} else {
		doctor_say(doctor, DOCTOR_OK, "launcher", NULL,
			   "%s: rank %u of %u, %u on this host, job %s", boot->source, boot->rank,
			   boot->size, boot->local_size, boot->job);
		if (boot->warning[0])
			doctor_say(doctor, DOCTOR_WARN, "launcher", "tally(7), WHO AM I", "%s",
				   boot->warning);
	}
}

/* The settings as a job of one rank has them. */
static void settings_look(struct doctor *doctor)
{
	struct bootstrap *boot = &doctor->boot;
	struct tally_options options = TALLY_OPTIONS_INIT;
	char text[BOOTSTRAP_TEXT_MAX];

	*boot = (struct bootstrap){ .size = 1, .source = "arguments" };
	snprintf(boot->job, sizeof(boot->job), "doctor-%d-%llx", (int)getpid(),
		 (unsigned long long)clock_ns());
	options.aggregator = doctor->aggregator;
	if (!options.aggregator)
		options.aggregator = config_get("TALLY_AGGREGATOR", &doctor->config);
	if (bootstrap_finish(boot, &options, config_get, &doctor->config, text)) {
		config_blame(&doctor->config, text);
		doctor_say(doctor, DOCTOR_FAIL, "settings", "tally(7), ENVIRONMENT", "%s", text);
		return;
	}
	doctor->has_settings = true;
	if (boot->warning[0])
		doctor_say(doctor, DOCTOR_WARN, "settings", "chmod o-r", "%s", boot->warning);
	doctor_say(doctor, DOCTOR_OK, "settings", NULL, "aggregator %s, %s key, deadline %s",
		   boot->is_local ? "local" : boot->aggregator, boot->key[0] ? "a" : "no",
		   boot->deadline_ms ? "set" : "none");
}

/* ---- the aggregator ---- */

static void from_look(struct doctor *doctor, const struct conn_address *address)
{
	const char *text = doctor->boot.interface;

	if (address->from_bytes)
		doctor_say(doctor, DOCTOR_OK, "ifname", NULL, "TALLY_IFNAME=%s takes %s",
			   doctor->boot.ifname, text);
}

/* Until the connection stands or does not: NULL, or why not. */
static const char *connect_wait(struct conn *conn, struct codec *codec, uint64_t until_ns)
{
	static struct control_message message;

	for (;;) {
		struct pollfd wait = { .fd = conn_fd(conn), .events = conn_events(conn) };
		uint64_t now = clock_ns();

		switch (conn_read(conn, now, codec, &message)) {
		case CONN_CONNECTED:
			return NULL;
		case CONN_NONE:
			break;
		default:
			return conn_text(conn);
		}
		if (now >= until_ns)
			return "no answer";
		poll(&wait, 1, 50);
	}
}

static bool tcp_look(struct doctor *doctor, struct conn_address *address)
{
	static struct codec codec;
	uint64_t begin = clock_ns(), most = CONNECT_MS * 1000000ull;
	char why[TEXT_BYTES] = "";
	const char *text = NULL;
	struct conn *conn = NULL;
	int error;

	error = conn_connect(&conn, address, begin, most);
	if (!error)
		text = connect_wait(conn, &codec, begin + most);
	if (error || text)
		snprintf(why, sizeof(why), "%s", error ? strerror(-error) : text);
	conn_close(conn);
	if (why[0])
		doctor_say(doctor, DOCTOR_FAIL, "tcp",
			   error == -ECONNREFUSED || strstr(why, strerror(ECONNREFUSED))
				   ? "is tallyd running there, on that port?"
				   : "is tallyd running there, on that port? Do firewalls let TCP "
				     "through?",
			   "aggregator %s: %s", address->text, why);
	else
		doctor_say(doctor, DOCTOR_OK, "tcp", NULL,
			   "aggregator %s answers after %.2f ms; MTU of the route: %u",
			   address->text, (double)(clock_ns() - begin) / 1e6, paths_mtu(address));
	return !why[0];
}

/* Without an aggregator: what it would be towards any other host. */
static void ifname_look(struct doctor *doctor)
{
	static const uint8_t elsewhere[16] = {
		[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1
	};
	char text[INTERFACE_TEXT_BYTES], why[TEXT_BYTES];
	uint8_t from[16];

	if (!doctor->boot.ifname[0])
		return;
	if (interface_pick(doctor->boot.ifname, elsewhere, from, text, why, sizeof(why)))
		doctor_say(doctor, DOCTOR_OK, "ifname", NULL,
			   "TALLY_IFNAME=%s takes %s towards other hosts", doctor->boot.ifname,
			   text);
	else
		doctor_say(doctor, DOCTOR_WARN, "ifname",
			   "it means nothing in local mode, but would fail with an aggregator",
			   "%s", why);
}

/* One address of the list. */
static bool aggregator_look(struct doctor *doctor, const char *text)
{
	struct conn_address address;
	char why[TEXT_BYTES];
	int error = conn_resolve(text, CONTROL_PORT, &address);

	const char *wrong = error == -EINVAL   ? "not HOST, HOST:PORT or [V6]:PORT"
			    : error == -EAGAIN ? "the name service does not answer"
			    : error            ? "there is no such host"
					       : conn_address_unfit(&address);

	if (wrong) {
		doctor_say(doctor, DOCTOR_FAIL, "tcp", "name a host that this one can find",
			   "aggregator \"%s\": %s", text, wrong);
		return false;
	}
	if (!paths_from(&doctor->boot, &address, why, sizeof(why))) {
		doctor_say(doctor, DOCTOR_FAIL, "ifname", "choose one of those", "%s", why);
		return false;
	}
	from_look(doctor, &address);
	return tcp_look(doctor, &address);
}

static bool aggregators_look(struct doctor *doctor)
{
	char list[sizeof(doctor->boot.aggregator)], *rest = list;
	bool is_good = true;

	strcpy(list, doctor->boot.aggregator);
	for (char *at; (at = strsep(&rest, ","));)
		is_good &= aggregator_look(doctor, at);
	return is_good;
}

/* ---- a job of one rank ---- */

/* True: the sum over one rank is what it gave, both signs, several packets. */
static bool sum_look(struct doctor *doctor, struct tally_comm *comm)
{
	static int32_t values[COUNT];
	uint64_t begin;
	int result;

	for (int32_t i = 0; i < COUNT; i++)
		values[i] = (i % 2 ? -1 : 1) * i;
	begin = clock_ns();
	result = tally_allreduce(values, values, COUNT, TALLY_INT32, TALLY_SUM, comm);
	if (result) {
		doctor_say(doctor, DOCTOR_FAIL, "sum", NULL, "%s", tally_get_last_error(comm));
		return false;
	}
	for (int32_t i = 0; i < COUNT; i++) {
		if (values[i] == (i % 2 ? -1 : 1) * i)
			continue;
		doctor_say(doctor, DOCTOR_FAIL, "sum", "please report it",
			   "element %d came back as %d", i, values[i]);
		return false;
	}
	doctor_say(doctor, DOCTOR_OK, "sum", NULL, "%d int32 came back right after %.0f us", COUNT,
		   (double)(clock_ns() - begin) / 1e3);
	return true;
}

/* Zeros, one vector after the other. The barrier's packet comes behind all that was late. */
static void loss_look(struct doctor *doctor, struct tally_comm *comm)
{
	static int32_t zeros[LOSS_COUNT];
	uint64_t until_ns = clock_ns() + LOSS_S * 1000000000ull;
	struct tally_stats stats = TALLY_STATS_INIT;
	struct doctor_loss loss;
	double worst;
	int result;

	do {
		result = tally_allreduce(zeros, zeros, LOSS_COUNT, TALLY_INT32, TALLY_SUM, comm);
		(void)tally_comm_get_stats(comm, &stats);
	} while (!result && stats.packets_out < LOSS_PACKETS && clock_ns() < until_ns);
	if (!result)
		result = tally_barrier(comm);
	if (result) {
		doctor_say(doctor, DOCTOR_FAIL, "loss", NULL, "%s", tally_get_last_error(comm));
		return;
	}
	(void)tally_comm_get_stats(comm, &stats);
	loss = doctor_loss_of(&stats);
	worst = loss.there > loss.back ? loss.there : loss.back;
	if (loss.lost < LOSS_FEW || worst < DOCTOR_LOSS_WARN)
		doctor_say(doctor, DOCTOR_OK, "loss", NULL,
			   "of %llu packets to the aggregator and their answers %llu %s lost",
			   (unsigned long long)loss.packets, (unsigned long long)loss.lost,
			   loss.lost == 1 ? "was" : "were");
	else
		doctor_say(doctor, worst < DOCTOR_LOSS_FAIL ? DOCTOR_WARN : DOCTOR_FAIL, "loss",
			   "each costs a wait. Where do they go: ip -s link here and there, a "
			   "switch's buffers, a cable, a limit of rate?",
			   "of %llu packets to the aggregator %.1f %% were lost, of their answers "
			   "%.1f %%",
			   (unsigned long long)loss.packets, 100 * loss.there, 100 * loss.back);
}

static void hear_nothing(int level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg; /* errors come back as texts */
}

static void join_look(struct doctor *doctor)
{
	struct tally_options options = TALLY_OPTIONS_INIT;
	struct tally_stats stats = TALLY_STATS_INIT;
	struct tally_comm *comm;
	int result;

	options.aggregator = doctor->boot.is_local ? "local" : doctor->boot.aggregator;
	options.init_timeout_s = JOIN_S;
	(void)setenv("TALLY_TIMELINE", "/dev/null", 1); /* nothing is written over */
	(void)tally_set_log(0, hear_nothing, NULL);
	result = tally_comm_init(&comm, doctor->boot.job, 1, 0, &options);
	if (result) {
		doctor_say(doctor, DOCTOR_FAIL, "join",
			   doctor_join_advice(result, tally_get_last_error(NULL)), "%s",
			   tally_get_last_error(NULL));
		return;
	}
	(void)tally_comm_get_stats(comm, &stats);
	doctor_say(doctor, DOCTOR_OK, "join", NULL,
		   "%s: full packets of %u numbers (%u bytes of UDP) both ways; %u shard%s, window "
		   "%u of %u slots",
		   doctor->boot.is_local ? "local mode" : doctor->boot.aggregator, stats.lanes,
		   WIRE_HEADER_BYTES + stats.lanes * WIRE_LANE_BYTES, stats.shards,
		   stats.shards == 1 ? "" : "s", stats.window, stats.slots);
	if (sum_look(doctor, comm)) {
		loss_look(doctor, comm);
		if (tally_comm_finalize(comm))
			doctor_say(doctor, DOCTOR_FAIL, "leave", NULL, "%s",
				   tally_get_last_error(comm));
	}
	tally_comm_destroy(comm);
}

void doctor_job(struct doctor *doctor)
{
	files_look(doctor);
	launcher_look(doctor);
	settings_look(doctor);
	if (!doctor->has_settings)
		return;
	if (doctor->boot.is_local)
		ifname_look(doctor);
	if (doctor->boot.is_local || aggregators_look(doctor))
		join_look(doctor);
}
