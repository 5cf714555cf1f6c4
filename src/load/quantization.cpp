#include "load/quantization.h"

#include <fmt/format.h>

#include "core/check.h"
#include "core/error.h"
#include "core/refusal.h"

namespace pagedinfer {

Quantization choose_quantization(std::optional<Quantization> asked, bool has_codes,
                                 const BackendInfo& backend) {
  if (asked == Quantization::kInt4 && !backend.keeps_codes) {
    throw Error(
        fmt::format("--quantize int4: {} has no products in 4 bits; expected auto, none or "
                    "int8, or --device cpu",
                    backend.device));
  }
  const Quantization wanted = asked.value_or(Quantization::kCodes);
  if (wanted != Quantization::kCodes) return wanted;
  return has_codes && backend.keeps_codes ? Quantization::kCodes : Quantization::kNone;
}

std::string_view name_of(Quantization quantize) {
  switch (quantize) {
    case Quantization::kNone: return "none";
    case Quantization::kCodes: return "codes";
    case Quantization::kInt8: return "int8";
    case Quantization::kInt4: return "int4";
  }
  CHECK(false);
}

std::string weights_text(Quantization quantize, bool has_codes, int64_t num_merged, DType compute) {
  if (quantize == Quantization::kNone) {
    return has_codes ? "weights dequantized from the checkpoint's codes" : "";
  }
  if (quantize != Quantization::kCodes) return fmt::format("weights in {}", name_of(quantize));
  if (num_merged == 0) return "weights in the checkpoint's codes";
  return fmt::format("weights in the checkpoint's codes, but {} of the adapter in {}",
                     counted(num_merged, "matrix", "matrices"), name_of(compute));
}

}  // namespace pagedinfer
