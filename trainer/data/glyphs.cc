#include <tutti/trainer/data/glyphs.h>

#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

constexpr auto kZero = std::to_array<GlyphPoint>({{50, 0, false},
                                                  {67, 7, true},
                                                  {78, 25, true},
                                                  {82, 50, true},
                                                  {78, 75, true},
                                                  {67, 93, true},
                                                  {50, 100, true},
                                                  {33, 93, true},
                                                  {22, 75, true},
                                                  {18, 50, true},
                                                  {22, 25, true},
                                                  {33, 7, true},
                                                  {50, 0, true}});
constexpr auto kOne = std::to_array<GlyphPoint>({{50, 0, false}, {50, 50, true}, {50, 100, true}});
constexpr auto kOneFlag = std::to_array<GlyphPoint>({{30, 22, false}, {52, 0, true}, {52, 100, true}});
constexpr auto kTwo = std::to_array<GlyphPoint>({{20, 25, false},
                                                 {28, 8, true},
                                                 {48, 0, true},
                                                 {68, 6, true},
                                                 {78, 24, true},
                                                 {72, 44, true},
                                                 {50, 66, true},
                                                 {18, 100, true},
                                                 {84, 100, true}});
constexpr auto kThree = std::to_array<GlyphPoint>({{22, 10, false},
                                                   {45, 0, true},
                                                   {68, 6, true},
                                                   {76, 24, true},
                                                   {66, 42, true},
                                                   {42, 48, true},
                                                   {70, 54, true},
                                                   {82, 74, true},
                                                   {70, 94, true},
                                                   {44, 100, true},
                                                   {18, 90, true}});
constexpr auto kFour = std::to_array<GlyphPoint>({{62, 100, false}, {62, 0, true}, {14, 68, true}, {88, 68, true}});
constexpr auto kFourOpen = std::to_array<GlyphPoint>(
    {{24, 0, false}, {20, 52, true}, {80, 52, true}, {74, 10, false}, {70, 55, true}, {66, 100, true}});
constexpr auto kFive = std::to_array<GlyphPoint>({{78, 0, false},
                                                  {30, 0, true},
                                                  {24, 44, true},
                                                  {50, 38, true},
                                                  {74, 48, true},
                                                  {82, 70, true},
                                                  {70, 92, true},
                                                  {44, 100, true},
                                                  {18, 90, true}});
constexpr auto kSix = std::to_array<GlyphPoint>({{70, 4, false},
                                                 {44, 18, true},
                                                 {26, 44, true},
                                                 {20, 70, true},
                                                 {30, 92, true},
                                                 {52, 100, true},
                                                 {74, 92, true},
                                                 {82, 72, true},
                                                 {72, 54, true},
                                                 {50, 48, true},
                                                 {30, 56, true},
                                                 {20, 70, true}});
constexpr auto kSeven = std::to_array<GlyphPoint>({{16, 0, false}, {84, 0, true}, {44, 100, true}});
constexpr auto kSevenBar =
    std::to_array<GlyphPoint>({{16, 0, false}, {84, 0, true}, {44, 100, true}, {34, 50, false}, {76, 50, true}});
constexpr auto kEight = std::to_array<GlyphPoint>({{50, 48, false},
                                                   {28, 38, true},
                                                   {22, 22, true},
                                                   {32, 6, true},
                                                   {50, 0, true},
                                                   {68, 6, true},
                                                   {78, 22, true},
                                                   {72, 38, true},
                                                   {50, 48, true},
                                                   {24, 60, true},
                                                   {16, 78, true},
                                                   {28, 94, true},
                                                   {50, 100, true},
                                                   {72, 94, true},
                                                   {84, 78, true},
                                                   {76, 60, true},
                                                   {50, 48, true}});
constexpr auto kNine = std::to_array<GlyphPoint>({{78, 34, false},
                                                  {66, 48, true},
                                                  {44, 50, true},
                                                  {24, 42, true},
                                                  {20, 24, true},
                                                  {32, 6, true},
                                                  {54, 0, true},
                                                  {74, 10, true},
                                                  {80, 32, true},
                                                  {74, 70, true},
                                                  {60, 100, true}});

}  // namespace

std::span<const GlyphPoint> glyph(int digit, std::uint32_t choice) {
  const bool second = choice % 2 == 1;
  switch (digit) {
    case 0:
      return kZero;
    case 1:
      return second ? std::span<const GlyphPoint>(kOneFlag) : std::span<const GlyphPoint>(kOne);
    case 2:
      return kTwo;
    case 3:
      return kThree;
    case 4:
      return second ? std::span<const GlyphPoint>(kFourOpen) : std::span<const GlyphPoint>(kFour);
    case 5:
      return kFive;
    case 6:
      return kSix;
    case 7:
      return second ? std::span<const GlyphPoint>(kSevenBar) : std::span<const GlyphPoint>(kSeven);
    case 8:
      return kEight;
    case 9:
      return kNine;
    default:
      throw std::invalid_argument("glyph: digit is " + std::to_string(digit) + ", expected 0 to 9");
  }
}

}  // namespace tutti::trainer
