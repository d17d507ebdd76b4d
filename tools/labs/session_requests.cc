// What the ranks ask for, request by request. Everything in them is checked: it comes from a submission's process.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/session.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::labs {
namespace {

constexpr std::size_t kMostOperations = 200'000;               // of one run
constexpr std::size_t kMostInFlight = std::size_t{256} << 20;  // bytes, of one run
constexpr std::size_t kMostOffences = 20;

}  // namespace

Whereabouts Session::whereabouts(int rank) const {
  Whereabouts where;
  where.rank = rank;
  where.last_call = at(rank).last_call;
  where.buffers_per_call = buffers_per_call_;
  if (question_ != nullptr && at(rank).state != State::Starting) {
    where.function = question_->function;
    where.element_bytes = size_of(question_->posed.type);
    where.buffers = &question_->buffers[static_cast<std::size_t>(rank)];
  }
  return where;
}

void Session::protocol_broken(int rank, const std::string& what) {
  fail({diagnosis::kBreaksProtocol,
        "rank " + std::to_string(rank) + " talks to the grader by itself, past send and recv (" + what + ")", rank});
}

void Session::take_messages(int rank) {
  while (!broken_ && (at(rank).state == State::Running || at(rank).state == State::Starting)) {
    std::optional<Message> message = at(rank).link->next();
    if (!message) break;
    handle(rank, *message);
  }
  if (at(rank).link->is_broken()) protocol_broken(rank, "what it wrote is no request");
}

void Session::handle(int rank, Message& message) {
  using enum protocol::Verb;
  const protocol::Request& request = message.request;
  Rank& one = at(rank);
  if ((one.state == State::Starting) != (request.verb == Ready) && request.verb != Refused && request.verb != Fault) {
    return protocol_broken(rank, "a request out of turn");
  }
  if (network_ && one.state == State::Running) network_->combine(rank, std::min(request.combined_bytes, kMostInFlight));
  switch (request.verb) {
    case Ready:
      one.state = State::Ready;
      if (rank == 0) registered_.assign(message.payload.begin(), message.payload.end());
      return;
    case Send:
    case Receive:
    case StartSend:
    case StartReceive:
    case Wait:
    case Test:
      return handle_post(rank, message);
    case Now: {
      protocol::Reply answer;
      answer.seconds = network_->clock(rank);
      one.state = State::Blocked;
      return reply(rank, answer, {});
    }
    case Forget:
    case Changed:
    case Begin:
    case End:
      return handle_mark(rank, request);
    case Done:
      return take_buffers(rank, message.payload);
    case Threw:
    case Fault:
    case Refused:
      return handle_last_words(rank, message);
    case Snapshot:
    case Combined:
      return handle_trace(rank, message);
  }
  protocol_broken(rank, "an unknown request");
}

bool Session::begin_operation(int rank, Message& message, Network::Operation& operation) {
  const protocol::Request& request = message.request;
  const std::size_t element_bytes = std::clamp<std::size_t>(request.element_bytes, 1, 1 << 20);
  const bool is_send = request.verb == protocol::Verb::Send || request.verb == protocol::Verb::StartSend;
  if (is_send && observer_ != nullptr) observer_->sent(network_->posted(), message.payload);
  const Network::Posted posted =
      is_send ? network_->send(rank, request.peer, request.tag, std::move(message.payload), element_bytes)
              : network_->receive(rank, request.peer, request.tag, request.bytes, element_bytes);
  if (posted.objection) {
    fail({posted.objection->diagnosis, posted.objection->text, rank});
    return false;
  }
  if (network_->posted() > kMostOperations || network_->bytes_in_flight() > kMostInFlight) {
    fail({diagnosis::kTooManyRequests,
          "rank " + std::to_string(rank) + " floods the network: " + std::to_string(network_->posted()) +
              " sends and receives, " + std::to_string(network_->bytes_in_flight() >> 20) + " MiB on their way",
          rank});
    return false;
  }
  operation = posted.operation;
  return true;
}

void Session::handle_post(int rank, Message& message) {
  using enum protocol::Verb;
  const protocol::Request& request = message.request;
  Rank& one = at(rank);
  Network::Operation operation = Network::kNoOperation;
  if (request.verb == Wait || request.verb == Test) {
    const auto found = one.handles.find(request.handle);
    if (found == one.handles.end()) return protocol_broken(rank, "a wait for nothing");
    operation = found->second;
    one.last_call =
        (request.verb == Wait ? "wait() for its " : "is_completed() of its ") + network_->text_of(operation);
  } else {
    one.last_call = call_text(request.verb == Send || request.verb == StartSend,
                              request.verb == StartSend || request.verb == StartReceive, request.bytes,
                              std::max<std::uint32_t>(request.element_bytes, 1), request.peer, request.tag);
    if (!begin_operation(rank, message, operation)) return;
  }
  switch (request.verb) {
    case StartSend:
    case StartReceive:
      one.handles[request.handle] = operation;
      return;
    case Test:
      one.state = State::Blocked;
      network_->poll(rank, operation);
      return;
    default:
      return block(rank, operation, request.verb == Wait ? request.handle : 0);
  }
}

