/* SPDX-License-Identifier: Apache-2.0 */
/* chip_bmv2.c - see chip_bmv2.h: how a switch becomes ours, and whether it still is (R-CHIP-10). */
#include "dataplane/chip_bmv2.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "dataplane/chip_bmv2_state.h"
#include "dataplane/link_address.h"
#include "dataplane/link_udp.h"
#include "util/clock.h"

enum {
	LOST_MS = 5000,    /* a switch that does not answer for so long is lost */
	HELLO_PER_S = 500, /* to the CPU, from each port, */
	HELLO_BURST = 64,  /* and at once: more than a job's children say */
};

static int ports_set(struct chip_bmv2 *chip)
{
	bool ports[BMV2_PORTS];
	int32_t group, node;
	int result = chip_bmv2_passed(chip, bmv2_ports(&chip->bmv2, ports));

	if (!result && !ports[CHIP_BMV2_CPU_PORT]) {
		snprintf(chip->chip.error, sizeof(chip->chip.error),
			 "the switch at %s has no port %u, by which it reaches this host: start it "
			 "with -i "
			 "%u@DEVICE, the other end of which has tallyd's address",
			 chip->bmv2.name, (unsigned)CHIP_BMV2_CPU_PORT,
			 (unsigned)CHIP_BMV2_CPU_PORT);
		return -ENODEV;
	}
	result = result ? result
			: chip_bmv2_passed(chip, bmv2_group_create(&chip->bmv2,
								   CHIP_BMV2_FLOOD_GROUP, &group));
	result = result ? result
			: chip_bmv2_passed(chip,
					   bmv2_node_create(&chip->bmv2, CHIP_BMV2_FLOOD_REPLICA,
							    ports, &node));
	return result ? result : chip_bmv2_passed(chip, bmv2_node_join(&chip->bmv2, group, node));
}

/* Which of our programs it runs: registers tell. */
static int program_find(struct chip_bmv2 *chip, bool *is_latency)
{
	static const char *const words[] = { INGRESS "copies", INGRESS "unsaid" };
	int result = -EREMOTEIO;

	for (uint32_t i = 0; i < COUNT(words) && result == -EREMOTEIO; i++) {
		uint64_t value;

		*is_latency = i;
		result = chip_bmv2_passed(chip,
					  bmv2_register_read(&chip->bmv2, words[i], 0, &value));
	}
	if (result == -EREMOTEIO)
		chip_bmv2_word(chip, "runs neither src/p4/dense.p4 nor src/p4/latency.p4",
			       chip->bmv2.error);
	return result;
}

/* Jobs are promised so many slots and lanes: a program compiled for fewer would drop their packets. */
static int sizes_check(struct chip_bmv2 *chip, bool is_latency)
{
	static const char *const lanes[] = { INGRESS "sum_7_d",
					     INGRESS "sum_3_d_hi" }; /* -DHALVES=1 */
	uint32_t last = (is_latency ? CHIP_BMV2_LATENCY_SLOTS : CHIP_BMV2_SLOTS) - 1;
	uint64_t value;
	int result = chip_bmv2_passed(chip, bmv2_register_read(&chip->bmv2, INGRESS "phases", last,
							       &value));
	bool has_slots = !result;

	for (uint32_t i = 0; i < COUNT(lanes) && has_slots && (!i || result == -EREMOTEIO); i++)
		result = chip_bmv2_passed(chip,
					  bmv2_register_read(&chip->bmv2, lanes[i], 0, &value));
	if (result == -EREMOTEIO)
		chip_bmv2_word(chip,
			       is_latency ? "runs src/p4/latency.p4 for fewer than 16,384 slots or "
					    "32 lanes: compile it without -DSLOTS and -DLANES"
					  : "runs src/p4/dense.p4 for fewer than 8,192 slots or 32 "
					    "lanes: compile it without -DSLOTS and -DLANES",
			       "");
	return result;
}

/* What jobs may want was said when we began. */
static int program_check(struct chip_bmv2 *chip)
{
	bool is_latency;
	int result = program_find(chip, &is_latency);

	if (result || is_latency == chip->chip.profile.is_latency)
		return result ? result : sizes_check(chip, is_latency);
	chip_bmv2_word(chip,
		       is_latency ? "runs src/p4/latency.p4 now, and ran dense.p4 before: start "
				    "tallyd again"
				  : "runs src/p4/dense.p4 now, and ran latency.p4 before: start "
				    "tallyd again",
		       "");
	return -EREMOTEIO;
}

/* What control had written there is gone, whoever it was; the constant rows of the program's own tables must stay, so this
 * is not bmv2's reset. Of no life, all other words of a slot mean nothing. */
