// Attention tiles for heads of 80 dimensions; a file of its own keeps compilation short.
#include "kernels/attention_tile.cuh"

namespace pagedinfer::kernels {

void launch_tiles_80(const TileArgs& args, cudaStream_t stream) {
  launch_tiles_of<80>(args, stream);
}

}  // namespace pagedinfer::kernels
