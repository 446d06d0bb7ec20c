#include "base/processors.h"

#include <sched.h>

size_t processors_count(void)
{
	/* The call fails with EINVAL if the machine has more processors than the set has bits. */
	for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
		cpu_set_t *set = CPU_ALLOC(bits);
		size_t size = CPU_ALLOC_SIZE(bits);
		int n = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;

		CPU_FREE(set);
		if (n > 0)
			return (size_t)n;
	}
	return 1;
}
