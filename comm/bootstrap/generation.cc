#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

namespace tutti::comm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Generation, number, first_size, master_addr, master_port, job_id, workers)

namespace {

using nlohmann::json;

constexpr char kNewestKey[] = "elastic/newest";
constexpr char kBegunKey[] = "elastic/begun";
constexpr char kFailedKey[] = "elastic/failed";

std::string generation_key(int number) { return "elastic/generation/" + std::to_string(number); }
std::string left_key(int number) { return "elastic/left/" + std::to_string(number); }
std::string entered_key(const std::string& worker) { return "elastic/entered/" + worker; }
std::string member_key(const std::string& worker) { return "elastic/member/" + worker; }

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool has(Store& control, const std::string& key, Deadline deadline) { return control.check({&key, 1}, deadline); }

std::optional<int> number_at(Store& control, const std::string& key, Deadline deadline) {
  if (!has(control, key, deadline)) return std::nullopt;
  const std::string text = control.get(key, deadline);
  if (const auto number = decimal<int>(text); number && *number >= 0) return number;
  throw Error(ErrorCode::Protocol, "the control store's key ", key, " holds \"", printable(text, 80),
              "\", which no launcher of this version writes");
}

/// Lines "<worker> <why>"; none where the key is not there.
std::vector<WorkerReason> reasons_at(Store& control, const std::string& key, Deadline deadline) {
  std::vector<WorkerReason> result;
  if (!has(control, key, deadline)) return result;
  for (const std::string& line : split(control.get(key, deadline), '\n')) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) result.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return result;
}

}  // namespace

std::string WorkerId::text() const { return joined(node, ".", slot, ".", incarnation); }

WorkerId WorkerId::from_text(const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& word : split(text, '.'))
    if (const auto number = decimal<int>(word); number.value_or(-1) >= 0) numbers.push_back(*number);
  WorkerId id;
  if (numbers.size() == 3) id = {numbers[0], numbers[1], numbers[2]};
  if (numbers.size() != 3 || id.text() != text) {
    refuse("worker id '", printable(text, 80), "': expected NODE.SLOT.INCARNATION, as in 0.3.1");
  }
  return id;
}

std::string to_text(const Generation& generation) { return json(generation).dump(); }

Generation generation_from_text(const std::string& text) {
  try {
    const json read = json::parse(text);
    const auto result = read.get<Generation>();
    for (const std::string& worker : result.workers) WorkerId::from_text(worker);
    const bool whole = json(result) == read;  // no number was cut to fit, and nothing is there that this version misses
    if (whole && result.number >= 0 && result.first_size >= 1 && !result.workers.empty()) return result;
  } catch (const std::exception&) {
  }
  throw Error(ErrorCode::Protocol, "the control store's record of a generation is \"", printable(text, 400),
              "\", which no launcher of this version writes");
}

std::optional<World> place_in(const Generation& generation, const std::string& worker, const std::string& job_secret) {
  const auto found = std::find(generation.workers.begin(), generation.workers.end(), worker);
  if (found == generation.workers.end()) return std::nullopt;
  World world;
  world.rank = static_cast<int>(found - generation.workers.begin());
  world.world_size = static_cast<int>(generation.workers.size());
  world.local_world_size = 0;
  const int node = WorkerId::from_text(worker).node;
  for (int rank = 0; rank < world.world_size; ++rank) {
    if (WorkerId::from_text(generation.workers[static_cast<std::size_t>(rank)]).node != node) continue;
    if (rank < world.rank) ++world.local_rank;
    ++world.local_world_size;
  }
  world.master_addr = generation.master_addr;
  world.master_port = generation.master_port;
  world.job_id = generation.job_id;
  world.job_secret = job_secret;
  world.launcher_owns_store = true;
  world.detected_from = "generation " + std::to_string(generation.number) + " of the launcher's control store";
  return world;
}

