#include <cstddef>
#include <cstdio>
// jpeglib.h uses FILE and size_t without including them.
#include <jerror.h>
#include <jpeglib.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image.h>

#include <algorithm>
#include <csetjmp>

namespace tutti::trainer {
namespace {

constexpr int kMaxScans = 500;               // of a progressive picture; real ones have about ten
constexpr long kMaxLibraryBytes = 1L << 30;  // what libjpeg may take for itself

struct Job {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char text[JMSG_LENGTH_MAX] = "";

  ~Job() { jpeg_destroy_decompress(&jpeg); }
};

Job& job_of(j_common_ptr jpeg) { return *static_cast<Job*>(jpeg->client_data); }

// What libjpeg calls.
[[noreturn]] void on_error(j_common_ptr jpeg) {
  Job& job = job_of(jpeg);
  jpeg->err->format_message(jpeg, job.text);
  std::longjmp(job.escape, 1);
}

// Warnings of damage are errors: libjpeg would go on with grey or wrong pixels. The pixels are right all the same when
// a file breaks rules of form only, as some cameras' do.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return;
    default:
      on_error(jpeg);
  }
}
void on_output(j_common_ptr) {}
void on_progress(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans) ERREXIT(jpeg, JERR_BAD_PROGRESSION);
}

// Below are frames that longjmp leaves: no destructors, nothing that must be undone. False: job.text says why.

bool read_header(Job& job, std::span<const std::uint8_t> file) {
  if (setjmp(job.escape) != 0) return false;
  jpeg_create_decompress(&job.jpeg);
  jpeg_mem_src(&job.jpeg, file.data(), file.size());
  job.jpeg.progress = &job.progress;
  job.jpeg.mem->max_memory_to_use = kMaxLibraryBytes;
  jpeg_read_header(&job.jpeg, TRUE);
  return true;
}

// PIL's conversion: the same integers. 255 is no ink, as Adobe writes it, and so everybody.
void cmyk_row_to_rgb(const Job& job, const std::uint8_t* row, std::uint8_t* rgb) {
  for (JDIMENSION x = 0; x < job.jpeg.output_width; ++x, row += 4, rgb += 3) {
    const int white = row[3];
    for (int c = 0; c < 3; ++c) {
      const int product = (255 - row[c]) * white + 128;
      rgb[c] = static_cast<std::uint8_t>(std::max(0, white - ((product >> 8) + product) / 256));
    }
  }
}

// `row` has room for one row of CMYK; RGB goes to its place at once.
bool read_rows(Job& job, std::uint8_t* row, std::uint8_t* pixels) {
  if (setjmp(job.escape) != 0) return false;
  jpeg_start_decompress(&job.jpeg);
  while (job.jpeg.output_scanline < job.jpeg.output_height) {
    const std::size_t width_bytes = std::size_t{3} * job.jpeg.output_width;
    std::uint8_t* const rgb = pixels + job.jpeg.output_scanline * width_bytes;
    JSAMPROW target = job.jpeg.out_color_space == JCS_RGB ? rgb : row;
    jpeg_read_scanlines(&job.jpeg, &target, 1);
    if (target != rgb) cmyk_row_to_rgb(job, row, rgb);
  }
  jpeg_finish_decompress(&job.jpeg);
  return true;
}

void require(bool done, const Job& job) {
  if (!done) throw DataError(std::string("is not a whole JPEG picture: ") + job.text);
}

}  // namespace

Image decode_jpeg(std::span<const std::uint8_t> file) {
  Job job;
  job.jpeg.err = jpeg_std_error(&job.errors);
  job.jpeg.client_data = &job;
  job.errors.error_exit = on_error;
  job.errors.emit_message = on_message;
  job.errors.output_message = on_output;
  job.progress.progress_monitor = on_progress;
  require(read_header(job, file), job);
  Image image = Image::of_size(job.jpeg.image_width, job.jpeg.image_height);
  job.jpeg.out_color_space = job.jpeg.num_components == 4 ? JCS_CMYK : JCS_RGB;  // grey is repeated
  std::vector<std::uint8_t> row(static_cast<std::size_t>(image.width * 4));
  require(read_rows(job, row.data(), image.pixels.data()), job);
  return image;
}

}  // namespace tutti::trainer
