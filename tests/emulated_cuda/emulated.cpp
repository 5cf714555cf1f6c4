#include "emulated.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "races.h"
#include "shared_variables.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// Saves the callee-saved registers and switches to another stack (x86-64).
extern "C" void emulated_switch(void** from, void* to);
asm(R"(.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_switch, .-emulated_switch
)");

namespace emulated {

const float* const kHalfAsFloat = [] {
  static float table[1 << 16];
  for (unsigned bits = 0; bits < 1 << 16; ++bits) {
    _Float16 x;
    const auto low = static_cast<uint16_t>(bits);
    std::memcpy(&x, &low, 2);
    table[bits] = static_cast<float>(x);
  }
  return table;
}();

namespace {

enum class Waits { kNot, kForBlock, kForWarp, kEnded };

struct Fiber {
  void* stack_top = nullptr;
  Waits waits = Waits::kNot;
  uint3 index = {};
  unsigned exchanges = 0;
  int copy_group = 0;     // the open one
  unsigned barriers = 0;  // that it has come to
};
struct WarpState {
  unsigned lanes = 0;  // that still run, a bit each
  int arrived = 0;
  size_t bytes = 0;  // of the values that they exchange
  alignas(16) char slots[2][32][64];
};
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  bool valid;
  int group;
};
enum class Arrival { kAtOnce, kAnyTime, kWhenWaitedFor };

constexpr size_t kStackBytes = 64 << 10;
constexpr unsigned char kPoison = 0xff;
struct Block {
  uint3 index = {};
  std::vector<std::unique_ptr<char[]>> stacks = {};
  std::vector<Fiber> fibers = {};
  std::vector<WarpState> warps = {};
  std::vector<std::vector<Copy>> copies = {};  // that have not arrived, of each thread
  Arrival arrival = Arrival::kAtOnce;
  // A random order alone keeps warps close together. One that runs ahead of the others, or behind
  // them, shows what is read before it is written and what is overwritten before it is read. Some
  // blocks have none.
  int early_warp = 0, late_warp = 0;
  // Threads that may run: of the early warp, of others, of the late warp.
  std::vector<int> ready[3] = {};
  std::vector<unsigned char> shared = {};  // that is dynamic
  int live = 0, at_barrier = 0;            // threads
  bool has_counted = false;                // by an atomic operation
};
Block block;    // runs
Block stopped;  // in its middle, while others run to their end
int current;
const SharedVariables* variables;  // of the kernel
// For the sanitizer. Two barriers: threads may come to the next one before all have left the first.
char block_start, block_end, barrier[2];
void* scheduler;
const std::function<void()>* body;
uint64_t random_state = 1;

size_t next_random() {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return random_state >> 33;
}
// Of fewer bits than max_bits, and as often of few as of many.
size_t next_size(int max_bits) { return next_random() % (size_t{1} << next_random() % max_bits); }

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void make_ready(int i) {
  block.ready[i / 32 == block.early_warp ? 0 : i / 32 == block.late_warp ? 2 : 1].push_back(i);
}
// Removes a random one.
template <class T>
T take_any(std::vector<T>& from) {
  std::swap(from[next_random() % from.size()], from.back());
  const T taken = from.back();
  from.pop_back();
  return taken;
}

void arrive(const Copy& copy) {
  if (copy.valid) std::memcpy(copy.to, copy.from, copy.bytes);
  if (!copy.valid) std::memset(copy.to, 0, copy.bytes);
}

void wait() {
  const int self = current;
  races::switch_to(-1);
  emulated_switch(&block.fibers[self].stack_top, scheduler);
}

void wake(int first, int end, Waits which) {
  for (int i = first; i < end && i < static_cast<int>(block.fibers.size()); ++i) {
    if (block.fibers[i].waits != which) continue;
    block.fibers[i].waits = Waits::kNot;
    make_ready(i);
  }
}
// Releases the barrier if all threads of the block that still run wait at it.
void wake_block() {
  if (block.at_barrier == 0 || block.at_barrier < block.live) return;
  block.at_barrier = 0;
  wake(0, static_cast<int>(block.fibers.size()), Waits::kForBlock);
}
void wake_warp(int warp) {
  WarpState& w = block.warps[warp];
  if (w.arrived == 0 || w.arrived < std::popcount(w.lanes)) return;
  w.arrived = 0;
  wake(warp * 32, warp * 32 + 32, Waits::kForWarp);
}

void begin_fiber() {
  races::acquire(&block_start);
  (*body)();
  races::release(&block_end);
  block.fibers[current].waits = Waits::kEnded;
  --block.live;
  block.warps[current / 32].lanes &= ~(1u << current % 32);
  wake_block();
  wake_warp(current / 32);
  wait();
  std::abort();
}

void begin(uint3 index, int shared_bytes) {
  block.index = index;
  block.shared.assign(static_cast<size_t>(shared_bytes) + 128, kPoison);
  for (const auto& variable : *variables) std::ranges::fill(variable, kPoison);
  const int n = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  while (static_cast<int>(block.stacks.size()) < n) {
    block.stacks.push_back(std::make_unique<char[]>(kStackBytes));
  }
  block.fibers.assign(n, {});
  block.warps.assign((n + 31) / 32, {});
  block.copies.resize(n);
  for (auto& of_thread : block.copies) of_thread.clear();
  for (auto& threads : block.ready) threads.clear();
  block.early_warp = static_cast<int>(next_random() % (block.warps.size() + 2));
  block.late_warp = static_cast<int>(next_random() % (block.warps.size() + 2));
  block.arrival =
      races::are_seen() ? Arrival::kWhenWaitedFor : static_cast<Arrival>(next_random() % 3);
  block.live = n, block.at_barrier = 0, block.has_counted = false;
  for (int i = 0; i < n; ++i) {
    const unsigned u = static_cast<unsigned>(i);
    block.fibers[i].index = {u % blockDim.x, u / blockDim.x % blockDim.y, 0};
    block.warps[i / 32].lanes |= 1u << i % 32;
    // At different offsets within a page, so that the stacks do not share cache sets.
    const auto top =
        reinterpret_cast<uintptr_t>(block.stacks[i].get() + kStackBytes) / 64 * 64 - i % 61 * 64;
    void** stack = reinterpret_cast<void**>(top);
    *--stack = nullptr;
    *--stack = reinterpret_cast<void*>(&begin_fiber);
    for (int r = 0; r < 6; ++r) *--stack = nullptr;
    block.fibers[i].stack_top = stack;
    make_ready(i);
  }
  races::release(&block_start);
}

// Lets the block run to its end, or until it is to stop: behind a turn of one of its threads.
template <class Stops>
void go_on(Stops stops) {
  blockIdx = block.index;
  while (block.live > 0 && !stops()) {
    const auto from =
        std::ranges::find_if(block.ready, [](const auto& some) { return !some.empty(); });
    if (from == std::end(block.ready)) {
      fail("a block waits for threads that wait for something else");
    }
    current = take_any(*from);
    if (block.arrival == Arrival::kAnyTime) {
      auto& of_thread = block.copies[next_random() % block.copies.size()];
      if (!of_thread.empty()) arrive(take_any(of_thread));
    }
    threadIdx = block.fibers[current].index;
    races::switch_to(current);
    emulated_switch(&scheduler, block.fibers[current].stack_top);
  }
  if (block.live == 0) races::acquire(&block_end);
}

}  // namespace

