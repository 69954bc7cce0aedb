/* The plan's counts through the time model. */
#include "ork_plan.h"

double ork_plan_predict_us(const struct ork_plan *plan, enum ork_kernel kernel)
{
    struct ork_time time;

    ork_timemodel_predict(kernel, &plan->work, &time);
    return time.total_us;
}
