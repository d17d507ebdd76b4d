// The course's first program, with a training loop of one's own: MNIST, 784-50-10, Adam. (programs.md, row 1)
//
//   tutti run -n 4 build/release/bin/examples/own_loop
//
// `tutti train mnist` does the same with checkpoints, records and resuming; write your own where it has not what you
// need. Without MNIST's files it learns generated digits.
#include <tutti/nn/activation.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tools/examples/example.h>
#include <tutti/tools/examples/toy.h>
#include <tutti/trainer/data/digits.h>
#include <tutti/trainer/data/loader.h>
#include <tutti/trainer/data/mnist.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/evaluate.h>

#include <cstdio>

namespace {

using namespace tutti;

trainer::ImageDataset dataset(trainer::Split split) {
  const auto folder = trainer::find_mnist(trainer::DataSearch::from_environment({}));
  return folder ? trainer::load_mnist(*folder, split) : trainer::generate_digits(split);
}

void own_loop(comm::ProcessGroup& group, std::int64_t epochs, std::int64_t batch_size) {
  tensor::Mt19937 generator(0);
  const auto model = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Flatten>(), std::make_shared<nn::Linear>(784, 50, generator), std::make_shared<nn::ReLU>(),
      std::make_shared<nn::Linear>(50, 10, generator)});
  const auto optimizer = nn::make_adam(examples::parameters_of(*model), {.learning_rate = 0.001});
  trainer::DataParallel parallel(model, group);

  // Each rank sees its part of the training set, in another order in every epoch, and its part of the test set.
  const trainer::ImageDataset train = dataset(trainer::Split::Train), test = dataset(trainer::Split::Test);
  const int rank = group.rank(), ranks = group.world_size();
  trainer::Loader batches(train,
                          std::make_shared<trainer::DistributedSampler>(
                              trainer::SamplerOptions{.count = train.count(), .replicas = ranks, .rank = rank}),
                          {.batch_size = batch_size});
  trainer::Loader tests(test, std::make_shared<trainer::EvaluationSampler>(test.count(), ranks, rank),
                        {.batch_size = 256});

  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    batches.begin_epoch(epoch);
    double loss = 0;
    for (trainer::Batch batch; batches.next(batch);) {
      optimizer->zero_grad();
      const tensor::Variable output = parallel.forward(tensor::Variable(batch.x));
      const tensor::Variable batch_loss = tensor::cross_entropy(output, batch.y);
      parallel.backward(batch_loss, 1.0 / ranks);  // ranks' batches are equally large
      parallel.finish();                           // the gradients are the mean over all ranks' samples now
      optimizer->step();
      loss += batch_loss.data().item() / static_cast<double>(batches.batches_per_epoch());
    }
    group.all_reduce(std::span<double>(&loss, 1), comm::ReduceOp::Avg);
    const trainer::Evaluation result = trainer::evaluate(group, *model, trainer::Objective::Classify, tests);
    if (rank > 0) continue;
    std::printf("epoch %lld  loss %.4f  test accuracy %.4f  [%s]\n", static_cast<long long>(epoch + 1), loss,
                result.confusion.accuracy(), test.name.c_str());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t epochs = 5, batch_size = 64;
  return examples::run(argc, argv, {{"--epochs", epochs, "[5]"}, {"--batch-size", batch_size, "of each rank [64]"}},
                       [&](comm::ProcessGroup& group) { own_loop(group, epochs, batch_size); });
}
