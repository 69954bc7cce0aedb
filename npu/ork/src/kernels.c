/* Which table to use here, decided by what the processor says at the time of asking. */
#include "kernels.h"

#if !defined(__x86_64__)
const struct ork_kernels *ork_kernels_avx2(void)
{
    return NULL;
}

const struct ork_kernels *ork_kernels_avx512(void)
{
    return NULL;
}
#endif

#if !defined(__aarch64__)
const struct ork_kernels *ork_kernels_neon(void)
{
    return NULL;
}
#endif

const struct ork_kernels *ork_kernels_best(void)
{
    const struct ork_kernels *best = ork_kernels_avx512();

    best = best ? best : ork_kernels_avx2();
    best = best ? best : ork_kernels_neon();
    return best ? best : ork_kernels_scalar();
}
