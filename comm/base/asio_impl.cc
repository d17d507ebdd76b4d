// The one translation unit that compiles Asio (ASIO_SEPARATE_COMPILATION); everybody else only sees declarations.
#include <asio/impl/src.hpp>
