#include "ir/op.h"

#include "base/error.h"

namespace tessera {

const Attributes::Constant* Attributes::find(std::string_view name) const {
  for (const auto& [key, constant] : list_)
    if (key == name) return &constant;
  return nullptr;
}

int64_t Attributes::integer(std::string_view name, int64_t otherwise) const {
  const Constant* c = find(name);
  if (c == nullptr) return otherwise;
  CHECK(std::holds_alternative<int64_t>(*c), "attribute {} is no integer", name);
  return std::get<int64_t>(*c);
}

double Attributes::number(std::string_view name, double otherwise) const {
  const Constant* c = find(name);
  if (c == nullptr) return otherwise;
  if (const auto* i = std::get_if<int64_t>(c)) return static_cast<double>(*i);
  CHECK(std::holds_alternative<double>(*c), "attribute {} is no number", name);
  return std::get<double>(*c);
}

std::string Attributes::text(std::string_view name) const {
  const Constant* c = find(name);
  CHECK(c != nullptr && std::holds_alternative<std::string>(*c), "no text attribute {}", name);
  return std::get<std::string>(*c);
}

const GroupRef& Attributes::group(std::string_view name) const {
  const Constant* c = find(name);
  CHECK(c != nullptr && std::holds_alternative<GroupRef>(*c), "no group attribute {}", name);
  return std::get<GroupRef>(*c);
}

void Attributes::set(std::string_view name, Constant c) {
  for (auto& [key, constant] : list_)
    if (key == name) {
      constant = std::move(c);
      return;
    }
  list_.emplace_back(name, std::move(c));
}

}  // namespace tessera
