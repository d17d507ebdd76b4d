// What the tasks share: an empty question, where an element stands, and which of a buffer's elements is wrong first.
// Internal to tasks/.
#pragma once

#include <tutti/tools/labs/tasks/task.h>
#include <tutti/tools/labs/tasks/values.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace tutti::labs {

/// With no buffers yet, for as many ranks as there are.
Question empty_question(const std::string& function, const Case& posed);

/// "rank 2: data[5]", with the call where there are several.
std::string place(const Question& question, int rank, std::size_t call, const std::string& buffer, std::size_t index);

/// The first element of a buffer that is not what it should be.
struct Difference {
  std::size_t index = 0;
  Element found{};
  std::size_t count = 0;  // of wrong elements
};
template <typename Expected>
std::optional<Difference> difference(const Bytes& bytes, ElementType type, const Expected& expected) {
  std::optional<Difference> first;
  for (std::size_t i = 0; i < bytes.size() / size_of(type); ++i) {
    const Element found = element_at(bytes, i, type);
    if (found == expected(i)) continue;
    if (!first) first = Difference{i, found, 0};
    ++first->count;
  }
  return first;
}

// moving.cc: broadcast and shift.
std::unique_ptr<Task> move_task(bool shift);
// reducing.cc: all_reduce has one buffer a call, all_reduce_many one for each tensor.
std::unique_ptr<Task> reduce_task();
std::unique_ptr<Task> all_reduce_task(bool many);

}  // namespace tutti::labs
