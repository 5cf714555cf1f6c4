// How the algorithms of products are chosen, with a stand-in of cuBLASLt that proposes good ones
// and bad ones.
#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "core/error.h"
#include "ops/cuda/product_cache.h"
#include "ops/cuda/row_buckets.h"
#include "tests/emulated_cuda/runtime.h"
#include "tests/support/cuda_support.h"
#include "tests/support/ops_support.h"
#include "tests/support/support.h"

namespace pagedinfer {
namespace {

constexpr int kK = 96, kN = 48;

// A device and products of one shape.
struct Scene {
  explicit Scene(const CudaOptions& options, int64_t max_rows = 300, DType out_type = DType::kF32) {
    ModelSpec spec;
    spec.heads = spec.kv_heads = 1;
    spec.head_dim = 64;
    spec.vocab = 10;
    gpu = make_gpu(spec, options);
    dtype = options.compute;
    const int64_t num_rows = std::max<int64_t>(max_rows, 2048);
    inputs = random.normals(static_cast<size_t>(num_rows * kK));
    x = gpu->memory().allocate(dtype, num_rows, kK);
    weight = gpu->memory().upload(view(values, kN, kK), dtype);
    out = gpu->memory().allocate(out_type, num_rows, kN);
    gpu->write(rounded(inputs).data(), x);
    const Tensor rows = first(x, max_rows);
    gpu->arithmetic().prepare(std::vector<InputProducts>{{rows, {{weight, first(out, max_rows)}}}});
  }

  static Tensor first(Tensor all, int64_t rows) {
    all.rows = rows;
    return all;
  }
  std::vector<char> rounded(const std::vector<float>& numbers) const {
    std::vector<char> bytes(numbers.size() * static_cast<size_t>(size_of(dtype)));
    convert(numbers.data(), DType::kF32, bytes.data(), dtype, std::ssize(numbers));
    return bytes;
  }
  void multiply_queued(int64_t rows) {
    const Product product = {weight, first(out, rows)};
    gpu->arithmetic().matmul(first(x, rows), {&product, 1});
  }
  std::vector<float> multiply(int64_t rows) {
    multiply_queued(rows);
    std::vector<float> found(static_cast<size_t>(rows * kN));
    gpu->read(first(out, rows), found.data());
    return found;
  }

  // What one product takes of the device's time, beside the host's.
  double device_ms(int64_t rows) {
    const double before_ms = emulated::spent_ms();
    multiply(rows);
    return emulated::spent_ms() - before_ms;
  }

  Random random{3};
  std::vector<float> values = random.normals(kN * kK), inputs = {};
  std::unique_ptr<CudaOps> gpu;
  DType dtype = DType::kBF16;
  Tensor x, weight, out;
};

bool starts_with(const std::vector<float>& all, const std::vector<float>& part) {
  return count_differences(part, std::span(all).first(part.size())) == 0;
}

}  // namespace

TEST_CASE("emulated: a bucket has its own algorithm if that has the bits of the reference") {
  const emulated::KeptSettings kept;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const uint64_t unequal_rows : {0, 16, 5000}) {
      emulated::settings().unequal_rows = unequal_rows;
      Scene scene({.compute = dtype, .deterministic = true});
      const std::optional<ProductChoices> choices = scene.gpu->product_choices();
      REQUIRE(choices.has_value());
      const std::vector<int64_t> buckets = buckets_up_to(8192);
      CHECK(choices->buckets == std::ssize(buckets));
      // The reference is chosen for 128 rows.
      const auto num_fallen = std::ranges::count_if(buckets, [&](int64_t bucket) {
        const auto rows = static_cast<uint64_t>(bucket);
        return (rows <= unequal_rows) != (128 <= unequal_rows);
      });
      CHECK(choices->fallen_back == num_fallen);
      const std::vector<float> all = scene.multiply(2048);
      for (const int64_t rows : {1, 2, 7, 16, 17, 33, 64, 65, 129, 500, 1100}) {
        CHECK(starts_with(all, scene.multiply(rows)));
      }
    }
  }
}

