// The boundary of C++: exceptions become results and texts, numbers of the C API become comm's values.
//
// Thread-safety: all functions may be called from any thread; the latest text is each thread's own.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/c/handles.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace tutti::comm::c {

/// Called in a handler: keeps the exception's text, after the function's name, for tutti_last_error(), and returns its
/// code. A failure that is a group's is noted in `fate`, which may be null.
tutti_result result_of_exception(const char* function, GroupFate* fate) noexcept;

/// Throws InvalidArgument on a thread that is in a function given to tutti_op_create(): the group's operation calls it.
void refuse_within_operator();

/// Throws InvalidArgument if `pointer` is null; `what` is the argument's name.
void require(const void* pointer, const char* what);

/// Runs the body of one function of the C API; nothing is thrown past it.
template <typename Body>
tutti_result guarded(const char* function, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return TUTTI_OK;
  } catch (...) {
    return result_of_exception(function, nullptr);
  }
}

/// The same for a function that gives one value: what `body` returns goes to `*target`, the argument called `what`.
template <typename Target, typename Body>
tutti_result give(const char* function, Target* target, const char* what, Body&& body) noexcept {
  return guarded(function, [&] {
    require(target, what);
    *target = std::forward<Body>(body)();
  });
}

/// The same for what may fail a group: `body` says which one's fate that is. Refused within an operator.
template <typename Body>
tutti_result with_fate(const char* function, Body&& body) noexcept {
  std::shared_ptr<GroupFate> fate;
  try {
    refuse_within_operator();
    std::forward<Body>(body)(fate);
    return TUTTI_OK;
  } catch (...) {
    return result_of_exception(function, fate.get());
  }
}

/// The same with a group, which is kept alive meanwhile, and remembers its failure.
template <typename Body>
tutti_result on_group(const char* function, const tutti_group* handle, Body&& body) noexcept {
  return with_fate(function, [&](std::shared_ptr<GroupFate>& fate) {
    const auto object = find<GroupObject>(handle);
    fate = object->fate;
    std::forward<Body>(body)(*object->group);
  });
}

/// The same for an operation that is started: `body` returns its Work.
template <typename Body>
tutti_result start(const char* function, const tutti_group* handle, tutti_work** work, Body&& body) noexcept {
  return with_fate(function, [&](std::shared_ptr<GroupFate>& fate) {
    require(work, "work");
    auto started = std::make_shared<WorkObject>();
    const auto object = find<GroupObject>(handle);
    started->group = object;
    started->fate = fate = object->fate;
    started->work = std::forward<Body>(body)(*object->group);
    *work = static_cast<tutti_work*>(add_handle(HandleKind::Work, std::move(started)));
  });
}

/// The text; `otherwise` for NULL.
std::string text_or(const char* text, const char* otherwise);

/// Throws InvalidArgument unless it is a value of tutti_dtypes.
DType dtype_of(tutti_dtype dtype);

/// Throws InvalidArgument unless it is a value of tutti_ops, or of an operator that has not been freed.
Reduction reduction_of(tutti_op op);

/// Of `blocks` blocks of `count` elements. Throws InvalidArgument, as the next two, if these are more bytes than memory
/// can have.
std::size_t elements_of_all(std::size_t count, tutti_dtype dtype, int blocks);
ConstBuffer input_of(const void* data, std::size_t count, tutti_dtype dtype);
Buffer output_of(void* data, std::size_t count, tutti_dtype dtype);

/// Milliseconds from the caller, at least `least`; more than ten years are ten years.
std::chrono::milliseconds milliseconds_of(std::int64_t number, std::int64_t least, const char* what);

/// What the caller has set of an options struct: its bytes over the `defaults`. Throws InvalidArgument if they are
/// fewer than the first version of the struct had, which is still the present one, or if one that we do not know is not
/// 0.
template <typename Options>
Options merged(const Options* options, const Options& defaults) {
  if (!options) return defaults;
  const std::size_t theirs = options->struct_size;
  if (theirs < sizeof(Options))
    refuse("struct_size is ", theirs, ", but the struct has ", sizeof(Options),
           " bytes or more; call its _init function first");
  const auto* bytes = reinterpret_cast<const unsigned char*>(options);
  for (std::size_t i = sizeof(Options); i < theirs; ++i)
    if (bytes[i] != 0)
      refuse("byte ", i, " of the options is set, but this library (", tutti_version(), ") knows only ",
             sizeof(Options), " bytes of them; load a newer library, or leave that option out");
  Options own = defaults;
  std::memcpy(&own, bytes, std::min(theirs, sizeof(Options)));
  return own;
}

/// Writes as much of `info` as the caller has room for; the same conditions.
template <typename Info>
void hand_out(Info* target, Info info) {
  require(target, "info");
  info.struct_size = target->struct_size;
  if (info.struct_size < sizeof(Info))
    refuse("info->struct_size is ", info.struct_size, "; set it to sizeof(*info), ", sizeof(Info));
  std::memcpy(target, &info, std::min(info.struct_size, sizeof(Info)));
}

}  // namespace tutti::comm::c
