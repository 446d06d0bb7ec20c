#include "gpu/choice/name.h"

#include "gpu/node.h"

/* Read len bytes as a number; no digit may follow. Returns 0 or -1. */
static int read_number(const char *text, size_t len, int base, unsigned long *ret)
{
	const char *digits = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";

	if (len == 0 || len > 8 || strspn(text, digits) < len)
		return -1;
	*ret = strtoul(text, NULL, base);
	return 0;
}

static int find_index(const struct gpu_machine *m, enum gpu_vendor vendor, const char *text,
	size_t len, struct gpu_chosen *ret)
{
	unsigned long number;

	if (read_number(text, len, 10, &number) < 0)
		return -ENODEV;
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].vendor == vendor && m->gpus[i].index >= 0 &&
			(unsigned long)m->gpus[i].index == number) {
			*ret = (struct gpu_chosen){ i, -1 };
			return 0;
		}
	return -ENODEV;
}

/* Find "0:1". */
static int find_part(const struct gpu_machine *m, enum gpu_vendor vendor, const char *text,
	struct gpu_chosen *ret)
{
	const char *colon = strchr(text, ':');
	struct gpu_chosen c;
	unsigned long part;

	if (!colon || find_index(m, vendor, text, (size_t)(colon - text), &c) < 0 ||
		read_number(colon + 1, strlen(colon + 1), 10, &part) < 0 ||
		part >= m->gpus[c.gpu].n_mig)
		return -ENODEV;
	c.mig = (int)part;
	*ret = c;
	return 0;
}

/* Normalize a bus id to the spelling of /sys. Returns 0 or -1. */
static int read_bus_id(const char *text, char ret[32])
{
	const char *dot = strrchr(text, '.'), *device = NULL, *bus = NULL;
	unsigned long domain = 0, b, d, f;

	for (const char *s = text; dot && s < dot; s++)
		if (*s == ':') {
			bus = device;
			device = s;
		}
	if (!device)
		return -1;
	if (bus && read_number(text, (size_t)(bus - text), 16, &domain) < 0)
		return -1;
	bus = bus ? bus + 1 : text;
	if (read_number(bus, (size_t)(device - bus), 16, &b) < 0 ||
		read_number(device + 1, (size_t)(dot - device - 1), 16, &d) < 0 ||
		read_number(dot + 1, strlen(dot + 1), 16, &f) < 0)
		return -1;
	snprintf(ret, 32, "%04lx:%02lx:%02lx.%lx", domain, b, d, f);
	return 0;
}

static int find_bus_id(const struct gpu_machine *m, const char *text, struct gpu_chosen *ret)
{
	char wanted[32], have[32];

	if (read_bus_id(text, wanted) < 0)
		return -ENODEV;
	for (size_t i = 0; i < m->n_gpus; i++)
		if (m->gpus[i].bus_id && read_bus_id(m->gpus[i].bus_id, have) == 0 &&
			strcmp(have, wanted) == 0) {
			*ret = (struct gpu_chosen){ i, -1 };
			return 0;
		}
	return -ENODEV;
}

/* Is text the UUID, or a beginning of it? */
static int fits(const char *uuid, const char *text, size_t len, int *is_whole)
{
	*is_whole = uuid && strlen(uuid) == len;
	return uuid && strncasecmp(uuid, text, len) == 0;
}

/* Keep a match. A second beginning makes the name ambiguous, a whole UUID never does. */
static int found(struct gpu_chosen c, int is_whole, int r, struct gpu_chosen *ret)
{
	if (r == -ENODEV || is_whole)
		*ret = c;
	return r == -ENODEV || is_whole ? 0 : -ENOTUNIQ;
}

static int find_gpu_uuid(
	const struct gpu_machine *m, const char *text, size_t len, struct gpu_chosen *ret)
{
	int r = -ENODEV, is_whole;

	for (size_t i = 0; i < m->n_gpus; i++) {
		if (!fits(m->gpus[i].uuid, text, len, &is_whole))
			continue;
		r = found((struct gpu_chosen){ i, -1 }, is_whole, r, ret);
		if (is_whole)
			return 0;
	}
	return r;
}

static int find_mig_uuid(const struct gpu_machine *m, const char *text, struct gpu_chosen *ret)
{
	int r = -ENODEV, is_whole;

	for (size_t i = 0; i < m->n_gpus; i++)
		for (size_t k = 0; k < m->gpus[i].n_mig; k++) {
			if (!fits(m->gpus[i].mig[k].uuid, text, strlen(text), &is_whole))
				continue;
			r = found((struct gpu_chosen){ i, (int)k }, is_whole, r, ret);
			if (is_whole)
				return 0;
		}
	return r;
}

