// SPDX-License-Identifier: Apache-2.0
// gloo.cc - Gloo's allreduces over TCP, to compare tally with. C++, as Gloo's interface demands it.
//
//   gloo RANK RANKS FOLDER ADDRESS ring_chunked|halving_doubling|bcube -- OPTION...   options as work.h has them
//
// FOLDER: an empty one, in which the ranks find each other. ADDRESS: where this rank listens. Gloo's algorithms belong to
// the memory that they were made for: there is one for each operation of a batch, and making them is not timed.
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_one.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bench/peers/work.h"

namespace {

// Each has buffers of its own on every connection: more cost memory, and fewer would be a burst that no link limits.
constexpr uint32_t slots_max = 256;

struct Own {
	std::shared_ptr<gloo::rendezvous::Context> context;
	std::string algorithm;
	std::unique_ptr<gloo::BarrierAllToOne> barrier;
	std::vector<std::unique_ptr<gloo::Algorithm>> slots;
};

template <typename T>
std::unique_ptr<gloo::Algorithm> algorithm_make(const Own &own, void *data, size_t elements)
{
	const std::vector<T *> at{ static_cast<T *>(data) };
	const auto count = static_cast<int>(elements);
	gloo::Algorithm *made = nullptr;

	if (own.algorithm == "ring_chunked")
		made = new gloo::AllreduceRingChunked<T>(own.context, at, count);
	else if (own.algorithm == "halving_doubling")
		made = new gloo::AllreduceHalvingDoubling<T>(own.context, at, count);
	else
		made = new gloo::AllreduceBcube<T>(own.context, at, count);
	return std::unique_ptr<gloo::Algorithm>(made);
}

void prepare(work_peer *peer, uint32_t slot, void *data, size_t elements, int is_float)
{
	Own &own = *static_cast<Own *>(peer->own);

	if (slot == 0)
		own.slots.clear();
	if (elements == 0)
		own.slots.emplace_back();
	else if (is_float)
		own.slots.push_back(algorithm_make<float>(own, data, elements));
	else
		own.slots.push_back(algorithm_make<int32_t>(own, data, elements));
}

void barrier(work_peer *peer)
{
	static_cast<Own *>(peer->own)->barrier->run();
}

void allreduce(work_peer *peer, uint32_t slot, void *, void *, size_t, int)
{
	static_cast<Own *>(peer->own)->slots[slot]->run();
}

int run(char **argv, int options, char **option)
{
	gloo::transport::tcp::attr attr;
	gloo::rendezvous::FileStore store(argv[3]);
	work_peer peer = {};
	Own own;

	peer.name = "gloo";
	peer.rank = static_cast<uint32_t>(atoi(argv[1]));
	peer.ranks = static_cast<uint32_t>(atoi(argv[2]));
	peer.is_in_place = 1;
	peer.batch_max = slots_max;
	peer.own = &own;
	peer.prepare = prepare;
	peer.barrier = barrier;
	peer.allreduce = allreduce;
	attr.hostname = argv[4];
	own.algorithm = argv[5];
	own.context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(peer.rank),
								  static_cast<int>(peer.ranks));
	auto device = gloo::transport::tcp::CreateDevice(attr);
	own.context->connectFullMesh(store, device);
	own.barrier.reset(new gloo::BarrierAllToOne(own.context));
	const int result = work_run(&peer, options, option);
	own.barrier->run(); // nobody closes a connection that another still reads from
	return result;
}

} // namespace

int main(int argc, char **argv)
{
	const std::string algorithm = argc > 6 ? argv[5] : "";

	if ((algorithm != "ring_chunked" && algorithm != "halving_doubling" &&
	     algorithm != "bcube") ||
	    std::string(argv[6]) != "--") {
		fprintf(stderr, "usage: gloo RANK RANKS FOLDER ADDRESS "
				"ring_chunked|halving_doubling|bcube -- OPTION...\n");
		return 2;
	}
	try {
		return run(argv, argc - 7, argv + 7);
	} catch (const std::exception &error) {
		fprintf(stderr, "gloo: rank %s: %s\n", argv[1], error.what());
		return 1;
	}
}
