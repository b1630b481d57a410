/* SPDX-License-Identifier: Apache-2.0 */
/* net_setup.c - what a simulation sets up and changes on the way. */
#include "sim/net_state.h"

#include <assert.h>

static uint32_t threshold(uint32_t parts)
{
	return (uint32_t)(((uint64_t)parts << FATE_BITS) / 1000000);
}

static void line_init(struct line *line, const struct net_line *config)
{
	*line = (struct line){
		.line = *config,
		.queue_ns = (uint64_t)config->queue_bytes * config->ps_per_byte / 1000,
		.loss = threshold(config->loss),
	};
}

void net_weather(struct net *net, const struct net_weather *weather)
{
	net->weather = *weather;
	net->loss = threshold(weather->loss);
	net->duplicate = threshold(weather->duplicate);
	net->reorder = threshold(weather->reorder);
}

struct net *net_open(const struct net_options *options)
{
	struct net *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	rng_init(&net->fate, options->seed, 1);
	rng_init(&net->host, options->seed, 2);
	net->packet_bytes_max = options->packet_bytes_max;
	assert(net->packet_bytes_max <= UINT16_MAX);
	net->lane_weight = options->lane_weight ? options->lane_weight : 1;
	net->fault_first = options->fault_first;
	net->fault_last = options->fault_last ? options->fault_last : UINT64_MAX;
	net->frames = need(malloc(INBOX_FRAMES_BYTES));
	net->stride = (sizeof(struct packet) + net->packet_bytes_max + 15) & ~(size_t)15;
	net->unused = NOTHING;
	net->now_ns = 1000000; /* never 0, which means "not yet" to some */
	net_weather(net, &options->weather);
	return net;
}

void net_close(struct net *net)
{
	if (!net)
		return;
	for (uint32_t i = 0; i < net->nodes_count; i++)
		free(net->node[i]);
	free(net->node);
	free(net->frames);
	for (uint32_t i = 0; i < net->slabs_count; i++)
		free(net->slabs[i]);
	free(net->slabs);
	agenda_fini(&net->agenda);
	free(net);
}

uint32_t net_node_add(struct net *net, const struct net_host *host)
{
	uint32_t number = net->nodes_count++;
	struct node *node = need(calloc(1, sizeof(*node)));

	assert(number < NET_NODES_MAX);
	if (number == net->nodes_max) {
		net->nodes_max = net->nodes_max ? 2 * net->nodes_max : 64;
		net->node = need(realloc(net->node, net->nodes_max * sizeof(net->node[0])));
	}
	node->link.ops = &net_link_ops;
	node->link.local = (struct link_address){
		.ip = { [10] = 0xff,
			[11] = 0xff,
			[12] = 10,
			[13] = (uint8_t)(number >> 16),
			[14] = (uint8_t)(number >> 8),
			[15] = (uint8_t)number },
		.port = NET_PORT,
	};
	node->net = net;
	node->number = number;
	node->up = NET_NODES_MAX;
	line_init(&node->out, &host->out);
	line_init(&node->in, &host->in);
	line_init(&node->hub_out, &host->hub_out);
	line_init(&node->hub_in, &host->hub_in);
	node->poll_ns = host->poll_ns;
	node->gro = host->gro;
	node->inbox_bytes = host->inbox_bytes;
	node->inbox_head = node->inbox_tail = NOTHING;
	node->due_ns = NET_NEVER;
	net->node[number] = node;
	return number;
}

void net_node_up(struct net *net, uint32_t node, uint32_t up)
{
	net->node[node]->up = up;
}

struct link *net_link(struct net *net, uint32_t node)
{
	return &net->node[node]->link;
}

void net_readdress(struct net *net, uint32_t node, uint16_t port)
{
	net->node[node]->link.local.port = port;
}

void net_watch(struct net *net, void (*watcher)(void *context, const struct net_sight *sight),
	       void *context)
{
	net->watch = watcher;
	net->context = context;
}

uint64_t net_now(const struct net *net)
{
	return net->now_ns;
}

void net_pause_node(struct net *net, uint32_t node, uint64_t until_ns)
{
	net->node[node]->pause_ns = until_ns;
}

void net_pause_lines(struct net *net, uint32_t node, uint64_t until_ns, bool is_down)
{
	struct line *lines[] = { &net->node[node]->out, &net->node[node]->in,
				 &net->node[node]->hub_out, &net->node[node]->hub_in };

	for (uint32_t i = 0; i < 4; i++) {
		lines[i]->pause_ns = until_ns;
		lines[i]->is_down = is_down;
	}
}

void net_side(struct net *net, uint32_t node, uint32_t side)
{
	net->node[node]->side = side;
}

void net_cut(struct net *net, enum net_cut cut)
{
	net->cut = cut;
}

uint64_t net_hub_bytes(const struct net *net, uint32_t number, bool is_out)
{
	const struct node *node = net->node[number];
	const struct line *line = is_out ? &node->hub_out : &node->hub_in;

	if (line->free_ns <= net->now_ns || !line->line.ps_per_byte)
		return 0;
	return (line->free_ns - net->now_ns) * 1000 / line->line.ps_per_byte;
}

const struct net_stats *net_stats(const struct net *net)
{
	return &net->stats;
}
