// Round trips to a store server on this host, and in a file. Run: build/release/bin/store_bench
#include <benchmark/benchmark.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

/// A server on loopback and any number of clients of it.
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

void hash_add(benchmark::State& state) {
  HashStore store;
  for (auto _ : state) benchmark::DoNotOptimize(store.add("n", 1, soon()));
}
BENCHMARK(hash_add);

/// A file in the system's temporary folder, removed at the end.
void file_add(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string path = (folder / ("tutti_store_bench_" + std::to_string(::getpid()))).string();
  FileStore store({.path = path}, soon());
  for (auto _ : state) benchmark::DoNotOptimize(store.add("n", 1, soon()));
  std::filesystem::remove(path);
}
BENCHMARK(file_add)->UseRealTime()->Unit(benchmark::kMicrosecond);

void tcp_connect(benchmark::State& state) {
  const Setup setup;
  for (auto _ : state) benchmark::DoNotOptimize(setup.client());
}
BENCHMARK(tcp_connect)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// All clients count themselves and wait for the last; one iteration is one barrier.
void tcp_barrier(benchmark::State& state) {
  const Setup setup;
  const auto clients = state.range(0);
  std::vector<std::unique_ptr<TcpStore>> stores;
  for (std::int64_t i = 0; i < clients; ++i) stores.push_back(setup.client());
  std::int64_t round = 0;
  for (auto _ : state) {
    const std::string name = "barrier" + std::to_string(round++);
    std::vector<std::thread> threads;
    for (const auto& store : stores) {
      threads.emplace_back([&] {
        if (store->add(name, 1, soon()) == clients) store->set(name + "/done", "", soon());
        store->get(name + "/done", soon());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}
BENCHMARK(tcp_barrier)->Arg(2)->Arg(16)->Arg(64)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tutti::comm