TEST_CASE("emulated: deterministic products need neither tensor cores nor a mask that is obeyed") {
  const emulated::KeptSettings kept;
  const auto check_rows = [&](bool has_tensor, bool ignores_mask, bool lacks_attributes) {
    emulated::settings().has_tensor_algorithms = has_tensor;
    emulated::settings().ignores_mask = ignores_mask;
    emulated::settings().lacks_attributes = lacks_attributes;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      Scene scene({.compute = dtype, .deterministic = true});
      CHECK(scene.gpu->product_choices()->fallen_back == 0);
      const std::vector<float> all = scene.multiply(2048);
      for (const int64_t rows : {1, 9, 64, 200}) CHECK(starts_with(all, scene.multiply(rows)));
    }
    emulated::settings() = kept.before;
  };
  check_rows(false, false, false);
  check_rows(true, true, false);
  check_rows(true, false, true);
}

TEST_CASE("emulated: deterministic products see orders of additions that 16 bits hide") {
  const emulated::KeptSettings kept;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const uint64_t unequal_rows : {0, 16}) {
      emulated::settings().unequal_rows = unequal_rows;
      const Scene scene({.compute = dtype, .deterministic = true}, 300, dtype);
      const auto num_few = std::ranges::count_if(
          buckets_up_to(8192), [&](int64_t b) { return b <= static_cast<int64_t>(unequal_rows); });
      CHECK(scene.gpu->product_choices()->fallen_back == num_few);
    }
  }
}

TEST_CASE("emulated: the reference is an algorithm whose order does not depend on the rows") {
  const emulated::KeptSettings kept;
  emulated::settings().algorithms_uneven = 3;  // of the two that serve all, the first
  Scene scene({.compute = DType::kBF16, .deterministic = true});
  CHECK(starts_with(scene.multiply(300), scene.multiply(3)));
  emulated::settings().algorithms_uneven = 100;
  CHECK_THROWS_WITH_AS(Scene({.compute = DType::kBF16, .deterministic = true}),
                       doctest::Contains("for all numbers of rows, up to 300"), Error);
}

TEST_CASE("emulated: the last bucket's algorithm is tried with all the rows of a step") {
  const emulated::KeptSettings kept;
  // Of the proposals that serve a whole bucket the first one is as it should be up to the bucket.
  emulated::settings().algorithms_uneven = 3;
  emulated::settings().uneven_rows = 8500;
  Scene scene({.compute = DType::kBF16, .deterministic = true}, 9000);
  CHECK(starts_with(scene.multiply(9000), scene.multiply(3)));
}

TEST_CASE("emulated: an algorithm that fails when it multiplies is not chosen") {
  const emulated::KeptSettings kept;
  emulated::settings().product_ms = 0.001;
  emulated::settings().algorithms_refused = 1;
  CHECK(Scene({.compute = DType::kBF16}).multiply(5).size() == 5 * kN);
  emulated::settings() = kept.before;
  // The reference is one that runs; those of other buckets fail.
  emulated::settings().rows_refused = 64;
  Scene fixed({.compute = DType::kBF16, .deterministic = true});
  const auto num_few =
      std::ranges::count_if(buckets_up_to(8192), [](int64_t b) { return b <= 64; });
  CHECK(fixed.gpu->product_choices()->fallen_back == num_few);
  CHECK(starts_with(fixed.multiply(300), fixed.multiply(3)));
}

TEST_CASE(
    "emulated: deterministic products fall back after other proposals, off tensor cores too") {
  const emulated::KeptSettings kept;
  const auto check_choices = [&] {
    Scene scene({.compute = DType::kBF16, .deterministic = true});
    CHECK(scene.gpu->product_choices()->fallen_back == 0);
    const std::vector<float> all = scene.multiply(300);
    for (const int64_t rows : {1, 64, 65}) CHECK(starts_with(all, scene.multiply(rows)));
  };
  emulated::settings().algorithms_refused = 3;  // of the two that serve a whole bucket, the first
  check_choices();
  emulated::settings() = kept.before;
  emulated::settings().refuses_tensor = true;
  check_choices();
}

