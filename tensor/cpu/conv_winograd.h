// 3x3 convolutions with a quarter of the multiplications. Private to tensor/cpu.
//
// The result is cut into squares of 4x4 pixels, each of which reads 6x6. Both, and the 3x3 weights, are transformed
// (winograd_transforms.h) so that the convolution becomes 36 products of numbers: 2.25 a pixel in place of 9. With
// channels each of the 36 is a matrix product, (squares, channels read) times (channels read, channels computed), which
// gathered_product.h computes. The gradient of the input is the same pass over the result's gradient with the weights
// turned by half a turn and their channels exchanged. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2015, https://arxiv.org/abs/1509.09308; this is its F(4x4, 3x3) with other points.
//
//   1. All weights are transformed: 36 O C numbers, four times the weights, in the order in which they are read.
//   2. Squares are taken 48 at a time, so that between the steps they stay in the second-level cache: what they read is
//      transformed (36 numbers a channel); for each panel of columns there are 36 products, and their sums are
//      transformed back, and bias and relu applied, on the way to the result.
//
// Nothing of a square depends on the other squares, so an image's bits depend neither on its batch nor on the threads.
//
// Error: sums of 64 channels are added up, as longer ones lose more. On inputs of random numbers the largest error is
// about the direct path's, 1e-6 of the largest result (the textbook's points: 1e-5). What is outside of a pixel's own
// window does not reach it but by rounding; an infinity becomes NaN in the whole square, and NaN does as well.
//
// When it wins. Beside the products it has to transform the weights, whatever the batch; an image must not change with
// its batch, so the choice is a function of the other extents, and the worst case counts: one image alone. Times of the
// direct path / of this one on one core of an AMD EPYC (AVX-512, 1 MiB of second-level cache), forward, padding 1:
//
//   channels   side  1 image  many images        channels   side  1 image  many images
//    64,  64     4     0.78    32: 1.5             256, 256     4      -      32: 1.2    direct
//    64,  64     7     0.90    32: 1.5    direct   256, 256     8     0.99     8: 1.6    direct
//    64,  64     8     1.26                        256, 256    14     1.05     4: 1.6
//    64,  64    16     2.1     32: 2.2             256, 256    28     2.2
//   128, 128     8     1.25    32: 2.3             512, 512    14     1.1      4: 1.5
#pragma once

#include <tutti/tensor/cpu/conv.h>

namespace tutti::tensor::cpu {

/// 3x3, stride 1, dilation 1, one group, any padding: what the functions below can compute.
bool winograd_fits(const ConvExtents& extents);
/// Whether they are the faster way. Does not depend on the batch, the threads or the type.
bool winograd_wins(const ConvExtents& extents);
bool winograd_wins_backward(const ConvExtents& extents);

/// Contracts as the entries of ops.h without "winograd". Precondition: winograd_fits.
void winograd_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                     bool relu);
void winograd_conv2d_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents,
                                    bool accumulate);

}  // namespace tutti::tensor::cpu
