// DeviceFeed: a loader's batches on the device that trains.
//
// For the CPU a batch is passed through. For a GPU a batch is copied, from page-locked memory in a stream of its own,
// while the one before it is computed on (prefetch). Ownership: the loader must outlive the feed. Thread-safety: none.
// Throws what the loader throws.
#pragma once

#include <tutti/nn/module.h>
#include <tutti/tensor/device.h>
#include <tutti/trainer/data/loader.h>

#include <memory>

namespace tutti::trainer {

/// Where a model's parameters are: the first one's device, the CPU for a model without.
tensor::Device device_of(const nn::Module& model);

class DeviceFeed {
 public:
  DeviceFeed(Loader& loader, tensor::Device device);
  ~DeviceFeed();
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;

  /// As Loader::next: false, and an empty batch, when there is none.
  bool next(Batch& batch);
  /// To be called when a batch's work has been given to the GPU: the next one is loaded and copied meanwhile.
  void prefetch();

 private:
  class Ahead;  // the batch after the last one given out, on its way

  Loader& loader_;
  std::unique_ptr<Ahead> ahead_;  // null for the CPU
};

}  // namespace tutti::trainer
