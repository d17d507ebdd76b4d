// The one translation unit that compiles Asio (ASIO_SEPARATE_COMPILATION); all others only see declarations.
#include <asio/impl/src.hpp>

namespace tutti::comm {
namespace {

/// Asio's error categories are made before all other objects of static duration, and so destroyed after them: one of
/// these may be a group, which compares errors when it ends.
struct ErrorCategories {
  ErrorCategories() {
    asio::system_category();
    asio::error::get_misc_category();
    asio::error::get_netdb_category();
    asio::error::get_addrinfo_category();
  }
};
[[gnu::init_priority(101)]] const ErrorCategories kMadeFirst;

}  // namespace
}  // namespace tutti::comm
