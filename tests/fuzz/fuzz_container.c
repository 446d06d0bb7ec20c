/* What processes leave for each other where a container is shared, and what /proc says of them. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "base/proc.h"
#include "runtime/container.h"
#include "runtime/meeting.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(container_done) struct container c = { 0 };
	auto_free char *text = xstrndup((const char *)data, size);
	struct meeting_entry e;
	struct proc_stat st;
	size_t used;

	container_parse(text, &c);
	proc_stat_parse(text, &st);
	for (const char *s = text; *s; s += used) {
		used = meeting_entry_parse(s, &e);
		if (used == 0)
			break;
	}
	return 0;
}
