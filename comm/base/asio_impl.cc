// The one translation unit that compiles Asio (ASIO_SEPARATE_COMPILATION); all others only see declarations.
#include <asio/impl/src.hpp>
