// Round trips to a store server on this host, and in a file. Run: build/release/bin/store_bench
#include <benchmark/benchmark.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

namespace tutti::comm {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

/// A server on loopback and its clients; crowds of them: store_scale.
struct Setup {
  TcpStoreServer server{TcpStoreServerOptions{.job_secret = "bench"}};

  std::unique_ptr<TcpStore> client() const {
    return std::make_unique<TcpStore>(
        TcpStoreOptions{.host = "127.0.0.1", .port = server.port(), .job_secret = "bench"}, soon());
  }
};

void tcp_set(benchmark::State& state) {
  const Setup setup;
  const auto store = setup.client();
  const std::string value(static_cast<std::size_t>(state.range(0)), 'v');
  for (auto _ : state) store->set("key", value, soon());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(tcp_set)->Arg(16)->Arg(64 << 10)->Arg(4 << 20)->UseRealTime()->Unit(benchmark::kMicrosecond);

void tcp_get(benchmark::State& state) {
  const Setup setup;
  const auto store = setup.client();
  store->set("key", std::string(static_cast<std::size_t>(state.range(0)), 'v'), soon());
  for (auto _ : state) benchmark::DoNotOptimize(store->get("key", soon()));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(tcp_get)->Arg(16)->Arg(64 << 10)->Arg(4 << 20)->UseRealTime()->Unit(benchmark::kMicrosecond);

void tcp_add(benchmark::State& state) {
  const Setup setup;
  const auto store = setup.client();
  for (auto _ : state) benchmark::DoNotOptimize(store->add("n", 1, soon()));
}
BENCHMARK(tcp_add)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// A file in the system's temporary folder, removed at the end.
void file_add(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = (folder / ("tutti_store_bench_" + std::to_string(::getpid()))).string();
  FileStore store({.path = path}, soon());
  for (auto _ : state) benchmark::DoNotOptimize(store.add("n", 1, soon()));
  std::filesystem::remove(path);
}
BENCHMARK(file_add)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti::comm
