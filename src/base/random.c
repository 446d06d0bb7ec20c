#include "base/random.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

void random_hex(char hex[RANDOM_HEX_SIZE])
{
	static unsigned serial;
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number)) /* early boot */
		number =
			(uint64_t)getpid() << 32 | __atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
	snprintf(hex, RANDOM_HEX_SIZE, "%016llx", (unsigned long long)number);
}
