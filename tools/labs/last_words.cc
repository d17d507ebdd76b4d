#include <signal.h>
#include <sys/wait.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/last_words.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>

#include <cstring>

namespace tutti::labs {
namespace {

std::string in_function(const Whereabouts& where) {
  return "rank " + std::to_string(where.rank) + (where.function.empty() ? "" : ", in " + where.function + "(),");
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* meaning = sigdescr_np(signal);
  return (meaning == nullptr ? "a signal" : std::string(meaning)) + " (" +
         (name == nullptr ? std::to_string(signal) : "SIG" + std::string(name)) + ")";
}

// An access to, or beyond, one of the buffers of the call.
Incident buffer_incident(const protocol::FaultReport& fault, const BufferContent& buffer, const Whereabouts& where) {
  const auto element_bytes = static_cast<std::int64_t>(where.element_bytes);
  const auto elements = static_cast<std::int64_t>(buffer.bytes.size()) / element_bytes;
  const std::int64_t element =
      fault.offset >= 0 ? fault.offset / element_bytes : -((-fault.offset + element_bytes - 1) / element_bytes);
  const char* verb = fault.is_write != 0 ? " writes to " : " reads ";
  const std::string target = "element " + std::to_string(element) + " of " + buffer.name;
  if (fault.offset >= 0 && element < elements && buffer.is_const) {
    return {diagnosis::kInputChanged,
            in_function(where) + verb + target + ", which is not to be changed" + where.after(), where.rank};
  }
  std::string has = ", which has " + std::to_string(elements) + " elements (0 .. " + std::to_string(elements - 1) + ")";
  if (elements == 0) has = ", which is empty on this rank";
  return {diagnosis::kOutsideBuffer, in_function(where) + verb + target + has + where.after(), where.rank};
}

}  // namespace

std::string Whereabouts::after() const {
  return last_call.empty() ? "; it has made no call yet" : "; its last call was a " + last_call;
}

Incident incident_of(const protocol::FaultReport& fault, const Whereabouts& where) {
  if (fault.buffer >= 0 && fault.call >= 0 && where.buffers != nullptr) {
    const std::size_t number =
        static_cast<std::size_t>(fault.call) * where.buffers_per_call + static_cast<std::size_t>(fault.buffer);
    if (number < where.buffers->size()) return buffer_incident(fault, (*where.buffers)[number], where);
  }
  std::string text = in_function(where) + " crashed: " + signal_text(fault.signal);
  if (fault.is_stack != 0) text += " at the end of its stack: a function that calls itself for ever?";
  if (fault.is_stack == 0 && fault.signal == SIGSEGV && fault.address < 4096) text += ", a null pointer";
  return {diagnosis::kCrash, text + where.after(), where.rank};
}

Incident incident_of(const protocol::RefusalReport& refusal, const Whereabouts& where) {
  const RefusedCall call = refused_call(refusal.number, refusal.arguments[0]);
  std::string path(refusal.path, strnlen(refusal.path, sizeof refusal.path));
  std::string text = in_function(where) + " " + (call.meaning.empty() ? "makes a system call" : call.meaning);
  if (!path.empty()) text += " \"" + path + "\"";
  text += " (" + call.name + "): the grader's sandbox refuses that and has stopped it" + where.after();
  return {call.diagnosis, text, where.rank};
}

Incident incident_of_end(int wait_status, const Whereabouts& where) {
  if (WIFEXITED(wait_status)) {
    return {diagnosis::kEarlyExit,
            in_function(where) + " ended the whole process with status " + std::to_string(WEXITSTATUS(wait_status)) +
                " instead of returning" + where.after(),
            where.rank};
  }
  const int signal = WTERMSIG(wait_status);
  if (signal == SIGSYS) {
    return {
        diagnosis::kForbidden,
        in_function(where) + " was stopped by the grader's sandbox for a system call that it refuses" + where.after(),
        where.rank};
  }
  if (signal == SIGXCPU) {
    return {diagnosis::kEndlessLoop, in_function(where) + " used up its processor time" + where.after(), where.rank};
  }
  return {diagnosis::kCrash, in_function(where) + " crashed: " + signal_text(signal) + where.after(), where.rank};
}

Incident incident_of_exception(const std::string& text, const Whereabouts& where) {
  if (text == "std::bad_alloc") {
    return {diagnosis::kOutOfMemory,
            in_function(where) + " wants more memory than the grader gives a rank (256 MiB)" + where.after(),
            where.rank};
  }
  return {diagnosis::kThrew, in_function(where) + " threw an exception: " + text + where.after(), where.rank};
}

}  // namespace tutti::labs