static int clear(struct chip_bmv2 *chip)
{
	static const char *const tables[] = { INGRESS "jobs",    INGRESS "addresses",
					      INGRESS "here",    INGRESS "forwarding.hosts",
					      EGRESS "children", INGRESS "acknowledged" };
	bool is_latency = chip->chip.profile.is_latency;
	uint64_t rows = 0;
	int result = chip_bmv2_passed(chip, bmv2_entries(&chip->bmv2, INGRESS "shapes", &rows));

	if (!result && !rows) {
		chip_bmv2_word(
			chip,
			"has lost the constant rows of its program, as by bmv2's reset_state: "
			"start simple_switch again",
			"");
		return -EREMOTEIO;
	}
	result = result ? result
			: chip_bmv2_passed(chip, bmv2_register_write(&chip->bmv2, INGRESS "boot", 0,
								     1, 0));
	for (uint32_t i = 0; i < COUNT(tables) - !is_latency && !result; i++)
		result = chip_bmv2_passed(chip, bmv2_clear(&chip->bmv2, tables[i]));
	result = result ? result
			: chip_bmv2_passed(chip, bmv2_register_reset(&chip->bmv2,
								     is_latency ? INGRESS "lives_lo"
										: INGRESS "lives"));
	return result ? result
		      : chip_bmv2_passed(chip,
					 bmv2_counters_reset(&chip->bmv2, INGRESS "verdicts"));
}

/* An empty switch becomes ours. The boot number goes last: without it the switch is not set up. */
static int set_up(struct chip_bmv2 *chip)
{
	struct chip_way way = { .port = CHIP_BMV2_CPU_PORT };
	struct bmv2_value here[] = { VALUE(4, ip_number(&chip->local)),
				     VALUE(2, chip->local.port) };
	struct host *own = NULL;
	uint32_t boot = 0;
	int32_t entry;
	int result;

	chip_bmv2_jobs_forget(chip);
	memcpy(way.mac, chip->mac, sizeof(way.mac));
	result = clear(chip);
	chip->bmv2.is_unsure &= result != 0;
	result = result ? result : ports_set(chip);
	result = result ? result
			: chip_bmv2_passed(chip,
					   bmv2_add(&chip->bmv2, INGRESS "here", here, COUNT(here),
						    INGRESS "mine", NULL, 0, &entry));
	result = result ? result : chip_bmv2_host_put(chip, &own, &way);
	result = result ? result
			: chip_bmv2_passed(chip,
					   bmv2_meter_set(&chip->bmv2, INGRESS "to_control.rate",
							  HELLO_PER_S, HELLO_BURST));
	if (result)
		return result;
	while (!boot)
		if (getrandom(&boot, sizeof(boot), 0) < 0)
			return -errno;
	chip->boot = boot; /* it may come to be there even if we do not hear so */
	return chip_bmv2_passed(chip, bmv2_register_write(&chip->bmv2, INGRESS "boot", 0, 1, boot));
}

/* It answers. Is it as we have left it? */
static enum chip_news look_there(struct chip_bmv2 *chip)
{
	enum state state = chip->state;
	uint32_t boot;
	bool is_emptied;
	int result = chip_bmv2_boot_read(chip, &boot);

	if (!result && boot && boot == chip->boot && state != LOST && !chip->bmv2.is_unsure) {
		chip->state = UP;
		for (uint32_t i = 0; i < CHIP_BMV2_JOBS; i++)
			if (chip->jobs[i] && chip->jobs[i]->is_going &&
			    !chip_bmv2_job_take(chip, chip->jobs[i])) {
				free(chip->jobs[i]);
				chip->jobs[i] = NULL;
			}
		if (state == UP)
			return CHIP_NO_NEWS;
		chip_bmv2_word(chip, "answers again, and has lost nothing", "");
		return CHIP_WORD;
	}
	if (!result && boot && chip->boot && boot != chip->boot) {
		chip_bmv2_jobs_forget(chip);
		chip->state = TAKEN;
		bmv2_disconnect(&chip->bmv2);
		chip_bmv2_word(
			chip,
			"is another tallyd's now, which has taken it over: its jobs here are over; "
			"end one of "
			"the two, and start this one again",
			"");
		return CHIP_LOST;
	}
	if (result && result != -EREMOTEIO)
		return CHIP_NO_NEWS; /* it is away */
	is_emptied = !result && boot && chip->bmv2.is_unsure;
	result = program_check(chip);
	result = result ? result : set_up(chip);
	chip->state = result ? LOST : UP;
	if (!result && state == LOST) {
		chip_bmv2_word(chip, "is there again, and takes jobs", "");
		return CHIP_WORD;
	}
	if (result && state == LOST)
		return CHIP_NO_NEWS;
	if (result) {
		char why[CHIP_ERROR_BYTES];

		memcpy(why, chip->chip.error, sizeof(why));
		chip_bmv2_word(chip,
			       "was started again or reset, so the sums in it are lost, and it "
			       "cannot be set "
			       "up",
			       why);
	} else if (is_emptied) {
		chip_bmv2_word(chip,
			       "has not said in time what it did with an entry, so it was emptied: "
			       "the sums in it are lost",
			       "");
	} else {
		chip_bmv2_word(chip, "was started again or reset: the sums in it are lost", "");
	}
	return CHIP_LOST;
}

static enum chip_news look(struct chip *base)
{
	struct chip_bmv2 *chip = bmv2_of(base);
	enum chip_news news = CHIP_NO_NEWS;
	char why[CHIP_ERROR_BYTES];

