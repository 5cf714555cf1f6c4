// What becomes of a model's weights on a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "ops/backend_info.h"

namespace pagedinfer {

// What --quantize asks for; nullopt: auto. has_codes: the checkpoint has codes of 4 bits. Throws
// Error if the device cannot multiply so.
Quantization choose_quantization(std::optional<Quantization> asked, bool has_codes,
                                 const BackendInfo& backend);

// "codes", as --quantize has it.
std::string_view name_of(Quantization quantize);
// "weights in int8", or empty where they are as the checkpoint has them. has_codes: as above.
// num_merged: quantized matrices that an adapter changes, which become `compute` if others keep
// their codes.
std::string weights_text(Quantization quantize, bool has_codes, int64_t num_merged, DType compute);

}  // namespace pagedinfer
