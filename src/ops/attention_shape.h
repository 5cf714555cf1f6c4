#pragma once

#include <vector>

namespace pagedinfer {

// What the attention of a model's layers has in common, and the windows that they have, each once
// (AttentionArgs).
struct AttentionShape {
  int heads = 0, kv_heads = 0, head_dim = 0;
  std::vector<int> windows = {0};

  int group() const { return kv_heads > 0 ? heads / kv_heads : 1; }  // heads of a KV head
};

}  // namespace pagedinfer
