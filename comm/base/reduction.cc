#include <tutti/comm/base/error.h>
#include <tutti/comm/base/reduction.h>

namespace tutti::comm {

Reduction::Reduction(UserOp op) : op_(ReduceOp::User) {
  if (op.name.empty()) throw Error(ErrorCode::InvalidArgument, "a UserOp needs a name, by which ranks compare it");
  if (!op.combine)
    throw Error(ErrorCode::InvalidArgument, "the UserOp '" + op.name + "' has no function to combine with");
  hash_ = 0x811C9DC5u;
  const auto add = [this](unsigned char byte) { hash_ = (hash_ ^ byte) * 0x01000193u; };
  for (const char c : op.name) add(static_cast<unsigned char>(c));
  add(op.commutative ? 1 : 0);
  user_ = std::make_shared<const UserOp>(std::move(op));
}

std::string Reduction::text() const { return user_ ? " with operator '" + user_->name + "'" : ""; }

}  // namespace tutti::comm
