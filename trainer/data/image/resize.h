// Antialiased bilinear resize, integer for integer that of PIL's Image.resize((width, height), BILINEAR).
//
// A triangle filter whose support grows with the reduction, so that every source pixel counts: rows first, then
// columns, each in fixed point with 22 fractional bits and rounded to 8 bits between. The scheme is libImaging's
// (https://github.com/python-pillow/Pillow/blob/main/src/libImaging/Resample.c). Pure function; any number of threads.
#pragma once

#include <tutti/trainer/data/image/image.h>

namespace tutti::trainer {

/// REQUIRES: width and height above 0. The image itself when it has that size already.
Image resize(Image image, std::int64_t width, std::int64_t height);

}  // namespace tutti::trainer