TEST_CASE("emulated: the hash of algorithms is that of the choices, whatever the batch size") {
  const auto name_of_gpu = [](DType dtype, uint64_t unequal_rows, int64_t max_rows) {
    const emulated::KeptSettings kept;
    emulated::settings().unequal_rows = unequal_rows;
    const Scene scene({.compute = dtype, .deterministic = true}, max_rows);
    const std::string name = scene.gpu->arithmetic_name();
    emulated::settings() = kept.before;
    return name;
  };
  const std::string name = name_of_gpu(DType::kBF16, 0, 300);
  CHECK(name.find(", products ") != std::string::npos);
  CHECK(name_of_gpu(DType::kBF16, 0, 300) == name);
  CHECK(name_of_gpu(DType::kBF16, 0, 3) == name);
  CHECK(name_of_gpu(DType::kBF16, 16, 300) != name);
  CHECK(name_of_gpu(DType::kF16, 0, 300) != name);
  const Scene free({.compute = DType::kBF16});
  CHECK(free.gpu->arithmetic_name().find("products") == std::string::npos);
  CHECK(!free.gpu->product_choices().has_value());
}

TEST_CASE("emulated: a vocabulary's products need an algorithm for the rows of a run, not more") {
  Scene scene({.compute = DType::kBF16, .deterministic = true});
  constexpr int64_t kVocab = 300000;
  const Tensor weight = scene.gpu->memory().allocate(DType::kBF16, kVocab, 8);
  const auto products = [&](int64_t rows) {
    const Tensor x = scene.gpu->memory().allocate(DType::kBF16, 1, 8);
    return std::vector<InputProducts>{
        {Scene::first(x, rows), {{weight, {scene.out.data, DType::kF32, rows, kVocab, kVocab}}}}};
  };
  CHECK_NOTHROW(scene.gpu->arithmetic().prepare(products(4)));
  CHECK(scene.gpu->product_choices()->buckets > 0);
  CHECK_THROWS_WITH_AS(scene.gpu->arithmetic().prepare(products(8000)),
                       doctest::Contains("by 300000"), Error);
}

TEST_CASE("emulated: without --deterministic the fastest algorithm is timed once for each GPU") {
  const TempDir dir;
  const emulated::KeptSettings kept;
  emulated::settings().product_ms = 0.001;
  // The number of products that a start computes, and what a product of so many rows takes.
  const auto start = [&](int64_t rows) {
    const int64_t first = emulated::counts().products;
    Scene scene({.compute = DType::kBF16, .product_cache = dir / "cache"});
    const int64_t timed = emulated::counts().products - first;
    return std::pair(timed, scene.device_ms(rows));
  };
  const auto [timed, fast_ms] = start(250);
  CHECK(timed > 0);
  CHECK(fast_ms == doctest::Approx(0.001));
  CHECK(start(250).first == 0);  // the file has all of them
  CHECK(start(250).second == doctest::Approx(0.001));
  std::filesystem::remove_all(dir / "cache");
  CHECK(start(250).first == timed);

  // A start with slow products leaves most of them to later ones.
  std::filesystem::remove_all(dir / "cache");
  emulated::settings().product_ms = 2;
  const int64_t of_one_start = start(250).first;
  CHECK(of_one_start > 0);
  CHECK(of_one_start < timed / 3);
  CHECK(start(250).first > 0);
}

TEST_CASE("emulated: a cache of algorithms that is damaged or of another GPU counts as empty") {
  const TempDir dir;
  std::mt19937_64 random(8);
  std::map<int64_t, ProductAlgorithm> expected;
  const ProductKey key = {.n = 48, .k = 96, .out = DType::kF32, .x_alignment = 256};
  {
    ProductCache cache(dir / "a/b", "card 1");
    CHECK(cache.size() == 0);
    for (const int64_t bucket : buckets_up_to(100)) {
      for (uint64_t& word : expected[bucket]) word = random();
      cache.add(key, bucket, expected[bucket]);
    }
    cache.save();
  }
  const ProductCache found(dir / "a/b", "card 1");
  CHECK(found.size() == std::ssize(expected));
  for (const auto& [bucket, algorithm] : expected) CHECK(found.find(key, bucket) == algorithm);
  CHECK(!found.find({.n = 47, .k = 96}, 8).has_value());
  CHECK(ProductCache(dir / "a/b", "card 2").size() == 0);

  const std::string text = read_file(found.path());
  for (size_t size = 0; size + 1 < text.size(); size += 7) {  // the last byte ends a whole line
    write_file(found.path(), text.substr(0, size));
    REQUIRE(ProductCache(dir / "a/b", "card 1").size() == 0);
  }
  write_file(found.path(), "card 2" + text);
  CHECK(ProductCache(dir / "a/b", "card 1").size() == 0);
  for (size_t at = 0; at < text.size(); at += 11) {
    std::string changed = text;
    changed[at] = changed[at] == '7' ? '8' : '7';
    write_file(found.path(), changed);
    REQUIRE(ProductCache(dir / "a/b", "card 1").size() == 0);
  }
  // Neither a folder that cannot be made nor none at all is an error.
  ProductCache nowhere(found.path() + "/c", "card 1");
  nowhere.add(key, 1, {});
  nowhere.save();
  ProductCache none("", "card 1");
  none.add(key, 1, {});
  none.save();
  CHECK(none.size() == 1);
}

