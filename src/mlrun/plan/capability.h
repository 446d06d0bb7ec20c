/* Converts names of Linux capabilities, capabilities(7). */
#pragma once

#include "base/base.h"

/* The bits of a capability, named with or without "CAP_" in upper or lower case, or of "ALL"; 0 for
 * an unknown name. */
uint64_t capability_bits(const char *name);

/* The name of bit number n, "CAP_CHOWN"; NULL if unknown. */
const char *capability_name(unsigned n);
