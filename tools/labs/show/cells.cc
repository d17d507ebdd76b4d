#include <tutti/tools/labs/driver/protocol.h>
#include <tutti/tools/labs/show/side.h>

#include <algorithm>

namespace tutti::labs::show {
namespace {

/// "0-2 4": runs of neighbours that are equally often in it.
std::string who(const std::vector<unsigned>& times) {
  if (times.empty()) return "";
  const auto is = [&](unsigned n) { return [n](unsigned one) { return one == n; }; };
  if (std::all_of(times.begin(), times.end(), is(0))) return "nobody";
  if (times.size() > 2 && std::all_of(times.begin(), times.end(), is(1))) return "all";
  std::string text;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < times.size();) {
    const std::size_t first = i;
    while (i < times.size() && times[i] == times[first]) ++i;
    if (times[first] == 0) continue;
    ++runs;
    text += (text.empty() ? "" : " ") + std::to_string(first);
    if (i - first > 1) text += (i - first > 2 ? "-" : " ") + std::to_string(i - 1);
    if (times[first] > 1) text += " x" + std::to_string(times[first]);
  }
  if (runs <= 5) return text;
  return std::to_string(std::count_if(times.begin(), times.end(), [](unsigned n) { return n > 0; })) + " ranks";
}

constexpr std::uint64_t twice(std::uint64_t half) { return half << 32 | half; }

/// Of memory that the driver has marked; empty for an element.
std::string unwritten(std::uint64_t word) {
  if (word == twice(protocol::kPoisonPending)) return "on its way";
  if (word == twice(protocol::kPoisonOutput)) return "unset";
  return word == 0x0101010101010101U * protocol::kHeapFill ? "unset" : "";
}

/// [buffer][rank]: what each holds at the end.
std::vector<std::vector<std::vector<int>>> final_cells(const Side& side) {
  std::vector<std::vector<std::vector<int>>> held;
  for (const ShownBuffer& buffer : side.buffers) held.push_back(buffer.initial);
  for (const Change& change : side.changes) {
    auto& cells = held[static_cast<std::size_t>(change.buffer)][static_cast<std::size_t>(change.rank)];
    if (change.replaces) cells.clear();
    cells.resize(std::max(cells.size(), change.offset + change.cells.size()), -1);
    std::copy(change.cells.begin(), change.cells.end(), cells.begin() + static_cast<std::ptrdiff_t>(change.offset));
  }
  return held;
}

}  // namespace

int Cells::add(std::uint64_t word) {
  const auto [it, is_new] = index_.try_emplace(word, static_cast<int>(cells_.size()));
  if (is_new && !unwritten(word).empty()) {
    cells_.push_back({"?", unwritten(word), ""});
  } else if (is_new) {
    const PlayContent content = play_content(word, world_size_);
    Cell cell{std::to_string(content.value), who(content.times), ""};
    for (const unsigned n : content.times) cell.times += n > 2 ? '+' : static_cast<char>('0' + n);
    cells_.push_back(std::move(cell));
  }
  return it->second;
}

std::vector<Difference> differences(const Side& student, const Side& library) {
  std::vector<Difference> result;
  const auto found = final_cells(student);
  const auto expected = final_cells(library);
  for (std::size_t mine = 0; mine < student.buffers.size(); ++mine) {
    const auto same = std::find_if(library.buffers.begin(), library.buffers.end(), [&](const ShownBuffer& one) {
      return one.name == student.buffers[mine].name && one.name != "own";
    });
    if (same == library.buffers.end()) continue;
    const auto& right = expected[static_cast<std::size_t>(same - library.buffers.begin())];
    for (std::size_t rank = 0; rank < std::min(right.size(), found[mine].size()); ++rank) {
      for (std::size_t i = 0; i < right[rank].size(); ++i) {
        const int cell = i < found[mine][rank].size() ? found[mine][rank][i] : -1;
        if (cell == right[rank][i]) continue;
        result.push_back({static_cast<int>(mine), static_cast<int>(rank), i, cell, right[rank][i]});
      }
    }
  }
  return result;
}

}  // namespace tutti::labs::show