TEST_CASE("emulated: with --deterministic no algorithm is timed") {
  const TempDir dir;
  const Scene scene(
      {.compute = DType::kBF16, .deterministic = true, .product_cache = dir / "cache"});
  CHECK(!std::filesystem::exists(dir / "cache"));
}

TEST_CASE("emulated: products in int8 of one input are one product, and the input is made once") {
  Scene scene({});
  const auto launches = [&](std::vector<int> outputs) {
    std::vector<Product> products;
    int64_t column = 0;
    for (const int n : outputs) {
      std::vector<float> values = scene.random.normals(static_cast<size_t>(n * kK));
      Tensor out = Scene::first(scene.out, 5);
      out.data = static_cast<float*>(out.data) + column;
      out.cols = n;
      products.push_back({scene.gpu->memory().upload_matrix(view(values, n, kK), DType::kI8), out});
      column += n;
    }
    const emulated::Counts before = emulated::counts();
    scene.gpu->arithmetic().matmul(Scene::first(scene.x, 5), products);
    CHECK(emulated::counts().products == before.products);
    return emulated::counts().launches - before.launches;
  };
  CHECK(launches({16, 8, 8}) == 2);
  CHECK(launches({16, 7, 8}) == 3);  // the third does not begin a panel
  CHECK(launches({40}) == 2);
}

TEST_CASE("emulated: no sum is split whose end would be lost") {
  // 96 is no multiple of 64; the stand-in's first proposal for few rows would split it.
  Scene scene({.compute = DType::kF32});
  std::vector<float> expected(kN);
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < kK; ++j) {
      expected[static_cast<size_t>(i)] +=
          scene.values[static_cast<size_t>(i * kK + j)] * scene.inputs[static_cast<size_t>(j)];
    }
  }
  check_close(DType::kF32, scene.multiply(1), expected);
}

TEST_CASE(
    "emulated: an algorithm that does not say whether it splits sums counts as one that does") {
  const emulated::KeptSettings kept;
  const CudaOptions fixed = {.compute = DType::kBF16, .deterministic = true};
  const std::vector<float> expected = Scene(fixed).multiply(200);
  for (const int num_silent : {3, 4}) {  // the last one lacks the one attribute, or the other
    emulated::settings().algorithms_silent = num_silent;
    CHECK(count_differences(expected, Scene(fixed).multiply(200)) == 0);
  }
  emulated::settings().algorithms_silent = 100;
  CHECK_THROWS_WITH_AS(Scene{fixed}, doctest::Contains("--deterministic needs one"), Error);
  CHECK_THROWS_WITH_AS(Scene({.compute = DType::kF32}).multiply(1),
                       doctest::Contains("a product of 1 rows"), Error);
}

TEST_CASE("emulated: cuBLAS proposes no algorithm while a stream is captured") {
  Scene scene({.compute = DType::kBF16, .deterministic = true});
  const Tensor x = scene.gpu->memory().allocate(DType::kBF16, 3, 24);
  const Product product = {scene.gpu->memory().allocate(DType::kBF16, 16, 24),
                           scene.gpu->memory().allocate(DType::kBF16, 3, 16)};
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK_NOTHROW(scene.multiply_queued(7));
  CHECK_THROWS_WITH_AS(scene.gpu->arithmetic().matmul(x, {&product, 1}),
                       doctest::Contains("to choose an"), Error);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK_NOTHROW(scene.gpu->arithmetic().matmul(x, {&product, 1}));
}

}  // namespace pagedinfer
