#include <tutti/comm/base/error.h>
#include <tutti/tools/run/reserved_port.h>

#include <cerrno>

namespace tutti::tools {

ReservedPort::ReservedPort(const std::string& address) {
  std::string error;
  const std::vector<comm::Endpoint> found = comm::resolve(address, 0, comm::ResolveFor::Binding, error);
  if (found.empty()) throw comm::Error(comm::ErrorCode::InvalidArgument, "--master-addr '" + address + "': " + error);
  const comm::Endpoint& wanted = found.front();
  const int on = 1;
  socket_ = comm::Socket(::socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket_.get() < 0 || ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(socket_.get(), wanted.address(), wanted.length) != 0) {
    comm::throw_errno("cannot reserve a port on " + address, errno);
  }
  port_ = comm::local_endpoint(socket_.get()).port();
}

}  // namespace tutti::tools
