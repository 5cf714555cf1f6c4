// Attention tiles for heads of 128 dimensions; a file of its own keeps compilation short.
#include "kernels/attention_tile.cuh"

namespace pagedinfer::kernels {

void launch_tiles_128(const TileArgs& args, cudaStream_t stream) {
  launch_tiles_of<128>(args, stream);
}

}  // namespace pagedinfer::kernels
