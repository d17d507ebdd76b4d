#include <png.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace tutti::trainer {
namespace {

constexpr std::uint64_t kMostPacked = 1032;
constexpr png_alloc_size_t kMaxChunkBytes = 1 << 20;  // of what is not picture data, such as profiles and texts

struct Job {
  const std::uint8_t* next = nullptr;
  std::size_t left = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char text[160] = "";

  ~Job() { png_destroy_read_struct(&png, &info, nullptr); }
};

// The three functions that libpng calls.
[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* const job = static_cast<Job*>(png_get_error_ptr(png));
  std::snprintf(job->text, sizeof job->text, "%s", message);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}
void read_bytes(png_structp png, png_bytep target, std::size_t nbytes) {
  auto* const job = static_cast<Job*>(png_get_io_ptr(png));
  if (nbytes > job->left) png_error(png, "the file ends too early");
  std::memcpy(target, job->next, nbytes);
  job->next += nbytes;
  job->left -= nbytes;
}

// Below are frames that longjmp leaves: no destructors, nothing that must be undone. False: job.text says why.

bool read_header(Job& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_read_info(job.png, job.info);
  return true;
}

// As 8-bit RGB.
bool read_rows(Job& job, std::uint8_t* pixels, std::size_t row_bytes, std::uint32_t height) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_set_strip_16(job.png);
  png_set_palette_to_rgb(job.png);
  png_set_expand_gray_1_2_4_to_8(job.png);
  png_set_strip_alpha(job.png);
  png_set_gray_to_rgb(job.png);
  const int passes = png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  if (png_get_rowbytes(job.png, job.info) != row_bytes) png_error(job.png, "libpng does not turn its kind into RGB");
  for (int pass = 0; pass < passes; ++pass) {
    for (std::uint32_t row = 0; row < height; ++row) png_read_row(job.png, pixels + row * row_bytes, nullptr);
  }
  png_read_end(job.png, nullptr);
  return true;
}

void require(bool done, const Job& job) {
  if (!done) throw DataError(std::string("is not a whole PNG picture: ") + job.text);
}

// deflate packs at most 1032 bytes into one: a header that claims more pixels than the file can hold costs no memory.
void check_claim(const Job& job, std::size_t file_bytes) {
  const std::uint64_t width = png_get_image_width(job.png, job.info);
  const std::uint64_t height = png_get_image_height(job.png, job.info);
  const std::uint64_t bits = std::uint64_t{png_get_bit_depth(job.png, job.info)} * png_get_channels(job.png, job.info);
  const std::uint64_t row_bytes = (width * bits + 7) / 8;
  if (width * height > static_cast<std::uint64_t>(kMaxImagePixels)) return;  // Image::of_size has the word
  if (row_bytes * height / kMostPacked <= file_bytes) return;
  throw DataError("is not a whole PNG picture: its header claims " + std::to_string(width) + " x " +
                  std::to_string(height) + " pixels, more than its " + std::to_string(file_bytes) + " bytes can hold");
}

}  // namespace

Image decode_png(std::span<const std::uint8_t> file) {
  Job job;
  job.next = file.data();
  job.left = file.size();
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  if (job.png != nullptr) job.info = png_create_info_struct(job.png);
  if (job.info == nullptr) throw DataError("libpng could not be started (no memory, or another version)");
  png_set_read_fn(job.png, &job, read_bytes);
  png_set_chunk_malloc_max(job.png, kMaxChunkBytes);
  png_set_user_limits(job.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);             // Image::of_size has the say
  png_set_keep_unknown_chunks(job.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // only what the pixels need
  require(read_header(job), job);
  check_claim(job, file.size());
  Image image = Image::of_size(png_get_image_width(job.png, job.info), png_get_image_height(job.png, job.info));
  const auto row_bytes = static_cast<std::size_t>(image.width * 3);
  require(read_rows(job, image.pixels.data(), row_bytes, static_cast<std::uint32_t>(image.height)), job);
  return image;
}

}  // namespace tutti::trainer
