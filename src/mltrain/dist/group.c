#include "dist/group.h"

#include "dist/sums.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define SEGMENT NODE_SUMS_PATH "." /* as sums.h names it */

void group_describe_self(struct member *ret)
{
	const char *worker = getenv("MLRUN_ELASTIC_WORKER");
	auto_free char *boot = NULL;

	*ret = (struct member){ .pid = getpid() };
	snprintf(ret->worker, sizeof(ret->worker), "%s", worker ? worker : "");
	gethostname(ret->host, sizeof(ret->host) - 1);
	if (file_read(AT_FDCWD, BOOT_ID, 64, &boot, NULL, NULL) == 0)
		strncpy(ret->boot, boot, strcspn(boot, "\n") < 39 ? strcspn(boot, "\n") : 39);
}

void group_digest_options(const json_t *options, uint32_t ret[GROUP_OPTIONS])
{
	const char *name;
	json_t *value;
	size_t n = 0;

	memset(ret, 0, GROUP_OPTIONS * sizeof(*ret));
	json_object_foreach((json_t *)options, name, value) {
		auto_free char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		auto_free char *pair = xasprintf("%s=%s", name, text ? text : "");
		char hex[HASH_HEX_SIZE];

		hash_name(pair, hex);
		hex[8] = '\0';
		ret[n++ % GROUP_OPTIONS] ^= (uint32_t)strtoul(hex, NULL, 16);
	}
}

size_t group_size(const struct group *g)
{
	return offsetof(struct group, member) + g->n * sizeof(struct member);
}

static int is_text(const char *s, size_t size)
{
	return memchr(s, '\0', size) != NULL;
}

static int is_member(const struct member *m)
{
	return is_text(m->host, sizeof(m->host)) && is_text(m->boot, sizeof(m->boot)) &&
		is_text(m->worker, sizeof(m->worker)) && !strchr(m->worker, '/') &&
		m->offer.addresses <= LIFELINE_ADDRESSES && m->offer.port > 0 &&
		m->offer.port <= 65535;
}

static int is_group(const struct group *g)
{
	if (!is_text(g->segment, sizeof(g->segment)) || group_find(g, g->source) < 0)
		return 0;
	if (g->segment[0] &&
		(strncmp(g->segment, SEGMENT, strlen(SEGMENT)) != 0 ||
			strchr(g->segment + strlen(SEGMENT), '/')))
		return 0;
	for (uint32_t i = 0; i < g->n; i++)
		if (!is_member(&g->member[i]) || g->member[i].id >= g->next_id ||
			(i && g->member[i].id <= g->member[i - 1].id))
			return 0;
	return 1;
}

int group_parse(const void *body, size_t size, struct group *ret, struct mlr_error *err)
{
	struct group g = { 0 };
	size_t head = offsetof(struct group, member);

	if (size >= head && size <= sizeof(g)) {
		memcpy(&g, body, size);
		if (g.n > 0 && g.n <= GROUP_MAX && size == group_size(&g) && is_group(&g)) {
			*ret = g;
			return 0;
		}
	}
	return mlr_fail(err, EPROTO, "a damaged list of ranks");
}

int group_parse_join(const void *body, size_t size, struct group_join *ret, struct mlr_error *err)
{
	struct group_join j;

	if (size == sizeof(j)) {
		memcpy(&j, body, size);
		if (is_text(j.version, sizeof(j.version)) && is_text(j.data, sizeof(j.data)) &&
			is_member(&j.self)) {
			*ret = j;
			return 0;
		}
	}
	return mlr_fail(err, EPROTO, "malformed request to join");
}

int group_parse_report(
	const void *body, size_t size, struct group_report *ret, struct mlr_error *err)
{
	if (size != sizeof(*ret))
		return mlr_fail(err, EPROTO, "malformed report");
	memcpy(ret, body, size);
	return 0;
}

int group_find(const struct group *g, uint64_t id)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (g->member[i].id == id)
			return (int)i;
	return -1;
}

int group_is_same(const struct member *a, const struct member *b)
{
	return a->pid == b->pid && a->offer.port == b->offer.port && strcmp(a->host, b->host) == 0;
}

/* Has a come farther than b? */
static int is_ahead(const struct group_progress *a, const struct group_progress *b)
{
	if (!a->has || !b->has)
		return a->has && !b->has;
	return a->step != b->step ? a->step > b->step : a->epochs_done > b->epochs_done;
}

int group_next(const struct group *old, const struct group_report *reports,
	const struct member *joiners, int n, int max, struct group *ret)
{
	struct group_progress far = { 0 }, at[GROUP_MAX] = { { 0 } };
	struct group g = { .generation = old->generation + 1, .next_id = old->next_id };
	int taken = 0;

	for (uint32_t i = 0; i < old->n; i++) {
		if (!reports[i].id || reports[i].leaves)
			continue;
		if (reports[i].generation >= g.generation)
			g.generation = reports[i].generation + 1;
		if (g.n == 0 || is_ahead(&reports[i].at, &far)) {
			far = reports[i].at;
			g.source = reports[i].id;
		}
		at[g.n] = reports[i].at;
		g.member[g.n++] = old->member[i];
	}
	for (; taken < n && (int)g.n < max && g.n < GROUP_MAX; taken++) {
		g.member[g.n] = joiners[taken];
		g.member[g.n++].id = g.next_id++;
	}
	for (uint32_t i = 0; i < g.n; i++)
		g.member[i].needs = is_ahead(&far, &at[i]);
	*ret = g;
	return taken;
}

int group_is_local(const struct group *g)
{
	for (uint32_t i = 0; i < g->n; i++)
		if (!g->member[i].boot[0] || strcmp(g->member[i].boot, g->member[0].boot) != 0)
			return 0;
	return 1;
}

int group_first_row(int batch, int rank, int ranks)
{
	return (int)((int64_t)batch * rank / ranks);
}
