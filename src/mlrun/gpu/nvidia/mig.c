#include "gpu/nvidia/nvidia.h"

#include "gpu/node.h"

#define CAPABILITIES "/proc/driver/nvidia/capabilities"
#define MINORS       "/proc/driver/nvidia-caps/mig-minors"

static int by_number(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return (x > y) - (x < y);
}

/* The numbers of "gi0", "gi1" ... in a directory, ascending, to free(). */
static long *numbers_of(const struct gpu_dir *d, const char *dir, const char *word, size_t *n)
{
	auto_strv struct strv names = STRV_INIT;
	long *v;

	*n = 0;
	if (gpu_dir_list(d, dir, &names) < 0)
		return NULL;
	v = xcalloc(names.n + 1, sizeof(*v));
	for (size_t i = 0; i < names.n; i++)
		if (gpu_number_behind(names.v[i], word) >= 0)
			v[(*n)++] = gpu_number_behind(names.v[i], word);
	qsort(v, *n, sizeof(*v), by_number);
	return v;
}

/* A capability's device minor from its own file, "DeviceFileMinor: 12"; -1: unknown. */
static long minor_of_file(const struct gpu_dir *d, const char *access)
{
	auto_free char *text = gpu_dir_read(d, access);
	const char *at = text ? strstr(text, "DeviceFileMinor:") : NULL;
	unsigned minor;

	return at && sscanf(at + strlen("DeviceFileMinor:"), "%7u", &minor) == 1 ? (long)minor : -1;
}

/* The same from the list of all, with lines "gpu0/gi1/ci0/access 12"; the last may be truncated. */
static long minor_of_list(const char *list, const char *name)
{
	size_t len = strlen(name);
	unsigned minor;
	int end = 0;

	for (const char *line = list; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ' ')
			return sscanf(line + len, "%7u%n", &minor, &end) == 1 &&
					line[len + (size_t)end] == '\n'
				? (long)minor
				: -1;
	}
	return -1;
}

struct search {
	const struct gpu_dir *d;
	long caps;
	char *list; /* text of MINORS; NULL: not read yet, or missing */
	struct strv *warnings;
};

/* Find the node of a capability. Users open it only for reading: mode 0444. */
static void find_node(struct search *s, const char *access, const char *name, struct gpu_node *ret)
{
	auto_free char *path = NULL;
	long minor;

	if (s->caps == GPU_MIG_NO_CAPS)
		return;
	minor = minor_of_file(s->d, access);
	if (minor < 0) {
		s->list = s->list ? s->list : gpu_dir_read(s->d, MINORS);
		minor = minor_of_list(s->list, name);
	}
	if (minor < 0) {
		strv_addf(s->warnings,
			"neither '%s' nor '%s' names the device of this part of a GPU", access,
			MINORS);
		return;
	}
	path = xasprintf("/dev/nvidia-caps/nvidia-cap%ld", minor);
	const struct gpu_node_want want = { path, s->caps < 0 ? -1 : s->caps, minor, R_OK };

	if (gpu_node_look(s->d, &want, ret, s->warnings) == 0)
		return;
	*ret = (struct gpu_node){ .path = take_ptr(&path),
		.major = s->caps < 0 ? 0 : (unsigned)s->caps,
		.minor = (unsigned)minor,
		.error = ENOENT };
	strv_addf(s->warnings,
		"'%s' is missing, so this part of a GPU cannot be used: as root, nvidia-modprobe -f %s",
		ret->path, access);
}

static void add_part(struct search *s, struct gpu *g, unsigned gi, unsigned ci)
{
	auto_free char *gi_name = xasprintf("gpu%u/gi%u/access", g->minor, gi),
		       *ci_name = xasprintf("gpu%u/gi%u/ci%u/access", g->minor, gi, ci);
	struct gpu_mig *part;

	part = xadd(g->mig, g->n_mig);
	*part = (struct gpu_mig){ .gi = gi, .ci = ci };
	part->gi_access = xasprintf(CAPABILITIES "/gpu%u/mig/gi%u/access", g->minor, gi);
	part->ci_access = xasprintf(CAPABILITIES "/gpu%u/mig/gi%u/ci%u/access", g->minor, gi, ci);
	find_node(s, part->gi_access, gi_name, &part->gi_node);
	find_node(s, part->ci_access, ci_name, &part->ci_node);
}

void gpu_mig_find(const struct gpu_dir *d, long caps, struct gpu *g, struct strv *warnings)
{
	auto_free char *dir = xasprintf(CAPABILITIES "/gpu%u/mig", g->minor);
	struct search s = { d, caps, NULL, warnings };
	size_t n_gi, n_ci;
	auto_free long *gi = numbers_of(d, dir, "gi", &n_gi);

	for (size_t i = 0; i < n_gi; i++) {
		auto_free char *below = xasprintf("%s/gi%ld", dir, gi[i]);
		auto_free long *ci = numbers_of(d, below, "ci", &n_ci);

		for (size_t j = 0; j < n_ci; j++)
			add_part(&s, g, (unsigned)gi[i], (unsigned)ci[j]);
	}
	free(s.list);
}
