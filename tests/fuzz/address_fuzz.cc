// The addresses that ranks publish in the store: any text is an address:port that can be written again, or an error.
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/tcp/socket_util.h>

#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  try {
    const auto endpoint = comm::parse_endpoint(fuzz::Input(data, size).text());
    fuzz::require(comm::parse_endpoint(comm::to_string(endpoint)) == endpoint, "what is written is read again");
  } catch (const comm::Error& error) {
    fuzz::require(error.code() == comm::ErrorCode::InvalidArgument, "other texts are invalid arguments");
  }
  return 0;
}
