// What a rank's process said, or left behind, when it ended: in sentences. Pure functions.
#pragma once

#include <tutti/tools/labs/driver/protocol.h>
#include <tutti/tools/labs/referee.h>

#include <string>

namespace tutti::labs {

/// How sentences about a rank begin and end.
struct Whereabouts {
  int rank = 0;
  std::string function;
  std::string last_call;                                // "recv of 12 elements from rank 1"; empty: none yet
  const std::vector<BufferContent>* buffers = nullptr;  // of the rank, all calls
  std::size_t buffers_per_call = 0;
  std::size_t element_bytes = 1;

  std::string after() const;  // "; its last call was ...", "; it has made no call yet"
};

Incident incident_of(const protocol::FaultReport& fault, const Whereabouts& where);
Incident incident_of(const protocol::RefusalReport& refusal, const Whereabouts& where);

/// Of a process that ended without a word, by its wait status.
Incident incident_of_end(int wait_status, const Whereabouts& where);

Incident incident_of_exception(const std::string& text, const Whereabouts& where);

}  // namespace tutti::labs
