#include "ops/arithmetic.h"

#include "core/check.h"

namespace pagedinfer {

void Arithmetic::add_bias(Tensor x, Tensor bias) {
  for (int64_t i = 0; i < x.rows; ++i) {
    char* const row = static_cast<char*>(x.data) + i * x.stride * size_of(x.dtype);
    add({row, x.dtype, 1, x.cols, x.stride}, bias);
  }
}

void Arithmetic::add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                              Tensor out) {
  add(x, y);
  rms_norm(x, weight, offset, eps, out);
}

void Arithmetic::norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight, float offset,
                                   float eps, Tensor out) {
  rms_norm(y, y_weight, offset, eps, y);
  add_rms_norm(x, y, weight, offset, eps, out);
}

void Arithmetic::gated_matmul(Tensor x, const GatedProducts& products, Tensor next, Tensor& out) {
  static_cast<void>(next);
  CHECK(products.activation != Activation::kClampedSwish);
  const Product both[] = {products.gate, products.up};
  matmul(x, both);
  if (!products.gate_bias.empty()) add_bias(products.gate.out, products.gate_bias);
  if (!products.up_bias.empty()) add_bias(products.up.out, products.up_bias);
  gate(products.gate.out, products.up.out, products.activation, out);
}

void Arithmetic::rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                                     const RopeTables& tables, Tensor slot_mapping, KvLayer cache) {
  if (!norms.q.empty()) rms_norm(q, norms.q, norms.offset, norms.eps, q);
  if (!norms.k.empty()) rms_norm(k, norms.k, norms.offset, norms.eps, k);
  CHECK(norms.limit == 0.0f);
  if (!tables.q.empty()) rope(q, tables.q, cache.head_dim);
  if (!tables.k.empty()) rope(k, tables.k, cache.head_dim);
  write_kv(k, v, slot_mapping, cache);
}

}  // namespace pagedinfer
