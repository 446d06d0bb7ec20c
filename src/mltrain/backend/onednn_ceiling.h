/* What oneDNN makes of this CPU in the best of cases: see engine_ceiling in backend.h. */
#ifndef MLT_BACKEND_ONEDNN_CEILING_H
#define MLT_BACKEND_ONEDNN_CEILING_H

#include "backend/backend.h"

/* Time a matrix product by the engine's threads, in its dtype, n times, to ret [n]. Returns 0,
 * -ENOTSUP, -ENOMEM. */
int onednn_ceiling(struct engine *e, int n, struct engine_ceiling *ret, struct mlr_error *err);

#endif
