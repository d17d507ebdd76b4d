#include <tutti/nn/sample_keys.h>
#include <tutti/trainer/train_step.h>

namespace tutti::trainer {

double train_step(DataParallel& parallel, nn::Optimizer& optimizer, Objective objective, const Batch& batch,
                  double share, double label_smoothing) {
  const nn::SampleKeys keys(batch.keys);  // dropout draws for the sample, on whichever rank it is
  optimizer.zero_grad();
  const tensor::Variable output = parallel.forward(tensor::Variable(batch.x));
  const tensor::Variable loss = loss_of(objective, output, batch, label_smoothing);
  parallel.backward(loss, share);
  parallel.finish();
  optimizer.step();
  return loss.data().item();
}

LossSum train_batches(DataParallel& parallel, nn::Optimizer& optimizer, Objective objective, Loader& loader,
                      int world_size, Progress& progress, double label_smoothing) {
  // The sampler gives every rank equally many samples, so batch k has the same size everywhere: local / global is 1 /
  // N, for the short last batch too, and nobody has to ask.
  const double share = 1.0 / world_size;
  LossSum sum;
  for (Batch batch; loader.next(batch);) {
    const double loss = train_step(parallel, optimizer, objective, batch, share, label_smoothing);
    sum.loss += loss * static_cast<double>(batch.count);
    sum.samples += batch.count;
    progress.step(batch.number, loss);
  }
  return sum;
}

}  // namespace tutti::trainer
