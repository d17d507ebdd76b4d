// Ranks of the C API as threads of one process, which meet in a file.
#pragma once

#include <gtest/gtest.h>
#include <tutti/comm/c/tutti.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/in_threads.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tutti::test {

inline std::string last_error() { return tutti_last_error(); }

/// A group of `size` ranks, this being `rank`; null, with the text in tutti_last_error(), if it cannot be formed.
inline tutti_group* connect_in(const std::filesystem::path& folder, int rank, int size) {
  tutti_world_options place;
  tutti_world_options_init(&place, sizeof(place));
  const std::string store = "file://" + (folder / "store").string();
  place.rank = rank;
  place.world_size = size;
  place.store = store.c_str();
  tutti_group_options options;
  tutti_group_options_init(&options, sizeof(options));
  options.timeout_ms = 30000;
  tutti_world* world = nullptr;
  tutti_group* group = nullptr;
  if (tutti_world_detect(&place, &world) == TUTTI_OK) tutti_connect(world, &options, &group);
  tutti_world_free(world);
  return group;
}

/// Runs `body` on every rank; frees the groups that it leaves.
inline void run_c_ranks(int size, const std::function<void(tutti_group*&, int)>& body) {
  const Watchdog watchdog;
  ::setenv("TUTTI_JOB_SECRET", "a secret of tests, long enough to be one", 1);
  std::string name = std::filesystem::temp_directory_path() / "tutti-c-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  in_threads(size, [&](int rank) {
    tutti_group* group = connect_in(name, rank, size);
    EXPECT_NE(group, nullptr) << last_error();
    if (group) body(group, rank);
    EXPECT_EQ(tutti_free(group), TUTTI_OK) << last_error();
  });
  std::filesystem::remove_all(name);
}

}  // namespace tutti::test
