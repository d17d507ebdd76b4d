#include <signal.h>
#include <sys/wait.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/last_words.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>

#include <cstring>

namespace tutti::labs {
namespace {

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  const char* meaning = sigdescr_np(signal);
  return (meaning == nullptr ? "a signal" : std::string(meaning)) + " (" +
         (name == nullptr ? std::to_string(signal) : "SIG" + std::string(name)) + ")";
}

/// "rank 2, in reduce(), WHAT; its last call was a ...".
Incident incident(const char* diagnosis, const Whereabouts& where, const std::string& what) {
  const std::string function = where.function.empty() ? "" : ", in " + where.function + "(),";
  return {diagnosis, "rank " + std::to_string(where.rank) + function + ' ' + what + where.after(), where.rank};
}

// An access to, or beyond, one of the buffers of the call.
Incident buffer_incident(const protocol::FaultReport& fault, const BufferContent& buffer, const Whereabouts& where) {
  const auto element_bytes = static_cast<std::int64_t>(where.element_bytes);
  const auto elements = static_cast<std::int64_t>(buffer.bytes.size()) / element_bytes;
  const std::int64_t element =
      fault.offset >= 0 ? fault.offset / element_bytes : -((-fault.offset + element_bytes - 1) / element_bytes);
  const std::string access =
      (fault.is_write != 0 ? "writes to element " : "reads element ") + std::to_string(element) + " of " + buffer.name;
  if (fault.offset >= 0 && element < elements && buffer.is_const) {
    return incident(diagnosis::kInputChanged, where, access + ", which is not to be changed");
  }
  if (elements == 0) return incident(diagnosis::kOutsideBuffer, where, access + ", which is empty on this rank");
  return incident(diagnosis::kOutsideBuffer, where,
                  access + ", which has " + counted(static_cast<std::size_t>(elements), "element") + " (0 .. " +
                      std::to_string(elements - 1) + ")");
}

}  // namespace

std::string Whereabouts::after() const {
  return last_call.empty() ? "; it has made no call yet"
                           : std::string("; its last call was ") + (last_call[0] == 'i' ? "an " : "a ") + last_call;
}

Incident incident_of(const protocol::FaultReport& fault, const Whereabouts& where) {
  if (fault.buffer >= 0 && fault.call >= 0 && where.buffers != nullptr) {
    const std::size_t number =
        static_cast<std::size_t>(fault.call) * where.buffers_per_call + static_cast<std::size_t>(fault.buffer);
    if (number < where.buffers->size()) return buffer_incident(fault, (*where.buffers)[number], where);
  }
  std::string text = "crashed: " + signal_text(fault.signal);
  if (fault.is_stack != 0) text += " at the end of its stack: a function that calls itself for ever?";
  if (fault.is_stack == 0 && fault.signal == SIGSEGV && fault.address < 4096) text += ", a null pointer";
  return incident(diagnosis::kCrash, where, text);
}

Incident incident_of(const protocol::RefusalReport& refusal, const Whereabouts& where) {
  const RefusedCall call = refused_call(refusal.number, refusal.arguments[0]);
  const std::string path(refusal.path, strnlen(refusal.path, sizeof refusal.path));
  return incident(call.diagnosis.c_str(), where,
                  (call.meaning.empty() ? "makes a system call" : call.meaning) +
                      (path.empty() ? "" : " \"" + path + "\"") + " (" + call.name +
                      "): the grader's sandbox refuses that and has stopped it");
}

Incident incident_of_end(int wait_status, const Whereabouts& where) {
  if (WIFEXITED(wait_status)) {
    return incident(
        diagnosis::kEarlyExit, where,
        "ended the whole process with status " + std::to_string(WEXITSTATUS(wait_status)) + " instead of returning");
  }
  const int signal = WTERMSIG(wait_status);
  if (signal == SIGSYS) {
    return incident(diagnosis::kForbidden, where,
                    "was stopped by the grader's sandbox for a system call that it refuses");
  }
  if (signal == SIGXCPU) return incident(diagnosis::kEndlessLoop, where, "used up its CPU time");
  return incident(diagnosis::kCrash, where, "crashed: " + signal_text(signal));
}

Incident incident_of_exception(const std::string& text, const Whereabouts& where) {
  if (text == "std::bad_alloc") {
    return incident(diagnosis::kOutOfMemory, where, "wants more memory than the grader gives a rank (256 MiB)");
  }
  return incident(diagnosis::kThrew, where, "threw an exception: " + text);
}

}  // namespace tutti::labs
