// Courier: Variables that travel to another rank, and gradients that travel back.
//
//   rank 0                                        rank 1
//   Courier courier(group);                       Courier courier(group);
//   Variable h = first->forward(x);               Variable h = courier.receive(0);
//   Variable sent = courier.send(h, 1);           Variable loss = cross_entropy(second->forward(h), y);
//   sent.backward();   // waits for dloss/dh      loss.backward();   // sends dloss/dh to rank 0
//   courier.flush();                              courier.flush();
//
// Sending never waits for the receiver, so no order of sends on two ranks can block both; receiving does, up to the
// group's timeout. Two ranks exchange Variables in the order they were sent, and gradients in the order in which the
// receiver runs its backward passes: the sender runs its own in the same order. Values arrive on the device cpu, of the
// shape and type they had; a gradient of another shape is impossible, as it belongs to a recorded operation.
//
// A Variable with tag t uses the messages of tags t and ~t of its group.
// Ownership: keeps what is on its way alive; the group must outlive the courier and all that it recorded. Errors:
// comm::Error. Thread-safety: that of the group, whose point-to-point messages it uses.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/autograd/variable.h>

#include <cstdint>
#include <memory>

namespace tutti::trainer {

class Courier {
 public:
  explicit Courier(comm::ProcessGroup& group);
  /// Waits until nothing reads the tensors on their way any more; errors are dropped (flush() reports them).
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Posts x. The result is a () Variable of x's type whose backward() waits for the gradient of x from `destination`
  /// and goes on from there; it records nothing where x does not.
  tensor::Variable send(const tensor::Variable& x, int destination, int tag = 0);

  /// Waits for what `source` sends. Backward through the result posts the gradient to `source`.
  tensor::Variable receive(int source, int tag = 0);

  /// Returns when everything posted has been taken. Throws the first error.
  void flush();

  /// How many gradients were posted so far: whether a backward pass reached what was received.
  std::int64_t gradients_posted() const;

 private:
  struct State;
  struct SendNode;
  struct ReceiveNode;
  std::shared_ptr<State> state_;
};

}  // namespace tutti::trainer
