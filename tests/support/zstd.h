// Compresses bytes as zstd does.
#pragma once

#include <zstd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace pagedinfer {

// The bytes as one frame. `window_log` 0: as the level has it.
inline std::string zstd(std::string_view bytes, int level = 3, int window_log = 0,
                        bool has_checksum = true) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, has_checksum);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, window_log == 0);
  if (window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string packed(ZSTD_compressBound(bytes.size()) + 64, '\0');
  // Streamed, so that the frame does not say how large the contents are.
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer out = {packed.data(), packed.size(), 0};
  if (window_log != 0) ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush);
  if (ZSTD_compressStream2(context, &out, &in, ZSTD_e_end) != 0) std::abort();
  packed.resize(out.pos);
  ZSTD_freeCCtx(context);
  return packed;
}

}  // namespace pagedinfer
