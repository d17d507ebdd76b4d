// The gradient of a convolution's weights: a sum over chunks of pixels, which stay in the cache for all taps
// (conv_chunk_sums.h), for blocks of channels times panels of outputs.
//
// Threads share the parts of the weights. Where the weights are few, and so the parts, chunks are summed in sections
// that threads take as well, each the images that it has worked on in the layers around, and the sections are added at
// the end. Chunks, sections and the order of both depend on the extents alone, so the result does not depend on the
// threads. As an exact sum (exact_sum.h) it is one over images: a chunk holds one at most, and each image's sums are
// added to float64 ones. Where an image has few pixels for all these additions, it is one over pixels, in float64.
#include <tutti/tensor/cpu/conv.h>
#include <tutti/tensor/cpu/conv_chunk_sums.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/exact_sum.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace tutti::tensor::cpu {
namespace {

bool begins_image(const Chunk& chunk) { return chunk.rows.begin == 0; }

// Chunks in sections that begin with an image. At most four: each costs memory, and an addition, for all weights.
class Sections {
 public:
  Sections(std::span<const Chunk> chunks, const WeightExtents& weights)
      : chunks_(chunks),
        beginnings_(std::count_if(chunks.begin(), chunks.end(), begins_image)),
        cut_(beginnings_, longest(beginnings_, weights)) {}

  /// One at least, be it empty.
  std::int64_t count() const { return std::max<std::int64_t>(1, cut_.parts); }

  std::span<const Chunk> chunks(std::int64_t section) const {
    if (chunks_.empty()) return {};
    const std::size_t per_beginning = chunks_.size() / static_cast<std::size_t>(beginnings_);
    return chunks_.subspan(static_cast<std::size_t>(cut_.first(section)) * per_beginning,
                           static_cast<std::size_t>(cut_.size(section)) * per_beginning);
  }

 private:
  static std::int64_t longest(std::int64_t beginnings, const WeightExtents& weights) {
    constexpr std::int64_t kFewWeights = std::int64_t{1} << 18;
    const std::int64_t sections = weights.numel() <= kFewWeights ? 4 : 1;
    return std::max<std::int64_t>(1, (beginnings + sections - 1) / sections);
  }

  std::span<const Chunk> chunks_;
  std::int64_t beginnings_;
  EvenParts cut_;  // of the beginnings
};

// R is double for an exact sum over images, else T. With a `start` it is an exact sum over pixels.
template <typename T, typename R>
class WeightGradient {
 public:
  WeightGradient(const Tensor& x, const Tensor& dy, const ConvExtents& extents, std::int64_t group, T start)
      : w_(extents.weights()),
        images_(kByImage ? 1 : images_of_chunk(extents)),
        start_(start),
        chunks_(chunks_of(extents, images_)),
        sections_(chunks_, w_),
        blocks_(w_.channels, w_.taps, parts_wanted((vectors() + kPanelVectors - 1) / kPanelVectors)),
        panels_(w_.outputs, panel_width()),
        products_(x, dy, extents, group, images_, start) {}

