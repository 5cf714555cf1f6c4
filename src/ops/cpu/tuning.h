#pragma once

namespace pagedinfer {

// What is fast on this processor. No bit depends on it.
struct Tuning {
  // Products with packed weights or codes have tiles that widen fewer weights: the processor shifts
  // and masks vectors on the ports that multiply them, as Intel's do.
  bool tall_tiles = false;
  // How many bytes of the first-level cache the prefetched codes may fill. AMD's processors read
  // weights fastest if they come to it shortly before their use: their own prefetcher then runs
  // ahead. 0: codes are prefetched to the second level, from a larger distance.
  int near_bytes = 0;
};
Tuning tuning_of_processor();

}  // namespace pagedinfer
