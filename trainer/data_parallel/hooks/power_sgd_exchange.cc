#include <tutti/tensor/ops.h>
#include <tutti/tensor/random.h>
#include <tutti/trainer/data_parallel/hooks/low_rank.h>
#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/data_parallel/hooks/power_sgd_exchange.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <span>
#include <utility>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

/// A gradient that is compressed, and where its parts lie.
struct Matrix {
  BucketSlot slot;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  Tensor error;  // (rows, columns): what has not been sent yet; in mid-step the matrix that is sent
  Tensor p;      // (rows, rank), within BucketMemory::first
  Tensor q;      // (rank, columns), within BucketMemory::second
};

/// One bucket's memory. What is sent first needs no answer of others, the second part needs that of the first.
struct BucketMemory {
  std::vector<Matrix> matrices;
  std::vector<std::pair<BucketSlot, Tensor>> whole;  // gradients that are not compressed, within `first`
  Tensor first;
  Tensor second;
};

/// Flat memory that the ranks of a host can reduce in place, dealt out piece by piece.
class Flat {
 public:
  Flat(comm::ProcessGroup& group, std::int64_t count) {
    const auto memory = group.allocate(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(float));
    all_ = Tensor::over(memory.data(), memory.memory, {count}, tensor::DType::Float32);
  }
  const Tensor& all() const { return all_; }
  Tensor take(const tensor::Shape& shape) {
    used_ += shape.numel();
    return all_.narrow(0, used_ - shape.numel(), shape.numel()).reshape(shape);
  }

 private:
  Tensor all_;
  std::int64_t used_ = 0;
};

/// The same numbers on every rank and at every time.
void draw_row(const Matrix& matrix, std::int64_t row) {
  tensor::Mt19937 generator(matrix.slot.parameter * 1000003 + static_cast<std::size_t>(row));
  Tensor q = matrix.q;
  float* const values = q.data<float>() + row * matrix.columns;
  std::generate(values, values + matrix.columns, [&] { return generator.uniform(-1, 1); });
}

void draw_dead_rows(const Matrix& matrix) {
  for (std::int64_t row = 0; row < matrix.rank; ++row) {
    const float* const values = matrix.q.data<float>() + row * matrix.columns;
    // A direction of zeros would stay one: the next step's power iteration begins with it.
    if (std::all_of(values, values + matrix.columns, [](float value) { return value == 0; })) draw_row(matrix, row);
  }
}

class PowerSgdExchange : public GradientExchange {
 public:
  PowerSgdExchange(comm::ProcessGroup& group, const ExchangePlan& plan, const PowerSgdOptions& options)
      : group_(group), works_(group, plan.buckets.size()), shapes_(plan.shapes) {
    for (const Bucket& bucket : plan.buckets) buckets_.push_back(memory_for(bucket, options));
  }

  void begin(std::size_t bucket, Tensor& gradients) override {
    BucketMemory& memory = buckets_[bucket];
    const tensor::KernelTable& kernels = tensor::kernels(gradients.device());
    for (Matrix& matrix : memory.matrices) {
      kernels.add(matrix.error, matrix.error, gradient_of(gradients, matrix.slot).reshape(matrix.error.shape()));
      kernels.gemm(matrix.p, matrix.error, false, matrix.q, true, false);
    }
    for (auto& [slot, place] : memory.whole) place.copy_from(gradient_of(gradients, slot));
    works_.all_reduce(bucket, as_buffer(memory.first));
  }

  void finish(std::size_t bucket, Tensor& gradients) override {
    if (bucket == 0) {  // all buckets have begun
      for (std::size_t b = 0; b < buckets_.size(); ++b) begin_second_part(b);
    }
    works_.wait(bucket);
    const BucketMemory& memory = buckets_[bucket];
    for (const Matrix& matrix : memory.matrices) {
      Tensor to = gradient_of(gradients, matrix.slot);
      product(to.data<float>(), matrix.p.data<float>(), matrix.q.data<float>(), matrix.rows, matrix.rank,
              matrix.columns);
      draw_dead_rows(matrix);
    }
    for (const auto& [slot, place] : memory.whole) gradient_of(gradients, slot).copy_from(place);
  }

