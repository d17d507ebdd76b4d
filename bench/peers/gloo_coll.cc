// The operations of `tutti bench` done by Gloo over TCP on the loopback interface, with sums:
// gloo_coll RANK SIZE FOLDER OPERATION BYTES [DTYPE] [fresh], once for each rank; the ranks meet in files of FOLDER.
// Built and run by the compare command. Left out: reduce_scatter, which Gloo has only in an older form.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <memory>

#include "timing.h"

namespace {

using Context = std::shared_ptr<gloo::Context>;
using Reduction = void(void*, const void*, const void*, std::size_t);

constexpr std::uint64_t kPingPongSlot = 7;

template <typename T>
struct Buffers {
  std::size_t count = 0;  // elements a rank contributes or ends with
  std::vector<T> in, out;
  std::vector<T*> blocks;  // of `in`, one for each rank
  std::unique_ptr<gloo::transport::UnboundBuffer> ping, pong;
};

template <typename T>
void all_reduce(const Context& context, T* in, T* out, std::size_t count, Reduction* op) {
  gloo::AllreduceOptions options(context);
  options.setInput(in, count);
  options.setOutput(out, count);
  options.setReduceFunction(op);
  gloo::allreduce(options);
}

void barrier(const Context& context) {
  gloo::BarrierOptions options(context);
  gloo::barrier(options);
}

template <typename T>
void broadcast(const Context& context, T* data, std::size_t count) {
  gloo::BroadcastOptions options(context);
  options.setOutput(data, count);
  options.setRoot(0);
  gloo::broadcast(options);
}

template <typename T>
void reduce(const Context& context, Buffers<T>& b) {
  gloo::ReduceOptions options(context);
  options.setInput(b.in.data(), b.count);
  options.setOutput(b.out.data(), b.count);
  options.setReduceFunction(static_cast<Reduction*>(gloo::sum<T>));
  options.setRoot(0);
  gloo::reduce(options);
}

template <typename T>
void all_gather(const Context& context, Buffers<T>& b) {
  gloo::AllgatherOptions options(context);
  options.setInput(b.in.data(), b.count);
  options.setOutput(b.out.data(), b.out.size());
  gloo::allgather(options);
}

template <typename T>
void gather(const Context& context, Buffers<T>& b) {
  gloo::GatherOptions options(context);
  options.setInput(b.in.data(), b.count);
  if (context->rank == 0) options.setOutput(b.out.data(), b.out.size());
  options.setRoot(0);
  gloo::gather(options);
}

template <typename T>
void scatter(const Context& context, Buffers<T>& b) {
  gloo::ScatterOptions options(context);
  if (context->rank == 0) options.setInputs(b.blocks, b.count);
  options.setOutput(b.out.data(), b.count);
  options.setRoot(0);
  gloo::scatter(options);
}

template <typename T>
void all_to_all(const Context& context, Buffers<T>& b) {
  gloo::AlltoallOptions options(context);
  options.setInput(b.in.data(), b.in.size());
  options.setOutput(b.out.data(), b.out.size());
  gloo::alltoall(options);
}

template <typename T>
void ping_pong(const Context& context, Buffers<T>& b) {
  if (context->rank > 1) return;
  const int partner = 1 - context->rank;
  if (context->rank == 1) {
    b.pong->recv(partner, kPingPongSlot);
    b.pong->waitRecv();
  }
  b.ping->send(partner, kPingPongSlot);
  b.ping->waitSend();
  if (context->rank == 0) {
    b.pong->recv(partner, kPingPongSlot);
    b.pong->waitRecv();
  }
}

template <typename T>
std::function<void()> operation_named(const std::string& name, const Context& context, Buffers<T>& b) {
  if (name == "all_reduce") {
    return [&] { all_reduce(context, b.in.data(), b.out.data(), b.count, gloo::sum<T>); };
  }
  if (name == "broadcast") return [&] { broadcast(context, b.in.data(), b.count); };
  if (name == "reduce") return [&] { reduce(context, b); };
  if (name == "all_gather") return [&] { all_gather(context, b); };
  if (name == "gather") return [&] { gather(context, b); };
  if (name == "scatter") return [&] { scatter(context, b); };
  if (name == "all_to_all") return [&] { all_to_all(context, b); };
  if (name == "barrier") return [&] { barrier(context); };
  if (name == "ping_pong") return [&] { ping_pong(context, b); };
  peers::refuse("gloo_coll", name);
}

Context connect(int rank, int size, const std::string& folder) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = "lo";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  return context;
}

template <typename T>
void measure(const Context& context, const std::string& name, std::size_t bytes, bool fresh) {
  peers::Rank rank;
  rank.rank = context->rank;
  rank.size = context->size;
  Buffers<T> buffers;
  buffers.count = peers::elements<T>(bytes, rank.size, peers::shares(name));
  const std::size_t whole = buffers.count * (peers::shares(name) ? static_cast<std::size_t>(rank.size) : 1);
  buffers.in.assign(whole, static_cast<T>(rank.rank + 1));
  buffers.out.assign(whole, 0);
  if (peers::shares(name)) {
    for (std::size_t at = 0; at < whole; at += buffers.count) buffers.blocks.push_back(buffers.in.data() + at);
  }
  buffers.ping = context->createUnboundBuffer(buffers.in.data(), whole * sizeof(T));
  buffers.pong = context->createUnboundBuffer(buffers.out.data(), whole * sizeof(T));
  rank.operation = operation_named(name, context, buffers);
  rank.set_up = peers::refresh(buffers.in, fresh);
  rank.barrier = [&context] { barrier(context); };
  rank.maximum = [&context](std::vector<double>& v) {
    all_reduce(context, v.data(), v.data(), v.size(), gloo::max<double>);
  };
  rank.from_rank_zero = [&context](int value) {
    broadcast(context, &value, 1);
    return value;
  };
  peers::print_result(rank, name, bytes, peers::median_us(rank, bytes));
  barrier(context);  // nobody closes its connections while others still use them
}

}  // namespace

int main(int argc, char** argv) {
  const auto data = peers::data_asked_for(argc, argv, 5);
  if (!data) {
    std::fprintf(stderr, "usage: gloo_coll RANK SIZE FOLDER OPERATION BYTES [DTYPE] [fresh]\n");
    return 2;
  }
  const Context context = connect(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
  const bool known = peers::with_elements_of(data->dtype, [&]<typename T>(T) {
    measure<T>(context, argv[4], std::strtoull(argv[5], nullptr, 10), data->is_fresh);
  });
  return known ? 0 : 2;
}
