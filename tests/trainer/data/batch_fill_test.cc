#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/data/batch_fill.h>

#include <vector>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Tensor;

// 2 x 3 pixels of two channels; element e of sample i is 40 i + e.
ImageDataset small_set() {
  ImageDataset dataset{.images = Tensor::empty({4, 2, 3, 2}, DType::UInt8),
                       .labels = Tensor::from<std::int64_t>({4}, {3, 1, 0, 2}),
                       .name = "small",
                       .classes = 4};
  for (std::int64_t i = 0; i < 48; ++i) {
    dataset.images.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(40 * (i / 12) + i % 12);
  }
  return dataset;
}

TEST(BytesToUnit, EqualsDivisionForEveryByteAtEveryPlaceOfAVector) {
  for (std::size_t offset = 0; offset < 67; ++offset) {
    std::vector<std::uint8_t> bytes(offset + 256);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(i - offset);
    }
    std::vector<float> values(bytes.size());
    bytes_to_unit(bytes.data(), values.data(), static_cast<std::int64_t>(bytes.size()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(values[i], static_cast<float>(bytes[i]) / 255.0F) << "byte " << int{bytes[i]};
    }
  }
}

TEST(BatchFill, GathersRowsAndLabels) {
  const BatchFill fill(small_set(), {});
  std::vector<float> x(3 * 12);
  std::vector<std::int64_t> y(3);
  fill(std::vector<std::int64_t>{2, 0, 2}, x.data(), y.data());
  EXPECT_EQ(y, (std::vector<std::int64_t>{0, 3, 0}));
  for (std::size_t e = 0; e < 12; ++e) {
    EXPECT_EQ(x[e], static_cast<float>(80 + e) / 255.0F);
    EXPECT_EQ(x[12 + e], static_cast<float>(e) / 255.0F);
    EXPECT_EQ(x[24 + e], x[e]);
  }
}

TEST(BatchFill, NormalisesEachChannel) {
  const BatchFill fill(small_set(), {.mean = {0.5F, 0.25F}, .deviation = {0.3F, 2.0F}});
  std::vector<float> x(12);
  std::int64_t y = 0;
  fill(std::vector<std::int64_t>{1}, x.data(), &y);
  for (std::size_t e = 0; e < 12; ++e) {
    const float unit = static_cast<float>(40 + e) / 255.0F;
    EXPECT_EQ(x[e], e % 2 == 0 ? (unit - 0.5F) / 0.3F : (unit - 0.25F) / 2.0F);
  }
}

TEST(BatchFill, AnIndexOutsideTheSetIsNamed) {
  const BatchFill fill(small_set(), {});
  std::vector<float> x(24);
  std::vector<std::int64_t> y(2);
  EXPECT_EQ(error_of([&] {
              fill(std::vector<std::int64_t>{0, 4}, x.data(), y.data());
            }),
            "data set 'small': the sampler asks for sample 4, but there are only samples 0 to 3");
  EXPECT_EQ(error_of([&] { fill(std::vector<std::int64_t>{-1}, x.data(), y.data()); }),
            "data set 'small': the sampler asks for sample -1, but there are only samples 0 to 3");
}

TEST(BatchFill, RefusesTensorsThatDoNotFit) {
  ImageDataset dataset = small_set();
  dataset.labels = Tensor::zeros({3}, DType::Int64);
  EXPECT_EQ(
      error_of([&] { BatchFill(dataset, {}); }),
      "data set 'small': images are uint8 (4, 2, 3, 2) and labels int64 (3), expected contiguous uint8 (N, H, W, C) "
      "and int64 (N)");
  dataset.labels = Tensor();
  EXPECT_THROW(BatchFill(dataset, {}), std::invalid_argument);
  dataset = small_set();
  dataset.images = Tensor::zeros({4, 12}, DType::UInt8);
  EXPECT_THROW(BatchFill(dataset, {}), std::invalid_argument);
}

TEST(BatchFill, RefusesANormalisationThatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              BatchFill(small_set(), {.mean = {0.5F}, .deviation = {1, 1}});
            }),
            "normalisation: 1 means and 2 deviations for images of 2 channels, expected one of each per channel");
  EXPECT_EQ(error_of([] {
              BatchFill(small_set(), {.mean = {0, 0}, .deviation = {1, 0}});
            }),
            "normalisation: the deviation of channel 1 is 0, expected another number");
}

TEST(BatchFill, AugmentsByTheKeyOfTheRow) {
  const Augmentation all{.flip_horizontal = true, .flip_vertical = true, .rotate = false};
  for (const Normalisation& normalisation : {Normalisation{}, {.mean = {0.5F, 0.25F}, .deviation = {0.3F, 2.0F}}}) {
    const BatchFill plain(small_set(), normalisation);
    const BatchFill fill(small_set(), normalisation, all);
    const std::vector<std::int64_t> indices{2, 0, 2};
    const std::vector<std::int64_t> keys{-5, 17, 123456789012345};
    std::vector<float> x(3 * 12);
    std::vector<std::int64_t> y(3);
    fill(indices, x.data(), y.data(), keys);
    EXPECT_EQ(y, (std::vector<std::int64_t>{0, 3, 0}));
    for (std::size_t i = 0; i < 3; ++i) {  // each row alone is what it is in the batch
      std::vector<float> alone(12);
      std::int64_t label = 0;
      fill(std::span(indices).subspan(i, 1), alone.data(), &label, std::span(keys).subspan(i, 1));
      EXPECT_EQ(alone, std::vector<float>(x.begin() + static_cast<std::ptrdiff_t>(12 * i),
                                          x.begin() + static_cast<std::ptrdiff_t>(12 * i + 12)));
    }
  }
}

TEST(BatchFill, RefusesAnAugmentationThatDoesNotFit) {
  EXPECT_EQ(error_of([] { BatchFill(small_set(), {}, {.rotate = true}); }),
            "data set 'small': its pictures are 2 high and 3 wide, but quarter turns need square ones");
  const BatchFill fill(small_set(), {}, {.flip_vertical = true});
  std::vector<float> x(12);
  std::int64_t y = 0;
  EXPECT_EQ(error_of([&] { fill(std::vector<std::int64_t>{1}, x.data(), &y); }),
            "augmentation of 1 samples with 0 keys, expected one for each");
}

}  // namespace
}  // namespace tutti::trainer