void run(const void* kernel, dim3 grid, dim3 threads, int shared_bytes,
         const std::function<void()>& thread) {
  gridDim = grid, blockDim = threads, body = &thread;
  variables = &shared_variables_of(kernel);
  std::vector<uint3> blocks;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) blocks.push_back({x, y, z});
    }
  }
  const auto never = [] { return false; };
  // An atomic operation may tell other blocks of something that is not so yet.
  const auto when_it_has_counted = [] { return block.has_counted; };
  while (!blocks.empty()) {
    begin(take_any(blocks), shared_bytes);
    // The sanitizer does not know how counters in global memory order blocks.
    if (!blocks.empty() && !races::are_seen() && next_random() % 2 == 0) {
      if (next_random() % 2 == 0) {
        go_on(when_it_has_counted);
      } else {
        go_on([turns = next_size(16)]() mutable { return turns-- == 0; });
      }
      if (block.live > 0) {
        std::vector<unsigned char> kept;
        for (const auto& one : *variables) kept.insert(kept.end(), one.begin(), one.end());
        std::swap(block, stopped);
        for (size_t more = std::min(1 + next_size(8), blocks.size()); more > 0; --more) {
          begin(take_any(blocks), shared_bytes);
          go_on(never);
        }
        std::swap(block, stopped);
        auto from = kept.cbegin();
        for (const auto& one : *variables) {
          std::copy_n(from, one.size(), one.begin());
          from += std::ssize(one);
        }
      }
    }
    go_on(never);
  }
}

unsigned char* dynamic_shared() {
  return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(block.shared.data()) + 127) /
                                          128 * 128);
}

const char* exchange(unsigned mask, const void* mine, size_t bytes) {
  Fiber& self = block.fibers[current];
  WarpState& warp = block.warps[current / 32];
  if (bytes > 64) std::abort();
  if ((mask & warp.lanes) != warp.lanes) fail("a warp exchanges values without some of its lanes");
  if (warp.arrived > 0 && bytes != warp.bytes) fail("lanes of a warp meet at different exchanges");
  warp.bytes = bytes;
  auto& slots = warp.slots[self.exchanges++ % 2];
  // Not memcpy(), which the sanitizer would see.
  volatile char* const slot = slots[current % 32];
  for (size_t i = 0; i < bytes; ++i) slot[i] = static_cast<const char*>(mine)[i];
  self.waits = Waits::kForWarp;
  ++warp.arrived;
  wake_warp(current / 32);
  wait();
  return slots[0];
}

void count() { block.has_counted = true; }

void copy_async(void* to, const void* from, size_t bytes, bool valid) {
  const Copy copy = {to, from, bytes, valid, block.fibers[current].copy_group};
  races::write(to, bytes);  // the other time at which it may happen is when it is waited for
  if (block.arrival == Arrival::kAtOnce) return arrive(copy);
  block.copies[current].push_back(copy);
}
void commit_copies() { ++block.fibers[current].copy_group; }
void wait_for_copies(int max_pending) {
  std::erase_if(block.copies[current], [&](const Copy& copy) {
    if (copy.group >= block.fibers[current].copy_group - max_pending) return false;
    arrive(copy);
    return true;
  });
}

}  // namespace emulated

void __syncthreads() {
  emulated::Fiber& self = emulated::block.fibers[emulated::current];
  char* const barrier = &emulated::barrier[self.barriers++ % 2];
  emulated::races::release(barrier);
  self.waits = emulated::Waits::kForBlock;
  ++emulated::block.at_barrier;
  emulated::wake_block();
  emulated::wait();
  emulated::races::acquire(barrier);
}
