/* Parses spans of time. */
#ifndef MLR_BASE_DURATION_H
#define MLR_BASE_DURATION_H

#include <stdint.h>

/* Parse one like Go's time.ParseDuration(), "1m30s", "1.5h", "500ms", to nanoseconds. Returns -1
 * for an invalid or negative one. */
int64_t mlr_duration_ns(const char *s);

#endif