void Session::block(int rank, Network::Operation operation, std::uint64_t handle) {
  Rank& one = at(rank);
  one.state = State::Blocked;
  one.awaited_handle = handle;
  one.blocked_since = network_->clock(rank);
  network_->wait(rank, operation);
}

void Session::resume(int rank, Network::Operation operation) {
  Rank& one = at(rank);
  if (observer_ != nullptr) {
    observer_->waited(rank, network_->source_of(operation), one.blocked_since, network_->clock(rank), one.last_call);
  }
  if (one.awaited_handle != 0) one.handles.erase(one.awaited_handle);
  protocol::Reply answer;
  answer.source = network_->source_of(operation);
  reply(rank, answer, network_->take_message(operation));
}

void Session::reply(int rank, protocol::Reply answer, const Bytes& payload) {
  Rank& one = at(rank);
  answer.payload_bytes = payload.size();
  one.link->queue(&answer, sizeof answer);
  one.link->queue(payload.data(), payload.size());
  one.link->flush();
  one.state = State::Running;
  one.cpu_mark.reset();
  take_messages(rank);  // what it said in advance
}

void Session::handle_mark(int rank, const protocol::Request& request) {
  using enum protocol::Verb;
  const auto r = static_cast<std::size_t>(rank);
  if (request.verb == Begin || request.verb == End) {
    if (request.handle >= calls_) return protocol_broken(rank, "a call that does not exist");
    CallTimes& times = result_.calls[r][request.handle];
    if (request.verb == Begin && r < question_->late.size())
      network_->compute(rank, question_->late[r][request.handle]);
    (request.verb == Begin ? times.begin : times.end) = network_->clock(rank);
    return;
  }
  const auto found = at(rank).handles.find(request.handle);
  if (found == at(rank).handles.end()) return;
  const std::string call = network_->text_of(found->second);
  Incident offence;
  offence.rank = rank;
  if (request.verb == Forget) {
    offence.diagnosis = diagnosis::kNeverWaited;
    offence.text = "rank " + std::to_string(rank) + " never waits for its non-blocking " + call +
                   ": until wait() returns nobody knows whether the message has passed";
    at(rank).handles.erase(found);
  } else {
    offence.diagnosis = diagnosis::kReusedBeforeWait;
    offence.text = "rank " + std::to_string(rank) + " changes element " + std::to_string(request.bytes) +
                   " of the memory of its non-blocking " + call + " before wait()";
  }
  if (result_.offences.size() < kMostOffences) result_.offences.push_back(std::move(offence));
}

void Session::handle_trace(int rank, const Message& message) {
  if (observer_ == nullptr) return protocol_broken(rank, "a trace that nobody asked for");
  const double now = network_->clock(rank);
  if (message.request.verb == protocol::Verb::Combined) {
    const std::uint64_t bytes = std::min(message.request.bytes, kMostInFlight);
    observer_->combined(rank, bytes, now - static_cast<double>(bytes) * question_->posed.network.gamma, now);
  } else {
    observer_->holds(rank, message.request.handle, message.payload, now);
  }
}

void Session::handle_last_words(int rank, const Message& message) {
  const auto as = [&](auto report) {
    std::memcpy(&report, message.payload.data(), std::min(sizeof report, message.payload.size()));
    return report;
  };
  const Whereabouts where = whereabouts(rank);
  switch (message.request.verb) {
    case protocol::Verb::Fault:
      return fail(incident_of(as(protocol::FaultReport{}), where));
    case protocol::Verb::Refused:
      return fail(incident_of(as(protocol::RefusalReport{}), where));
    default:
      return fail(incident_of_exception(std::string(message.payload.begin(), message.payload.end()), where));
  }
}

void Session::take_buffers(int rank, const Bytes& payload) {
  const auto& given = question_->buffers[static_cast<std::size_t>(rank)];
  std::size_t taken = 0;
  std::vector<Bytes> contents;
  for (const BufferContent& buffer : given) {
    const std::size_t bytes = buffer.bytes.size();
    if (payload.size() - taken < bytes) return protocol_broken(rank, "results of another length");
    const auto begin = payload.begin() + static_cast<std::ptrdiff_t>(taken);
    contents.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    taken += bytes;
  }
  if (taken != payload.size()) return protocol_broken(rank, "results of another length");
  result_.buffers[static_cast<std::size_t>(rank)] = std::move(contents);
  at(rank).state = State::Done;
  network_->finish(rank);
}

}  // namespace tutti::labs
