/* What kernels_vec.c needs of an instruction set and generic vectors cannot express well. Only
 * included there; which half is seen follows from the flags that file is compiled with. */
#ifndef ORK_KERNELS_ISA_H
#define ORK_KERNELS_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define ORK_LANES         16
#define ORK_KERNELS_NAME  ork_kernels_avx512
#define ORK_KERNELS_LABEL "avx512"
#elif defined(__AVX2__)
#define ORK_LANES         8
#define ORK_KERNELS_NAME  ork_kernels_avx2
#define ORK_KERNELS_LABEL "avx2"
#elif defined(__aarch64__)
#define ORK_LANES         4
#define ORK_KERNELS_NAME  ork_kernels_neon
#define ORK_KERNELS_LABEL "neon"
#endif

#if defined(__AVX2__)
#include <immintrin.h>

static inline bool isa_present(void)
{
#if defined(__AVX512F__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    return __builtin_cpu_supports("avx2"); /* F16C is older, and clang 14 cannot ask for it */
#endif
}

/* low + 16 * high per pair of bytes, then 16 sums to bytes. */
static inline void isa_nibbles_put(uint8_t *dst, const int8_t *codes)
{
    __m256i v, pairs;

    v = _mm256_loadu_si256((const __m256i_u *)codes);
    v = _mm256_and_si256(v, _mm256_set1_epi8(15));
    pairs = _mm256_maddubs_epi16(v, _mm256_set1_epi16(0x1001));
    pairs = _mm256_packus_epi16(pairs, pairs);
    pairs = _mm256_permute4x64_epi64(pairs, 0x08);
    _mm_storeu_si128((__m128i_u *)dst, _mm256_castsi256_si128(pairs));
}

static inline void isa_nibbles_get(int8_t *codes, const uint8_t *src)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i_u *)src);
    const __m128i mask = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    const __m128i lo = _mm_and_si128(bytes, mask);
    const __m128i hi = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask);
    const __m128i first = _mm_unpacklo_epi8(lo, hi), second = _mm_unpackhi_epi8(lo, hi);

    _mm_storeu_si128((__m128i_u *)codes, _mm_sub_epi8(_mm_xor_si128(first, eight), eight));
    _mm_storeu_si128((__m128i_u *)(codes + 16), _mm_sub_epi8(_mm_xor_si128(second, eight), eight));
}

static inline size_t isa_add_i16(int32_t *acc, const uint8_t *src)
{
    const __m128i cell = _mm_loadu_si128((const __m128i_u *)src);
    const __m128i bound = _mm_or_si128(_mm_cmpeq_epi16(cell, _mm_set1_epi16(INT16_MAX)),
                                       _mm_cmpeq_epi16(cell, _mm_set1_epi16(INT16_MIN)));
    __m256i sum = _mm256_loadu_si256((const __m256i_u *)acc);

    sum = _mm256_add_epi32(sum, _mm256_cvtepi16_epi32(cell));
    _mm256_storeu_si256((__m256i_u *)acc, sum);
    return (size_t)__builtin_popcount((unsigned)_mm_movemask_epi8(bound)) / 2;
}

static inline void isa_add_f16(float *acc, const uint8_t *src)
{
    const __m256 cell = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)src));

    _mm256_storeu_ps(acc, _mm256_add_ps(_mm256_loadu_ps(acc), cell));
}

static inline void isa_to_f16(uint16_t *out, const float *src)
{
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(src), _MM_FROUND_TO_NEAREST_INT);

    _mm_storeu_si128((__m128i_u *)out, half);
}

#if defined(__AVX512F__)
#define isa_permute(v, index) ((vf)_mm512_permutexvar_ps((__m512i)(index), (__m512)(v)))
#else
#define isa_permute(v, index) ((vf)_mm256_permutevar8x32_ps((__m256)(v), (__m256i)(index)))
#endif

#elif defined(__aarch64__)
#include <arm_neon.h>

static inline bool isa_present(void)
{
    return true;
}

static inline void isa_nibbles_put(uint8_t *dst, const int8_t *codes)
{
    const int8x16x2_t pairs = vld2q_s8(codes);
    const uint8x16_t low = vandq_u8(vreinterpretq_u8_s8(pairs.val[0]), vdupq_n_u8(15));

    vst1q_u8(dst, vsliq_n_u8(low, vreinterpretq_u8_s8(pairs.val[1]), 4));
}

static inline void isa_nibbles_get(int8_t *codes, const uint8_t *src)
{
    const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(src));
    int8x16x2_t pairs;

    pairs.val[0] = vshrq_n_s8(vshlq_n_s8(bytes, 4), 4);
    pairs.val[1] = vshrq_n_s8(bytes, 4);
    vst2q_s8(codes, pairs);
}

static inline size_t isa_add_i16(int32_t *acc, const uint8_t *src)
{
    const int16x8_t cell = vreinterpretq_s16_u8(vld1q_u8(src));
    const uint16x8_t bound =
        vorrq_u16(vceqq_s16(cell, vdupq_n_s16(INT16_MAX)), vceqq_s16(cell, vdupq_n_s16(INT16_MIN)));

    vst1q_s32(acc, vaddw_s16(vld1q_s32(acc), vget_low_s16(cell)));
    vst1q_s32(acc + 4, vaddw_s16(vld1q_s32(acc + 4), vget_high_s16(cell)));
    return vaddvq_u16(vshrq_n_u16(bound, 15));
}

static inline void isa_add_f16(float *acc, const uint8_t *src)
{
    const float16x8_t cell = vreinterpretq_f16_u8(vld1q_u8(src));

    vst1q_f32(acc, vaddq_f32(vld1q_f32(acc), vcvt_f32_f16(vget_low_f16(cell))));
    vst1q_f32(acc + 4, vaddq_f32(vld1q_f32(acc + 4), vcvt_f32_f16(vget_high_f16(cell))));
}

static inline void isa_to_f16(uint16_t *out, const float *src)
{
    vst1_u16(out, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src))));
    vst1_u16(out + 4, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(src + 4))));
}

#define isa_permute(v, index) __builtin_shuffle((v), (index))
#endif

#endif