void publish_generation(Store& control, const Generation& generation, Deadline deadline) {
  const std::optional<int> newest = number_at(control, kNewestKey, deadline);
  if (newest && *newest >= generation.number) {
    refuse("generation ", generation.number, " cannot follow generation ", *newest);
  }
  const std::vector<std::string> keys{generation_key(generation.number), kNewestKey};
  const std::vector<std::string> values{to_text(generation), std::to_string(generation.number)};
  control.multi_set(keys, values, deadline);
}

bool is_member(Store& control, const std::string& worker, Deadline deadline) {
  return has(control, member_key(worker), deadline);
}

int entered_generation(Store& control, const std::string& worker, Deadline deadline) {
  return number_at(control, entered_key(worker), deadline).value_or(-1);
}

std::vector<WorkerReason> left_generation(Store& control, int number, Deadline deadline) {
  return reasons_at(control, left_key(number), deadline);
}

std::vector<WorkerReason> failed_for_good(Store& control, Deadline deadline) {
  return reasons_at(control, kFailedKey, deadline);
}

GenerationMember::GenerationMember(std::shared_ptr<Store> control, std::string worker, std::string job_secret,
                                   Deadline deadline)
    : control_(std::move(control)), worker_(WorkerId::from_text(worker).text()), job_secret_(std::move(job_secret)) {
  present_.number = -1;
  control_->set(member_key(worker_), "pid " + std::to_string(::getpid()), deadline);
}

std::unique_ptr<GenerationMember> GenerationMember::from_environment(Deadline deadline,
                                                                     const Environment& environment) {
  const auto control = environment("TUTTI_CONTROL");
  if (!control || control->empty()) return nullptr;
  const auto worker = environment("TUTTI_WORKER");
  if (!worker) {
    refuse("TUTTI_CONTROL is set to '", printable(*control, 80),
           "' but TUTTI_WORKER is not; an elastic launcher sets both");
  }
  const auto place = parse_host_and_port(*control);
  if (!place) {
    refuse("TUTTI_CONTROL is '", printable(*control, 80),
           "', but must be HOST:PORT of an elastic launcher's control store");
  }
  const std::string secret = job_secret(environment);
  TcpStoreOptions options;
  std::tie(options.host, options.port) = *place;
  options.job_id = environment("TUTTI_JOB_ID").value_or("default");
  options.job_secret = secret;
  auto member =
      std::make_unique<GenerationMember>(std::make_shared<TcpStore>(options, deadline), *worker, secret, deadline);
  member->control_host_ = place->first;
  return member;
}

World GenerationMember::next(Deadline deadline) {
  for (;;) {
    control_->get(generation_key(present_.number + 1), deadline);
    const int newest = number_at(*control_, kNewestKey, deadline).value();  // published together with its record
    present_ = generation_from_text(control_->get(generation_key(newest), deadline));
    auto world = place_in(present_, worker_, job_secret_);
    if (world && world->master_addr.empty()) world->master_addr = control_host_;
    had_place_ = had_place_ || world;
    if (world) {
      control_->set(entered_key(worker_), std::to_string(newest), deadline);
      return *world;
    }
    if (had_place_) break;  // else it was started before its first generation
  }
  throw Error(ErrorCode::Aborted, "worker ", worker_, " has no place in generation ", present_.number,
              ": the launcher took it for lost and the job goes on without it");
}

void GenerationMember::leave(const std::string& reason, Deadline deadline) {
  control_->append(left_key(present_.number), worker_ + " " + printable(one_line(reason)) + "\n", deadline);
}

void GenerationMember::fail_for_good(const std::string& reason, Deadline deadline) noexcept {
  try {
    control_->append(kFailedKey, worker_ + " " + printable(one_line(reason)) + "\n", deadline);
  } catch (const std::exception&) {  // this process reports the reason itself
  }
}

void GenerationMember::set_begun(Deadline deadline) { control_->set(kBegunKey, "yes", deadline); }

bool GenerationMember::has_begun(Deadline deadline) { return has(*control_, kBegunKey, deadline); }

bool GenerationMember::newer_exists(Deadline deadline) {
  return has(*control_, generation_key(present_.number + 1), deadline);
}

}  // namespace tutti::comm
