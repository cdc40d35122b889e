// Loops compiled in two versions: for processors with wide instructions, and for any.
#pragma once

#define ALANCE_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
#define ALANCE_AVX2 __attribute__((target("avx2,fma,f16c,popcnt")))
#else
#define ALANCE_AVX2
#endif

// The loader takes a version of the function.
#if defined(__x86_64__) && defined(__linux__)
#define ALANCE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define ALANCE_CLONES
#endif

namespace alance {

// True if the processor has AVX2, FMA, F16C and POPCNT.
inline bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt");
  return has;
#else
  return false;
#endif
}

// Versions of a function that is ALANCE_INLINE.
template <auto Body>
struct Versions;

template <typename Result, typename... Args, Result (*Body)(Args...)>
struct Versions<Body> {
  static Result any(Args... args) { return Body(args...); }
  ALANCE_AVX2 static Result avx2(Args... args) { return Body(args...); }

  // The best version for this processor.
  static auto best(bool baseline = false) { return !baseline && has_avx2() ? &avx2 : &any; }
};

}  // namespace alance
