#pragma once

#include "core/chat.h"
#include "request/request_fields.h"

namespace pagedinfer {

// Reads the conversation of an object. REQUIRES: fields.has(key("messages"))
void read_messages(RequestFields& fields, Chat& chat);

// Reads the template's settings, which is everything it gets besides messages.
void read_template_settings(RequestFields& fields, Chat& chat);

}  // namespace pagedinfer