  void abandon() noexcept override { works_.abandon(); }
  bool sums_elementwise() const override { return false; }
  std::string name() const override { return "powersgd"; }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (const BucketMemory& memory : buckets_) {
      for (const Matrix& matrix : memory.matrices) {
        const std::string index = std::to_string(matrix.slot.parameter);
        all.emplace_back(index + ".error", matrix.error);
        all.emplace_back(index + ".q", matrix.q);
      }
    }
    return all;
  }

 private:
  static Tensor gradient_of(const Tensor& bucket, const BucketSlot& slot) {
    return bucket.narrow(0, static_cast<std::int64_t>(slot.offset), static_cast<std::int64_t>(slot.count));
  }

  Matrix matrix_of(const BucketSlot& slot, int rank) const {
    Matrix matrix{.slot = slot, .error = {}, .p = {}, .q = {}};
    const tensor::Shape& shape = shapes_[slot.parameter];
    if (shape.rank() < 2 || slot.count == 0) return matrix;
    matrix.rows = shape[0];
    matrix.columns = shape.numel() / shape[0];
    matrix.rank = std::min({std::int64_t{rank}, matrix.rows, matrix.columns});
    return matrix;
  }

  BucketMemory memory_for(const Bucket& bucket, const PowerSgdOptions& options) {
    BucketMemory memory;
    std::int64_t first = 0;
    std::int64_t second = 0;
    for (const BucketSlot& slot : bucket.slots) {
      Matrix matrix = matrix_of(slot, options.rank);
      const auto thin = static_cast<double>(matrix.rank * (matrix.rows + matrix.columns));
      if (matrix.rank == 0 || static_cast<double>(slot.count) < options.saving * thin) {
        memory.whole.emplace_back(slot, Tensor());
        first += static_cast<std::int64_t>(slot.count);
      } else {
        first += matrix.rows * matrix.rank;
        second += matrix.rank * matrix.columns;
        memory.matrices.push_back(std::move(matrix));
      }
    }
    Flat first_part(group_, first);
    Flat second_part(group_, second);
    for (Matrix& matrix : memory.matrices) {
      matrix.error = Tensor::zeros({matrix.rows, matrix.columns});
      matrix.p = first_part.take({matrix.rows, matrix.rank});
      matrix.q = second_part.take({matrix.rank, matrix.columns});
      for (std::int64_t row = 0; row < matrix.rank; ++row) draw_row(matrix, row);
    }
    for (auto& [slot, place] : memory.whole) place = first_part.take({static_cast<std::int64_t>(slot.count)});
    memory.first = first_part.all();
    memory.second = second_part.all();
    return memory;
  }

  void begin_second_part(std::size_t bucket) {
    works_.wait(bucket);
    BucketMemory& memory = buckets_[bucket];
    for (Matrix& matrix : memory.matrices) {
      float* const p = matrix.p.data<float>();
      orthonormalise_columns(p, matrix.rows, matrix.rank);
      tensor::kernels(matrix.p.device()).gemm(matrix.q, matrix.p, true, matrix.error, false, false);
      subtract_product(matrix.error.data<float>(), p, matrix.q.data<float>(), matrix.rows, matrix.rank, matrix.columns);
    }
    if (!memory.matrices.empty()) works_.all_reduce(bucket, as_buffer(memory.second));
  }

  comm::ProcessGroup& group_;
  PendingWorks works_;
  std::vector<tensor::Shape> shapes_;  // by parameter
  std::vector<BucketMemory> buckets_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_power_sgd_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                          const PowerSgdOptions& options) {
  return std::make_unique<PowerSgdExchange>(group, plan, options);
}

}  // namespace tutti::trainer
