/* Parses spans of time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * Parse a span as Go's time.ParseDuration() and k6 do, "1m30s", "1.5h", "500ms", also of days and
 * weeks, "2d"; a number without a unit counts seconds. Returns seconds, or -1 for anything else.
 */
double duration_seconds(const char *text, size_t len);

/* The same in nanoseconds, as Go's: only 0 has no unit. Returns -1 for anything else. */
int64_t duration_ns(const char *text);
