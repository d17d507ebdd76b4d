#include <tutti/comm/base/error.h>
#include <tutti/comm/base/reduction.h>
#include <tutti/comm/base/types.h>

namespace tutti::comm {
namespace {

// In the order of the values.
constexpr std::string_view kDTypes[] = {"float32",  "float64", "int32",  "int64",  "uint8", "float16",
                                        "bfloat16", "int8",    "uint16", "uint64", "bool"};
constexpr std::string_view kReduceOps[] = {"sum", "avg", "prod", "min", "max", "band", "bor", "bxor", "user"};
constexpr std::string_view kOpKinds[] = {
    "broadcast", "reduce",    "all_reduce",   "gather", "all_gather",       "scatter",
    "barrier",   "shutdown",  "send",         "recv",   "reduce_scatter",   "all_to_all",
    "gather_v",  "scatter_v", "all_gather_v", "split",  "reduce_scatter_v", "all_to_all_v"};

static_assert(std::size(kDTypes) == static_cast<std::size_t>(kLastDType) + 1);
static_assert(std::size(kReduceOps) == static_cast<std::size_t>(kLastReduceOp) + 1);
static_assert(std::size(kOpKinds) == static_cast<std::size_t>(kLastOpKind) + 1);

template <typename Enum>
std::string_view name_in(std::span<const std::string_view> names, Enum value, std::string_view unknown) {
  const auto index = static_cast<std::size_t>(value);
  return index < names.size() ? names[index] : unknown;
}

}  // namespace

std::string_view name(DType dtype) { return name_in(kDTypes, dtype, "unknown dtype"); }
std::string_view name(ReduceOp op) { return name_in(kReduceOps, op, "unknown reduce op"); }
std::string_view name(OpKind op) { return name_in(kOpKinds, op, "unknown operation"); }

std::string refusal(ReduceOp op, DType dtype) {
  if (is_defined(op, dtype)) return {};
  const std::string what = std::string(name(op)) + " of " + std::string(name(dtype));
  if (op == ReduceOp::User) return what + " has no function; pass a UserOp (reduction.h)";
  if (is_floating_point(dtype)) return what + " is not defined; it needs integers or bool";
  if (dtype == DType::Bool) return what + " is not defined; use sum (or) or prod (and)";
  return what + " has no exact result; use sum and divide as suits you";
}

Reduction::Reduction(UserOp op) : op_(ReduceOp::User) {
  if (op.name.empty()) refuse("a UserOp needs a name, by which ranks compare it");
  if (!op.combine) refuse("the UserOp '", op.name, "' has no function to combine with");
  hash_ = 0x811C9DC5u;
  const auto add = [this](unsigned char byte) { hash_ = (hash_ ^ byte) * 0x01000193u; };
  for (const char c : op.name) add(static_cast<unsigned char>(c));
  add(op.commutative ? 1 : 0);
  user_ = std::make_shared<const UserOp>(std::move(op));
}

std::string Reduction::text() const { return user_ ? " with operator '" + user_->name + "'" : ""; }

}  // namespace tutti::comm
