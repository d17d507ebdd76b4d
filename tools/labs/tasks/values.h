// The elements that ranks are given, what they add up to, and what a wrong element says about the mistake.
//
// Sums of float64, int64 and uint64 in worlds of up to ten ranks are coded: rank r's element i is w 32^r, with a weight
// w of 1 .. 3 that depends on i. The digits of a result to the base 32 are then how often each rank is in it. Whatever
// is computed is exact in every type (small integers), so that no order of combining changes a bit.
//
// Pure functions.
#pragma once

#include <tutti/tools/labs/lab_case.h>
#include <tutti/tools/labs/network.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace tutti::labs {

/// An element of any type: doubles hold those of all types but of 64-bit integers, and these hold small values here.
struct Element {
  double real = 0;            // floating point types
  std::uint64_t integer = 0;  // the others, wrapped to their width

  bool operator==(const Element&) const = default;
};

/// Whether sums of this case are coded, and the weight of an element of them.
inline constexpr int kCodedRanks = 10;
bool is_coded(const Case& posed);
std::int64_t weight_of(std::size_t call, std::size_t index);

Element element_at(const Bytes& bytes, std::size_t index, ElementType type);
void put_element(Bytes& bytes, std::size_t index, ElementType type, const Element& element);
std::string text_of(const Element& element, ElementType type);
bool is_floating(ElementType type);

/// Rank `rank`'s element `index` in call `call` of a reduction.
Element reduction_input(const Case& posed, int rank, std::size_t call, std::size_t index);
Element combined(const Case& posed, std::size_t call, std::size_t index);  // of all ranks

/// Rank `rank`'s element of what is only moved (broadcast, shift); different for all ranks and places in float64.
Element moved_input(const Case& posed, int rank, std::size_t call, std::size_t index);

/// Bytes of `count` elements by `make`.
Bytes array_of(ElementType type, std::size_t count, const std::function<Element(std::size_t)>& make);

/// `bytes` bytes that are not to be read: not-a-number in floating point types.
Bytes unwritten(std::size_t bytes);

/// A mistake: a diagnosis and half a sentence ("rank 2's contribution is missing"); empty if the value says nothing.
struct Explanation {
  std::string diagnosis;
  std::string text;
};
/// Of an element that holds, or was computed from, memory that was not to be read.
std::optional<Explanation> explain_memory(const Bytes& bytes, std::size_t index, ElementType type);
/// Of a coded sum.
std::optional<Explanation> explain_sum(const Case& posed, std::size_t call, std::size_t index, const Element& found);
/// Of an element that was only moved: whose it is.
std::optional<Explanation> explain_moved(const Case& posed, const Element& found);

}  // namespace tutti::labs
