// The JSON of a struct, written and read back by the one list that the struct has of its fields.
//
//   struct Point {
//     double x = 0;
//     std::optional<double> weight;
//     static void fields(auto& self, const auto& use) {
//       use("x", self.x);
//       use("weight", self.weight, kLeftOutIfEmpty);
//     }
//   };
//
// nlohmann's Json(point) and json.get<Point>() find to_json and from_json below in a source file that includes both
// headers. A number that is none (NaN, infinite) is null in a text, and comes back as NaN. An optional without a value
// is null; kLeftOutIfEmpty: it, or an empty list, has no key. Both may be null or absent in what is read, and are empty
// then; any other key must be there, or nlohmann's exception says which is not.
#pragma once

#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

namespace tutti::trainer {

inline constexpr bool kLeftOutIfEmpty = true;

template <typename T>
concept HasFields = requires(T& value) {
  T::fields(value, [](const char*, auto&, bool = false) {});
};

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;

template <typename Json, HasFields T>
void to_json(Json& json, const T& value) {
  json = Json::object();
  T::fields(value, [&]<typename Field>(const char* key, const Field& field, bool left_out_if_empty = false) {
    bool empty = false;
    if constexpr (is_optional<Field>) empty = !field.has_value();
    if constexpr (is_list<Field>) empty = field.empty();
    if (empty && left_out_if_empty) return;
    if constexpr (is_optional<Field>) {
      json[key] = empty ? Json() : Json(*field);
    } else {
      json[key] = field;
    }
  });
}

template <typename Json, HasFields T>
void from_json(const Json& json, T& value) {
  T::fields(value, [&]<typename Field>(const char* key, Field& field, bool = false) {
    const auto found = json.find(key);
    const bool absent = found == json.end();
    const bool null = !absent && found->is_null();
    constexpr bool kMayBeEmpty = is_optional<Field> || is_list<Field>;
    if (kMayBeEmpty && (absent || null)) {
      field = {};
    } else if constexpr (is_optional<Field>) {
      field = found->template get<typename Field::value_type>();
    } else if constexpr (std::is_floating_point_v<Field>) {
      field = null ? std::numeric_limits<Field>::quiet_NaN() : json.at(key).template get<Field>();
    } else {
      json.at(key).get_to(field);
    }
  });
}

}  // namespace tutti::trainer
