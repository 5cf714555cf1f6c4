// The only list of all operations outside the backends: the name of each in a profile, and its
// work.
#include "ops/intercept.h"

#include <utility>

namespace pagedinfer {
namespace {

class InterceptedArithmetic final : public Arithmetic {
 public:
  InterceptedArithmetic(Arithmetic& inner, Interceptor interceptor)
      : inner_(inner), interceptor_(std::move(interceptor)) {}

  void embed(Tensor table, Tensor tokens, float scale, Tensor out) override {
    around({"embed"}, embed_work(table, tokens, out),
           [&] { inner_.embed(table, tokens, scale, out); });
  }
  void rms_norm(Tensor x, Tensor weight, float offset, float eps, Tensor out) override {
    around({"norm"}, work_of({x, weight, out}),
           [&] { inner_.rms_norm(x, weight, offset, eps, out); });
  }
  void add(Tensor x, Tensor y) override {
    around({"add"}, work_of({x, y, x}), [&] { inner_.add(x, y); });
  }
  void add_rms_norm(Tensor x, Tensor y, Tensor weight, float offset, float eps,
                    Tensor out) override {
    around({"add and norm"}, work_of({x, y, weight, x, out}),
           [&] { inner_.add_rms_norm(x, y, weight, offset, eps, out); });
  }
  void norm_add_rms_norm(Tensor x, Tensor y, Tensor y_weight, Tensor weight, float offset,
                         float eps, Tensor out) override {
    around({"norm, add and norm"}, work_of({x, y, y_weight, weight, x, out}),
           [&] { inner_.norm_add_rms_norm(x, y, y_weight, weight, offset, eps, out); });
  }
  void add_bias(Tensor x, Tensor bias) override {
    around({"add bias"}, work_of({x, bias, x}), [&] { inner_.add_bias(x, bias); });
  }
  void matmul(Tensor x, std::span<const Product> products) override {
    OpName name = {.kind = "matmul", .in = x.cols};
    for (const Product& product : products) name.out += product.weight.rows;
    around(name, matmul_work(x, products), [&] { inner_.matmul(x, products); });
  }
  void scale(Tensor x, float factor) override {
    around({"scale"}, work_of({x, x}), [&] { inner_.scale(x, factor); });
  }
  void softcap(Tensor x, float cap) override {
    around({"softcap"}, work_of({x, x}), [&] { inner_.softcap(x, cap); });
  }
  void rope_table(Tensor positions, Tensor inv_freq, const RopeScale& scale, Tensor out) override {
    around({"rope table"}, work_of({positions, inv_freq, scale.factors, out}),
           [&] { inner_.rope_table(positions, inv_freq, scale, out); });
  }
  void rope(Tensor x, Tensor table, int head_dim) override {
    around({"rope"}, work_of({x, table, x}), [&] { inner_.rope(x, table, head_dim); });
  }
  void gate(Tensor gate, Tensor up, Activation activation, Tensor out) override {
    around({"gate"}, work_of({gate, up, out}), [&] { inner_.gate(gate, up, activation, out); });
  }
  void gated_matmul(Tensor x, const GatedProducts& products, Tensor next, Tensor& out) override {
    if (!fuses_gate()) return Arithmetic::gated_matmul(x, products, next, out);
    const int64_t outputs = products.gate.weight.rows + products.up.weight.rows;
    around({.kind = "matmul and gate", .in = x.cols, .out = outputs},
           gated_matmul_work(x, products, out),
           [&] { inner_.gated_matmul(x, products, next, out); });
  }
  bool fuses_gate() const override { return inner_.fuses_gate(); }
  void route(Tensor x, const Router& router, const ExpertChoice& choice) override {
    around({.kind = "router", .in = x.cols, .out = router.weight.rows},
           route_work(x, router, choice), [&] { inner_.route(x, router, choice); });
  }
  void group_by_expert(const ExpertChoice& choice, const ExpertGroups& groups) override {
    around({"group by expert"}, work_of({choice.experts, groups.numbers, groups.starts}),
           [&] { inner_.group_by_expert(choice, groups); });
  }
  std::span<const int32_t> starts_on_host(const ExpertGroups& groups) const override {
    return inner_.starts_on_host(groups);
  }
  void multiply_experts(Tensor x, const ExpertChoice& choice, const ExpertGroups& groups,
                        std::span<const Expert> experts, Activation activation,
                        const ClampedSwish& swish, Tensor out) override {
    around({.kind = "experts", .in = x.cols, .out = experts.front().gate.rows},
           experts_work(x, choice, groups, inner_.starts_on_host(groups), experts, out),
           [&] { inner_.multiply_experts(x, choice, groups, experts, activation, swish, out); });
  }
  void write_kv(Tensor k, Tensor v, Tensor slot_mapping, KvLayer cache) override {
    around({"write kv"}, write_kv_work(k, v, slot_mapping, cache),
           [&] { inner_.write_kv(k, v, slot_mapping, cache); });
  }
  void rotate_and_write_kv(Tensor q, Tensor k, Tensor v, const HeadNorms& norms,
                           const RopeTables& tables, Tensor slot_mapping, KvLayer cache) override {
    around({"rotate and write kv"},
           rotate_and_write_kv_work(q, k, v, norms, tables, slot_mapping, cache),
           [&] { inner_.rotate_and_write_kv(q, k, v, norms, tables, slot_mapping, cache); });
  }
  void attention(Tensor q, KvLayer cache, const BatchView& batch, const AttentionArgs& args,
                 Tensor out) override {
    around({.kind = "attention", .window = args.window},
           attention_work(q, cache, interceptor_.attended_keys(args.window), args, out),
           [&] { inner_.attention(q, cache, batch, args, out); });
  }
  void gather_rows(Tensor x, Tensor indices, Tensor out) override {
    around({"gather rows"}, work_of({indices, out, out}),
           [&] { inner_.gather_rows(x, indices, out); });
  }

 private:
  template <class F>
  void around(const OpName& name, const OpWork& work, const F& queue) {
    interceptor_.around(name, work, std::ref(queue));
  }

  Arithmetic& inner_;
  const Interceptor interceptor_;
};

}  // namespace

std::unique_ptr<Arithmetic> intercept(Arithmetic& arithmetic, Interceptor interceptor) {
  return std::make_unique<InterceptedArithmetic>(arithmetic, std::move(interceptor));
}

}  // namespace pagedinfer
