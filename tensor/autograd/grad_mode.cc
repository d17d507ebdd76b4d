#include <tutti/tensor/autograd/variable.h>

#include <utility>

namespace tutti::tensor {
namespace {

thread_local bool recording = true;

}  // namespace

NoGrad::NoGrad() : previous_(std::exchange(recording, false)) {}

NoGrad::~NoGrad() { recording = previous_; }

bool grad_enabled() { return recording; }

}  // namespace tutti::tensor
