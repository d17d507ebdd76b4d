// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected): the checksum of TFRecord files. Pure function.
// Source: RFC 3720, appendix B.4, whose examples are in the test.
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::trainer {

std::uint32_t crc32c(std::string_view bytes);

}  // namespace tutti::trainer
