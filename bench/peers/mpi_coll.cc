// The operations of `tutti bench` done by an MPI library: mpirun -n N mpi_coll OPERATION BYTES [fresh], float32 and
// sum. Built and run by the compare command.

#include <mpi.h>

#include "timing.h"

namespace {

using peers::Rank;

/// One operation's buffers, large enough for each of them.
struct Buffers {
  int count = 0;  // elements a rank contributes or ends with
  std::vector<float> in, out;
};

std::function<void()> operation_named(const std::string& name, int rank, Buffers& b) {
  const auto world = MPI_COMM_WORLD;
  float* const in = b.in.data();
  float* const out = b.out.data();
  const int n = b.count;
  if (name == "all_reduce") return [=] { MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, world); };
  if (name == "broadcast") return [=] { MPI_Bcast(in, n, MPI_FLOAT, 0, world); };
  if (name == "reduce") return [=] { MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, world); };
  if (name == "all_gather") return [=] { MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, world); };
  if (name == "gather") return [=] { MPI_Gather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, world); };
  if (name == "scatter") return [=] { MPI_Scatter(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, world); };
  if (name == "reduce_scatter") return [=] { MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, world); };
  if (name == "all_to_all") return [=] { MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, world); };
  if (name == "barrier") return [=] { MPI_Barrier(world); };
  if (name != "ping_pong") peers::refuse("mpi_coll", name);
  if (rank == 0) {
    return [=] {
      MPI_Send(in, n, MPI_FLOAT, 1, 0, world);
      MPI_Recv(out, n, MPI_FLOAT, 1, 0, world, MPI_STATUS_IGNORE);
    };
  }
  if (rank > 1) return [] {};
  return [=] {
    MPI_Recv(out, n, MPI_FLOAT, 0, 0, world, MPI_STATUS_IGNORE);
    MPI_Send(in, n, MPI_FLOAT, 0, 0, world);
  };
}

void measure(const std::string& name, std::size_t bytes, bool fresh) {
  Rank rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank.size);
  Buffers buffers;
  const std::size_t count = peers::elements(bytes, rank.size, peers::shares(name));
  const std::size_t whole = count * (peers::shares(name) ? static_cast<std::size_t>(rank.size) : 1);
  buffers.count = static_cast<int>(count);
  buffers.in.assign(whole, static_cast<float>(rank.rank) + 1);
  buffers.out.assign(whole, 0);
  rank.operation = operation_named(name, rank.rank, buffers);
  rank.set_up = peers::refresh(buffers.in, fresh);
  rank.barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  rank.maximum = [](std::vector<double>& v) {
    MPI_Allreduce(MPI_IN_PLACE, v.data(), static_cast<int>(v.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  };
  rank.from_rank_zero = [](int value) {
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return value;
  };
  peers::print_result(rank, name, bytes, peers::median_us(rank, bytes));
}

}  // namespace

int main(int argc, char** argv) {
  const bool fresh = peers::asks_for_fresh(argc, argv, 3);
  if (argc != 3 && !fresh) {
    std::fprintf(stderr, "usage: mpirun -n N mpi_coll OPERATION BYTES [fresh]\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  measure(argv[1], std::strtoull(argv[2], nullptr, 10), fresh);
  MPI_Finalize();
  return 0;
}