/* Find "GPU-…/1/0", which follows "MIG-". */
static int find_instance(const struct gpu_machine *m, const char *text, struct gpu_chosen *ret)
{
	const char *first = strchr(text, '/'), *second = first ? strchr(first + 1, '/') : NULL;
	unsigned long gi, ci;
	struct gpu_chosen c;

	if (!second || read_number(first + 1, (size_t)(second - first - 1), 10, &gi) < 0 ||
		read_number(second + 1, strlen(second + 1), 10, &ci) < 0)
		return -ENODEV;
	TRY(find_gpu_uuid(m, text, (size_t)(first - text), &c));
	for (size_t k = 0; k < m->gpus[c.gpu].n_mig; k++)
		if (m->gpus[c.gpu].mig[k].gi == gi && m->gpus[c.gpu].mig[k].ci == ci) {
			*ret = (struct gpu_chosen){ c.gpu, (int)k };
			return 0;
		}
	return -ENODEV;
}

static int begins(const char *text, const char *word)
{
	return strncasecmp(text, word, strlen(word)) == 0 && text[strlen(word)];
}

int gpu_name_is_uuid(const char *text)
{
	return begins(text, "GPU-") || begins(text, "MIG-");
}

int gpu_name_find(const struct gpu_machine *m, enum gpu_vendor vendor, const char *text,
	struct gpu_chosen *ret)
{
	if (begins(text, "MIG-GPU-"))
		return find_instance(m, text + strlen("MIG-"), ret);
	if (begins(text, "MIG-"))
		return find_mig_uuid(m, text, ret);
	if (begins(text, "GPU-"))
		return find_gpu_uuid(m, text, strlen(text), ret);
	if (strchr(text, '.'))
		return find_bus_id(m, text, ret);
	if (strchr(text, ':'))
		return find_part(m, vendor, text, ret);
	return find_index(m, vendor, text, strlen(text), ret);
}

char *gpu_name_uuid(const struct gpu_machine *m, struct gpu_chosen c)
{
	const struct gpu *g = &m->gpus[c.gpu];
	const struct gpu_mig *part = c.mig >= 0 ? &g->mig[c.mig] : NULL;

	if (part && part->uuid)
		return xstrdup(part->uuid);
	if (!g->uuid)
		return NULL;
	return part ? xasprintf("MIG-%s/%u/%u", g->uuid, part->gi, part->ci) : xstrdup(g->uuid);
}

char *gpu_name_print(const struct gpu_machine *m, struct gpu_chosen c)
{
	const struct gpu *g = &m->gpus[c.gpu];
	auto_free char *uuid = gpu_name_uuid(m, c), *number = NULL;

	if (g->index < 0)
		number = xstrdup(g->bus_id && *g->bus_id ? g->bus_id : "?");
	else if (c.mig >= 0)
		number = xasprintf("%d:%d", g->index, c.mig);
	else
		number = xasprintf("%d", g->index);
	if (c.mig >= 0 || !g->model)
		return uuid ? xasprintf("%s (%s)", number, uuid) : take_ptr(&number);
	return xasprintf("%s (%s%s%s)", number, g->model, uuid ? ", " : "", uuid ? uuid : "");
}

char *gpu_name_list(const struct gpu_machine *m)
{
	auto_strv struct strv names = STRV_INIT;

	for (size_t i = 0; i < m->n_gpus; i++) {
		if (m->gpus[i].index < 0)
			continue;
		strv_take(&names, gpu_name_print(m, (struct gpu_chosen){ i, -1 }));
		for (size_t k = 0; k < m->gpus[i].n_mig; k++)
			strv_take(&names, gpu_name_print(m, (struct gpu_chosen){ i, (int)k }));
	}
	return names.n ? strv_join(&names, names.n, ", ") : xstrdup("none");
}

static char *node_obstacle(const struct gpu_node *n)
{
	return n->error == EPERM ? xasprintf("the job's cgroup denies %s", n->path)
				 : gpu_node_why(n);
}

char *gpu_name_obstacle(const struct gpu_machine *m, struct gpu_chosen c)
{
	const struct gpu *g = &m->gpus[c.gpu];
	const struct gpu_mig *part = c.mig >= 0 ? &g->mig[c.mig] : NULL;
	char *why = NULL;

	if (!g->node.path)
		return xstrdup(
			"it has no device node; nvidia-modprobe or nvidia-smi, run by root, make it");
	why = node_obstacle(&g->node);
	if (!why && part && part->gi_node.path)
		why = node_obstacle(&part->gi_node);
	if (!why && part && part->ci_node.path)
		why = node_obstacle(&part->ci_node);
	if (!why && g->index < 0)
		why = xasprintf("%s cannot be opened", g->node.path);
	return why;
}
