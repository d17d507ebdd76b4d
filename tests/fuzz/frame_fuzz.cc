// decode_frame: any 64 bytes are a header, which encodes to the same bytes again and has a text, or a Protocol error.
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/frame.h>

#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const auto bytes = fuzz::Input(data, size).array<comm::kFrameHeaderBytes>();
  try {
    const comm::FrameHeader header = comm::decode_frame(bytes);
    fuzz::require(comm::encode(header) == bytes, "a decoded header encodes to the same bytes");
    fuzz::require(header.nbytes <= comm::kMaxFrameBytes, "a payload is within the limit");
    fuzz::require(!header.fingerprint.to_string().empty(), "a fingerprint has a text");
  } catch (const comm::Error& error) {
    fuzz::require(error.code() == comm::ErrorCode::Protocol, "bytes that are no header are a protocol error");
  }
  return 0;
}
