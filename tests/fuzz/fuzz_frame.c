/*
 * Fuzz target: what the ranks of an elastic run send one another. The first byte chooses a parser:
 * a frame's head, a list of ranks, a newcomer, a report. What is accepted keeps to its limits.
 */
#include "dist/frame.h"
#include "dist/group.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_head(const uint8_t *bytes, size_t size)
{
	uint8_t again[FRAME_HEAD];
	struct frame f;

	if (size < FRAME_HEAD || frame_parse_head(bytes, 1000, &f, NULL) < 0)
		return;
	frame_write_head(&f, again);
	if (f.size > 1000 || memcmp(again, bytes, FRAME_HEAD) != 0)
		abort();
}

static void parse_group(const uint8_t *bytes, size_t size)
{
	struct group g, again;

	if (group_parse(bytes, size, &g, NULL) < 0)
		return;
	if (group_size(&g) != size || group_find(&g, g.source) < 0 ||
		group_parse(&g, group_size(&g), &again, NULL) < 0)
		abort();
	for (uint32_t i = 0; i < g.n; i++)
		if (strlen(g.member[i].host) >= sizeof(g.member[i].host))
			abort();
	group_is_local(&g);
}

static void parse_member(const uint8_t *bytes, size_t size)
{
	struct group_report r;
	struct group_join j;

	if (group_parse_join(bytes, size, &j, NULL) == 0 &&
		(strlen(j.version) >= sizeof(j.version) ||
			j.self.offer.addresses > LIFELINE_ADDRESSES))
		abort();
	group_parse_report(bytes, size, &r, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes; /* exactly as long, so that a read beyond is seen */

	if (!size)
		return 0;
	bytes = malloc(size > 1 ? size - 1 : 1);
	if (!bytes)
		abort();
	memcpy(bytes, data + 1, size - 1);
	switch (data[0] % 3) {
	case 0:
		parse_head(bytes, size - 1);
		break;
	case 1:
		parse_group(bytes, size - 1);
		break;
	default:
		parse_member(bytes, size - 1);
	}
	free(bytes);
	return 0;
}
