// What a step says of the cache: its pool's counts, and what sequences do with the positions.
#pragma once

#include <cstdint>

namespace pagedinfer {

// Counted by a KvPool.
struct KvStats {
  int64_t positions_total = 0;     // = leased + reusable + free
  int64_t positions_leased = 0;    // of blocks that leases, or copies yet to be made, hold
  int64_t positions_reusable = 0;  // of blocks without a lease that can still be found
  int64_t positions_saved = 0;     // that leases would hold more if none were shared
  int64_t num_leased = 0;          // blocks, as positions_leased
  int64_t num_evicted = 0;         // blocks that could be found and made room for others, so far
  double utilization() const {
    return positions_total == 0 ? 0.0 : static_cast<double>(positions_leased) / positions_total;
  }
};

// Of the sequences that run.
struct CacheUse {
  int64_t tokens_held = 0;           // positions that hold a token; shared ones count once
  int64_t tokens_served = 0;         // the same, shared ones once for each sequence
  int64_t positions_contiguous = 0;  // that reservations of max_model_len would take
};

}  // namespace pagedinfer
