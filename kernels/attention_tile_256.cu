// Attention tiles for heads of 256 dimensions; a file of its own keeps compilation short.
#include "kernels/attention_tile.cuh"

namespace pagedinfer::kernels {

void launch_tiles_256(const TileArgs& args, cudaStream_t stream) {
  launch_tiles_of<256>(args, stream);
}

}  // namespace pagedinfer::kernels
