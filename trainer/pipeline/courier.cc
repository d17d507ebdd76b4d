// A Variable travels as two messages with one tag: a header of kHeaderLength int64 (whether a gradient is wanted, the
// type's number, the rank, the extents, zeros), then the elements. Its gradient travels back as elements alone, under
// the tag's complement, so that ranks may send Variables both ways with one tag.
#include <tutti/tensor/autograd/node.h>
#include <tutti/tensor/ops.h>
#include <tutti/trainer/pipeline/courier.h>
#include <tutti/trainer/tensor_comm.h>

#include <deque>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::trainer {
namespace {

using tensor::Shape;
using tensor::Tensor;
using tensor::Variable;

constexpr std::int64_t kHeaderLength = 3 + tensor::kMaxRank;

Tensor header_of(const Tensor& x, bool wants_gradient) {
  Tensor header = Tensor::zeros({kHeaderLength}, tensor::DType::Int64);
  auto* fields = header.data<std::int64_t>();
  fields[0] = wants_gradient ? 1 : 0;
  fields[1] = static_cast<std::int64_t>(x.dtype());
  fields[2] = x.rank();
  for (int axis = 0; axis < x.rank(); ++axis) fields[3 + axis] = x.shape()[axis];
  return header;
}

/// The tensor that a header announces.
Tensor announced(const Tensor& header, int source) {
  const auto* fields = header.data<std::int64_t>();
  const std::int64_t rank = fields[2];
  const bool fits = fields[1] >= 0 && fields[1] <= static_cast<std::int64_t>(tensor::DType::UInt8) && rank >= 0 &&
                    rank <= tensor::kMaxRank;
  if (!fits) {
    throw std::runtime_error("rank " + std::to_string(source) +
                             " sent a message that announces no tensor (type number " + std::to_string(fields[1]) +
                             ", rank " + std::to_string(rank) +
                             "); does it send with a Courier, and has the tag no other use?");
  }
  return Tensor::empty(Shape(std::span(fields + 3, static_cast<std::size_t>(rank))),
                       static_cast<tensor::DType>(fields[1]));
}

}  // namespace

struct Courier::State {
  explicit State(comm::ProcessGroup& g) : group(g) {}

  struct Letter {
    Tensor payload;
    comm::Work work;
  };

  void post(const Tensor& tensor, int destination, int tag) {
    while (!letters.empty() && letters.front().work.is_completed()) {
      letters.front().work.wait();  // throws what went wrong
      letters.pop_front();
    }
    Letter letter{tensor.contiguous(), {}};
    letter.work = group.isend(as_buffer(letter.payload), destination, tag);
    letters.push_back(std::move(letter));
  }

  comm::ProcessGroup& group;
  std::deque<Letter> letters;
  std::int64_t gradients_posted = 0;
};

// Its output is a scalar that stands for the other rank's use of x; the gradient of x comes from there.
struct Courier::SendNode final : tensor::Node {
  std::shared_ptr<State> state;
  int destination = 0;
  int tag = 0;

  const char* name() const override { return "send"; }
  void release() override {}
  void backward(Tensor, tensor::InputGradients& inputs) override {
    inputs.write(0, [&](Tensor& dx, bool accumulate) {
      Tensor part = accumulate ? Tensor::empty(dx.shape(), dx.dtype(), dx.device()) : dx;
      state->group.recv(as_buffer(part), destination, ~tag);
      if (accumulate) tensor::kernels(dx.device()).add(dx, dx, part);
    });
  }
};

// Without inputs on this rank: backward ends here and goes on there.
struct Courier::ReceiveNode final : tensor::Node {
  std::shared_ptr<State> state;
  int source = 0;
  int tag = 0;

  const char* name() const override { return "receive"; }
  void release() override {}
  void backward(Tensor grad, tensor::InputGradients&) override {
    state->post(grad, source, ~tag);
    ++state->gradients_posted;
  }
};

Courier::Courier(comm::ProcessGroup& group) : state_(std::make_shared<State>(group)) {}

Courier::~Courier() {
  for (State::Letter& letter : state_->letters) {
    try {
      letter.work.wait();  // bounded by the operation's deadline; at once in a group that has failed
    } catch (...) {        // the group keeps the cause for whoever asks
    }
  }
}

Variable Courier::send(const Variable& x, int destination, int tag) {
  const bool record = tensor::must_record({&x});
  state_->post(header_of(x.data(), record), destination, tag);
  state_->post(x.data(), destination, tag);
  Tensor token = Tensor::zeros({}, x.data().dtype());
  if (!record) return Variable(std::move(token));
  auto node = std::make_shared<SendNode>();
  node->state = state_;
  node->destination = destination;
  node->tag = tag;
  return tensor::recorded(std::move(token), std::move(node), {&x});
}

Variable Courier::receive(int source, int tag) {
  Tensor header = Tensor::empty({kHeaderLength}, tensor::DType::Int64);
  state_->group.recv(as_buffer(header), source, tag);
  Tensor x = announced(header, source);
  state_->group.recv(as_buffer(x), source, tag);
  if (header.data<std::int64_t>()[0] == 0 || !tensor::grad_enabled()) return Variable(std::move(x));
  auto node = std::make_shared<ReceiveNode>();
  node->state = state_;
  node->source = source;
  node->tag = tag;
  return tensor::recorded(std::move(x), std::move(node), std::span<const Variable* const>());
}

void Courier::flush() {
  while (!state_->letters.empty()) {
    state_->letters.front().work.wait();
    state_->letters.pop_front();
  }
}

std::int64_t Courier::gradients_posted() const { return state_->gradients_posted; }

}  // namespace tutti::trainer
