// Pictures from strangers: any bytes are a picture whose size fits its pixels, or a reason why not.
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image.h>

#include "fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  try {
    const trainer::Image image = trainer::decode_image({data, size});
    fuzz::require(image.width > 0 && image.height > 0 && image.width <= trainer::kMaxImagePixels / image.height,
                  "the limits");
    fuzz::require(image.pixels.size() == static_cast<std::size_t>(image.width * image.height * 3),
                  "three bytes a pixel");
    fuzz::require(trainer::decode_image({data, size}).pixels == image.pixels, "the same pixels every time");
  } catch (const trainer::DataError& error) {
    fuzz::require(error.what()[0] != '\0', "an error has a text");
  }
  return 0;
}
