#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/tools/labs/grade.h>
#include <tutti/tools/labs/show/library_play.h>
#include <tutti/tools/labs/show/play_recorder.h>
#include <tutti/tools/labs/show/show_lab.h>
#include <tutti/tools/labs/tasks/task.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tutti::labs {
namespace {

/// A slow network, so that messages of a few elements cost about as much as their start: one element takes 4 us to send
/// and 1 us to add.
NetworkSettings slow_network(bool is_eager) {
  NetworkSettings network;
  network.alpha = 10e-6;
  network.beta = 0.5e-6;
  network.gamma = 0.125e-6;
  network.eager_bytes = is_eager ? std::size_t{1} << 20 : 0;
  return network;
}

Case posed_for(const Lab& lab, const ShowOptions& options) {
  Case posed;
  posed.world_size = options.world_size;
  posed.root = options.root;
  posed.type = ElementType::UInt64;
  posed.op = Combination::Sum;
  posed.network = slow_network(options.is_eager);
  const auto ranks = static_cast<std::size_t>(options.world_size);
  posed.count = options.count.value_or(lab.function != "all_reduce" ? 4 : ranks <= 4 ? 2 * ranks : ranks);
  if (lab.function == "barrier") posed.count = 0;
  if (lab.function == "all_reduce_many") {
    posed.counts = {3, 5, 2, 4};
    posed.parameter = 8 * sizeof(std::uint64_t);
  }
  return posed;
}

void require_sense(const Lab& lab, const ShowOptions& options) {
  if (!can_show(lab)) throw std::invalid_argument("the lab " + lab.name + " has no messages to show");
  if (options.world_size < 1 || options.world_size > kMostPlayRanks) {
    throw std::invalid_argument("--ranks " + std::to_string(options.world_size) + ": 1 to " +
                                std::to_string(kMostPlayRanks) + " can be shown");
  }
  if (options.root < 0 || options.root >= options.world_size) {
    throw std::invalid_argument("--root " + std::to_string(options.root) + ": there are ranks 0 to " +
                                std::to_string(options.world_size - 1));
  }
  if (options.count.value_or(0) > kMostPlayWords) {
    throw std::invalid_argument("--count " + std::to_string(*options.count) + ": at most " +
                                std::to_string(kMostPlayWords) + " elements can be shown");
  }
}

/// The lab's own algorithm, if it is named after one: "ring".
std::string algorithm_for(const Lab& lab, const ShowOptions& options) {
  if (!options.algorithm.empty()) return options.algorithm;
  const auto names = comm::algorithms::names_for(comm::OpKind::AllReduce);
  return std::find(names.begin(), names.end(), lab.name) == names.end() ? "" : lab.name;
}

/// Elements that say whose they are, in the place of the grader's own.
Question traced_question(const std::string& function, const Case& posed) {
  Question question = pose(function, posed, true);
  for (int rank = 0; rank < posed.world_size; ++rank) {
    for (BufferContent& buffer : question.buffers[static_cast<std::size_t>(rank)]) {
      if (buffer.name == "output" || buffer.name == "incoming") continue;  // not written yet
      for (std::size_t i = 0; i < buffer.bytes.size() / sizeof(std::uint64_t); ++i) {
        const std::uint64_t word = play_word(rank, i, posed.world_size);
        std::memcpy(buffer.bytes.data() + i * sizeof word, &word, sizeof word);
      }
    }
  }
  return question;
}

/// Compiles and runs; sets page.student or page.failure.
void run_submission(const Lab& lab, const std::filesystem::path& source, const Case& posed,
                    const std::function<void(const std::string&)>& progress, ShowPage& page) {
  Report report;
  const auto compiled = opened(source, {lab.function}, progress, report);
  if (report.failure) {
    page.failure = report.failure->text;
    for (const std::string& note : report.notes) page.failure += "\n" + note;
    return;
  }
  if (progress) progress("running");
  const Question question = traced_question(lab.function, posed);
  PlayRecorder recorder(question);
  const RunResult result = compiled->submission->run(question, &recorder);
  page.student = recorder.take(result);
  if (page.library) page.student->bound_seconds = page.library->bound_seconds;
}

std::string setting_of(const Lab& lab, const ShowOptions& options, const Case& posed) {
  std::string text = counted(static_cast<std::size_t>(posed.world_size), "rank");
  if (lab.function == "all_reduce_many") {
    text += ", tensors of 3, 5, 2 and 4 elements, buckets of 8";
  } else if (lab.function != "barrier") {
    text += ", " + counted(posed.count, "element") + " each";
  }
  if (lab.function == "reduce" || lab.function == "broadcast") text += ", root " + std::to_string(posed.root);
  return text + ". On this network a message takes 10 us and 4 us for each element; adding an element takes 1 us. " +
         (options.is_eager ? "A send does not wait for its receiver." : "A send waits for its receiver.");
}

}  // namespace

bool can_show(const Lab& lab) { return library_can_play(lab.function); }

ShowPage show_lab(const Lab& lab, const std::filesystem::path& folder, const ShowOptions& options,
                  const std::function<void(const std::string&)>& progress) {
  require_sense(lab, options);
  const Case posed = posed_for(lab, options);
  ShowPage page{.lab = lab.name, .setting = setting_of(lab, options, posed)};
  page.library = library_play(lab.function, posed, algorithm_for(lab, options));
  run_submission(lab, folder / (lab.name + ".cc"), posed, progress, page);
  return page;
}

}  // namespace tutti::labs
