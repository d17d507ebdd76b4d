// The operations of `tutti bench` done by an MPI library: mpirun -n N mpi_coll OPERATION BYTES [DTYPE] [fresh], with
// sums. Built and run by the compare command.

#include <mpi.h>

#include "timing.h"

namespace {

using peers::Rank;

MPI_Datatype type_of(float) { return MPI_FLOAT; }
MPI_Datatype type_of(double) { return MPI_DOUBLE; }
MPI_Datatype type_of(std::int32_t) { return MPI_INT32_T; }
MPI_Datatype type_of(std::int64_t) { return MPI_INT64_T; }
MPI_Datatype type_of(std::uint8_t) { return MPI_UINT8_T; }

/// One operation's buffers, large enough for each of them.
template <typename T>
struct Buffers {
  int count = 0;  // elements a rank contributes or ends with
  std::vector<T> in, out;
};

template <typename T>
std::function<void()> operation_named(const std::string& name, int rank, Buffers<T>& b) {
  const auto world = MPI_COMM_WORLD;
  const auto type = type_of(T());
  T* const in = b.in.data();
  T* const out = b.out.data();
  const int n = b.count;
  if (name == "all_reduce") return [=] { MPI_Allreduce(in, out, n, type, MPI_SUM, world); };
  if (name == "broadcast") return [=] { MPI_Bcast(in, n, type, 0, world); };
  if (name == "reduce") return [=] { MPI_Reduce(in, out, n, type, MPI_SUM, 0, world); };
  if (name == "all_gather") return [=] { MPI_Allgather(in, n, type, out, n, type, world); };
  if (name == "gather") return [=] { MPI_Gather(in, n, type, out, n, type, 0, world); };
  if (name == "scatter") return [=] { MPI_Scatter(in, n, type, out, n, type, 0, world); };
  if (name == "reduce_scatter") return [=] { MPI_Reduce_scatter_block(in, out, n, type, MPI_SUM, world); };
  if (name == "all_to_all") return [=] { MPI_Alltoall(in, n, type, out, n, type, world); };
  if (name == "barrier") return [=] { MPI_Barrier(world); };
  if (name != "ping_pong") peers::refuse("mpi_coll", name);
  if (rank == 0) {
    return [=] {
      MPI_Send(in, n, type, 1, 0, world);
      MPI_Recv(out, n, type, 1, 0, world, MPI_STATUS_IGNORE);
    };
  }
  if (rank > 1) return [] {};
  return [=] {
    MPI_Recv(out, n, type, 0, 0, world, MPI_STATUS_IGNORE);
    MPI_Send(in, n, type, 0, 0, world);
  };
}

template <typename T>
void measure(const std::string& name, std::size_t bytes, bool fresh) {
  Rank rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &rank.size);
  Buffers<T> buffers;
  const std::size_t count = peers::elements<T>(bytes, rank.size, peers::shares(name));
  const std::size_t whole = count * (peers::shares(name) ? static_cast<std::size_t>(rank.size) : 1);
  buffers.count = static_cast<int>(count);
  buffers.in.assign(whole, static_cast<T>(rank.rank + 1));
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
  const auto data = peers::data_asked_for(argc, argv, 2);
  if (!data) {
    std::fprintf(stderr, "usage: mpirun -n N mpi_coll OPERATION BYTES [DTYPE] [fresh]\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  const bool known = peers::with_elements_of(
      data->dtype, [&]<typename T>(T) { measure<T>(argv[1], std::strtoull(argv[2], nullptr, 10), data->is_fresh); });
  MPI_Finalize();
  return known ? 0 : 2;
}