  void compute(R* dw, bool accumulate) const {
    const std::int64_t parts = blocks_.count() * panels_.count();
    const bool whole = sections_.count() == 1;
    Tensor sums = Tensor::empty({whole ? 0 : sections_.count() * parts * sums_size()}, float_type<R>());
    const auto sums_of = [&](std::int64_t unit) { return sums.data<R>() + unit * sums_size(); };
    parallel_for(sections_.count() * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      Memory memory(*this, whole);
      std::optional<RoundDown> down;
      if (start_ != 0) down.emplace();
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const WeightPart part = weight_part(unit % parts);
        R* const to = whole ? memory.sums.template data<R>() : sums_of(unit);
        sum(sections_.chunks(unit / parts), part, memory, to);
        if (whole) unpack_outputs(dw, to, w_, in_vectors_of_result(part), accumulate);
      }
    });
    if (whole) return;
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        for (std::int64_t section = 1; section < sections_.count(); ++section) {
          add(sums_of(p), sums_of(section * parts + p), sums_count(weight_part(p)));
        }
        unpack_outputs(dw, sums_of(p), w_, in_vectors_of_result(weight_part(p)), accumulate);
      }
    });
  }

 private:
  static constexpr bool kByImage = !std::is_same_v<R, T>;

  // One thread's.
  struct Memory {
    Memory(const WeightGradient& of, bool whole)
        : products(of.products_, of.blocks_.longest()),
          sums(Tensor::empty({whole ? of.sums_size() : 0}, float_type<R>())),
          of_image(Tensor::empty({kByImage ? of.sums_size() : 0}, float_type<T>())) {}
    typename ChunkSums<T>::Memory products;
    Tensor sums;
    Tensor of_image;  // which is to be part of an exact sum
  };

  std::int64_t vectors() const { return (w_.outputs + Simd<T>::kLanes - 1) / Simd<T>::kLanes; }

  // How many blocks of channels give every thread a part, or how many panels, when there are so many of the others.
  // What an element is does not depend on the cut.
  std::int64_t parts_wanted(std::int64_t others) const {
    const std::int64_t units = sections_.count() * std::max<std::int64_t>(1, others);
    return (num_threads() + units - 1) / units;
  }

  // Narrower panels where there are too few channels to cut.
  std::int64_t panel_width() const {
    const std::int64_t panels = parts_wanted(blocks_.count());
    return std::clamp<std::int64_t>((vectors() + panels - 1) / panels, 1, kPanelVectors);
  }

  WeightPart weight_part(std::int64_t part) const {
    const std::int64_t block = part / panels_.count();
    const std::int64_t panel = part % panels_.count();
    return {panels_.first(panel), panels_.vectors(panel), blocks_.first(block), blocks_.size(block)};
  }

  std::int64_t sums_size() const { return w_.taps * blocks_.longest() * kPanelVectors * Simd<T>::kLanes; }
  std::int64_t sums_count(const WeightPart& part) const { return w_.taps * part.depth * columns_of<T>(part); }

  // The same columns.
  static WeightPart in_vectors_of_result(WeightPart part) {
    part.vectors = columns_of<T>(part) / Simd<R>::kLanes;
    return part;
  }

  void sum(std::span<const Chunk> chunks, const WeightPart& part, Memory& memory, R* sums) const {
    const std::int64_t count = sums_count(part);
    if (chunks.empty() || kByImage) std::fill_n(sums, count, R{0});
    for (const Chunk& chunk : chunks) {
      if constexpr (kByImage) {
        T* const of_image = memory.of_image.template data<T>();
        products_.add(chunk, part, memory.products, of_image, !begins_image(chunk));
        if (ends_image(chunk)) add_rounded(sums, of_image, count);
      } else {
        products_.add(chunk, part, memory.products, sums, &chunk != &chunks.front());
      }
    }
  }

  bool ends_image(const Chunk& chunk) const { return chunk.rows.end == chunks_.back().rows.end; }

  static void add(R* to, const R* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
  }

  static void add_rounded(R* to, const T* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) to[i] += rounded(static_cast<R>(from[i]));
  }

  WeightExtents w_;
  std::int64_t images_;  // of a chunk at most
  T start_;
  std::vector<Chunk> chunks_;
  Sections sections_;
  DepthBlocks<T> blocks_;
  Panels<T> panels_;
  ChunkSums<T> products_;
};

}  // namespace

void conv2d_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvWindow& window, bool accumulate) {
  if (dw.numel() == 0) return;
  const ConvExtents extents(x, dw, dy, window);
  const bool exact = dw.dtype() != x.dtype();
  if (is_depthwise(extents)) {
    return depthwise_conv2d_weight_gradient(dw, dy.to(dw.dtype()), x.to(dw.dtype()), extents, accumulate, exact);
  }
  const auto compute = [&]<typename T, typename R>(const Tensor& input, const Tensor& gradient, T start) {
    for (std::int64_t group = 0; group < extents.groups; ++group) {
      R* const of_group = dw.data<R>() + group * extents.weights().numel();
      WeightGradient<T, R>(input, gradient, extents, group, start).compute(of_group, accumulate);
    }
  };
  constexpr std::int64_t kFewPixels = 32;  // float64 products of so many cost what rounding their sums does
  if (exact && extents.vertical.output * extents.horizontal.output < kFewPixels) {
    return compute.template operator()<double, double>(x.to(dw.dtype()), dy.to(dw.dtype()), kExactStart);
  }
  if (exact) return compute.template operator()<float, double>(x, dy, 0);
  with_float_type(dw.dtype(), [&]<typename T>() { compute.template operator()<T, T>(x, dy, T{0}); });
}

}  // namespace tutti::tensor::cpu
