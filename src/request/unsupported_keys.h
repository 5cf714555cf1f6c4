#pragma once

#include "request/request_fields.h"

namespace pagedinfer {

// Refuses keys whose values ask for what this version cannot do.
void check_supported(RequestFields& fields);

}  // namespace pagedinfer
