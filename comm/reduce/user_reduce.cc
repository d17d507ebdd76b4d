#include <tutti/comm/base/error.h>
#include <tutti/comm/reduce/user_reduce.h>

#include <cstring>

namespace tutti::comm {

void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, const UserOp& op,
                 bool incoming_first, std::vector<std::byte>& spare) {
  if (count == 0) return;
  try {
    if (!incoming_first) return op.combine(target, incoming, count, dtype);
    // Even if the operator is commutative: two ranks that hold each other's operands must get equal bits.
    const std::size_t nbytes = count * size_of(dtype);
    if (spare.size() < nbytes) spare.resize(nbytes);
    std::memcpy(spare.data(), incoming, nbytes);
    op.combine(spare.data(), target, count, dtype);
    std::memcpy(target, spare.data(), nbytes);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::Operator, "the operator '" + op.name + "' threw: " + error.what());
  } catch (...) {
    throw Error(ErrorCode::Operator, "the operator '" + op.name + "' threw something that is no std::exception");
  }
}

}  // namespace tutti::comm