	if (chip->state == TAKEN)
		return CHIP_NO_NEWS;
	chip_bmv2_begin(chip);
	if (chip->bmv2.fd >= 0)
		news = look_there(chip);
	if (news || chip->state == TAKEN || chip->bmv2.fd >= 0)
		return news;
	if (chip->state == UP) {
		chip->state = AWAY;
		chip->away_ns = clock_ns();
	}
	if (!chip_bmv2_passed(chip, bmv2_connect(&chip->bmv2, &chip->control)))
		news = look_there(chip);
	/* The kernel answers connect, even where the process is stopped. */
	if (news || chip->state == TAKEN || chip->bmv2.fd >= 0)
		return news;
	if (chip->state == LOST || clock_ns() - chip->away_ns < (uint64_t)LOST_MS * NS_PER_MS)
		return CHIP_NO_NEWS;
	chip_bmv2_jobs_forget(chip);
	chip->state = LOST; /* whatever it still has is to go */
	memcpy(why, base->error, sizeof(why));
	chip_bmv2_word(
		chip,
		"does not answer, and has not for 5 s: its jobs are over, and new ones are refused "
		"until it does",
		why);
	return CHIP_LOST;
}

/* ---- open, close ---- */

/* What is in the switch stays there: it goes on forwarding. */
static void close_chip(struct chip *base)
{
	struct chip_bmv2 *chip = bmv2_of(base);

	bmv2_disconnect(&chip->bmv2);
	chip_bmv2_jobs_forget(chip);
	free(chip);
}

static bool is_local(const struct ifaddrs *one, const struct link_address *local)
{
	const void *socket = one->ifa_addr;

	return socket && one->ifa_addr->sa_family == AF_INET &&
	       !memcmp(&((const struct sockaddr_in *)socket)->sin_addr, local->ip + 12, 4);
}

/* The MAC of the device that has the address. */
static int mac_find(const struct link_address *local, uint8_t mac[CHIP_MAC_BYTES])
{
	struct ifaddrs *list, *at, *one;
	int result = -EADDRNOTAVAIL;

	if (getifaddrs(&list))
		return -errno;
	for (at = list; at && !is_local(at, local); at = at->ifa_next)
		;
	for (one = at ? list : NULL; one; one = one->ifa_next) {
		const void *socket = one->ifa_addr;
		const struct sockaddr_ll *link = socket;

		if (!socket || one->ifa_addr->sa_family != AF_PACKET ||
		    strcmp(one->ifa_name, at->ifa_name) || link->sll_halen != CHIP_MAC_BYTES)
			continue;
		memcpy(mac, link->sll_addr, CHIP_MAC_BYTES);
		result = 0;
	}
	freeifaddrs(list);
	return result;
}

static int begin(struct chip_bmv2 *chip, const char *address)
{
	char text[64];
	bool is_v6;
	int result = link_address_parse(address, BMV2_PORT, &chip->control, &is_v6);

	if (result) {
		snprintf(chip->chip.error, sizeof(chip->chip.error), "--switch %s: %s", address,
			 result == -ENOENT ? "no such host" : "not ADDR or ADDR:PORT");
		return result;
	}
	result = link_address_is_v4(&chip->local) ? mac_find(&chip->local, chip->mac)
						  : -EADDRNOTAVAIL;
	if (result) {
		snprintf(chip->chip.error, sizeof(chip->chip.error),
			 "%s is on no device with a MAC: --listen says this host's IPv4 address on "
			 "the device that "
			 "is the switch's CPU port",
			 link_address_format(&chip->local, text));
		return result;
	}
	chip_bmv2_begin(chip);
	result = chip_bmv2_passed(chip, bmv2_connect(&chip->bmv2, &chip->control));
	result = result ? result : program_find(chip, &chip->chip.profile.is_latency);
	result = result ? result : sizes_check(chip, chip->chip.profile.is_latency);
	if (chip->chip.profile.is_latency)
		chip->chip.profile.slots = CHIP_BMV2_LATENCY_SLOTS;
	return result ? result : set_up(chip);
}

int chip_bmv2_open(struct chip **out, const char *address, const struct link_address *local,
		   char error[CHIP_ERROR_BYTES])
{
	struct chip_bmv2 *chip = calloc(1, sizeof(*chip));
	int result;

	if (!chip) {
		snprintf(error, CHIP_ERROR_BYTES, "out of memory");
		return -ENOMEM;
	}
	chip->bmv2.fd = -1;
	chip->local = *local;
	chip->ops = chip_bmv2_jobs;
	chip->ops.look = look;
	chip->ops.close = close_chip;
	chip->chip.ops = &chip->ops;
	chip->chip.profile = (struct chip_profile){ .children = CHIP_BMV2_CHILDREN,
						    .lanes = CHIP_BMV2_LANES,
						    .slots = CHIP_BMV2_SLOTS };
	result = begin(chip, address);
	if (result) {
		memcpy(error, chip->chip.error, CHIP_ERROR_BYTES);
		close_chip(&chip->chip);
		return result;
	}
	*out = &chip->chip;
	return 0;
}
