// in_threads: one body in several threads at once.
#pragma once

#include <thread>
#include <vector>

namespace tutti::test {

/// Runs body(0), ..., body(count - 1), each in a thread of its own, and waits for their ends.
template <typename Body>
void in_threads(int count, const Body& body) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
}

}  // namespace tutti::test
