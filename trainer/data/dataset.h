// ImageDataset: a labelled image set held in memory, as bytes; the loader turns rows into floats.
#pragma once

#include <tutti/tensor/tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::trainer {

struct ImageDataset {
  tensor::Tensor images{};  // uint8 (N, H, W, C)
  tensor::Tensor labels{};  // int64 (N), each in [0, classes)
  std::string name{};       // "mnist train", "generated digits test": for outputs and errors
  bool generated = false;   // drawn by code, not real data; every output says so
  int classes = 0;
  std::string checksum{};                  // of images and labels; empty before task.h has computed it
  std::vector<std::string> class_names{};  // by label; empty: the labels speak for themselves

  std::int64_t count() const { return labels.defined() ? labels.numel() : 0; }
};

enum class Split { Train, Test };
inline const char* name(Split split) { return split == Split::Train ? "train" : "test"; }

}  // namespace tutti::trainer
