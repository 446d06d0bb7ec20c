#include "cli/top_node.h"

#include <sched.h>

#define TEXT_MAX (4u << 20) /* bytes of /proc/stat, which lists a large machine's interrupts */

struct ticks {
	uint64_t busy, all;
};

struct top_node_watch {
	char *root;
	struct ticks sum;
	size_t n_cores;
	char *cpu_dir, *memory_dir; /* the job's group, below root; NULL */
	char *job;
	int64_t job_ns, when_ns; /* the job's processor time, and when it was read */
};

static char *read_text(const struct top_node_watch *w, const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s%s/%s", w->root, dir, name);
	char *text = NULL;

	return file_read(AT_FDCWD, path, TEXT_MAX, &text, NULL, NULL) < 0 ? NULL : text;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static char *next_line(char **text)
{
	return *text && **text ? strsep(text, "\n") : NULL;
}

/* --- processors ------------------------------------------------------------ */

/* Read "cpu0 user nice system idle iowait irq softirq steal guest ..." (proc_stat(5)); guest is
 * part of user. */
static int read_ticks(const char *line, struct ticks *ret)
{
	struct ticks t = { 0, 0 };
	char *s = (char *)line + strcspn(line, " ");

	for (int i = 0; i < 8; i++) {
		char *end;
		uint64_t v = strtoull(s, &end, 10);

		if (end == s)
			return i >= 4 ? (*ret = t, 0) : -1;
		t.all += v;
		t.busy += i == 3 || i == 4 ? 0 : v;
		s = end;
	}
	*ret = t;
	return 0;
}

/* The busy percentage; -1 if no time has passed. iowait may decrease. */
static int percent(const struct ticks *before, const struct ticks *now)
{
	uint64_t all = now->all - before->all, busy = now->busy - before->busy;

	if (now->all <= before->all)
		return -1;
	return now->busy < before->busy ? 0
		: busy >= all           ? 100
					: (int)((busy * 100 + all / 2) / all);
}

/* Returns the busy percentage of all processors. */
static int read_processors(struct top_node_watch *w)
{
	auto_free char *text = read_text(w, "/proc", "stat");
	struct ticks t, before = w->sum;
	char *rest = text, *line;

	w->n_cores = 0;
	while ((line = next_line(&rest)) && strncmp(line, "cpu", 3) == 0) {
		if (isdigit((unsigned char)line[3]))
			w->n_cores++;
		else if (read_ticks(line, &t) == 0)
			w->sum = t;
	}
	return percent(&before, &w->sum);
}

/* --- memory ------------------------------------------------------------------ */

/* Find "MemTotal:       16384 kB"; -1: missing. */
static int64_t kilobytes(const char *text, const char *key)
{
	const char *s = text ? strstr(text, key) : NULL;
	int64_t v;

	return s && sscanf(s + strlen(key), ": %" SCNd64, &v) == 1 ? v * 1024 : -1;
}

static void read_memory(const struct top_node_watch *w, struct top_node *ret)
{
	auto_free char *text = read_text(w, "/proc", "meminfo");
	int64_t available = kilobytes(text, "MemAvailable");

	ret->memory_total = kilobytes(text, "MemTotal");
	ret->memory_used = available < 0 ? -1 : ret->memory_total - available;
}

static double read_load(const struct top_node_watch *w)
{
	auto_free char *text = read_text(w, "/proc", "loadavg");

	return text ? strtod(text, NULL) : -1;
}

/* --- the job's control group, cgroups(7) ----------------------------------------- */

/* Does a list of controllers, "cpu,cpuacct", contain this one? */
static int has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
		if (strcspn(s, ",") == len && strncmp(s, word, len) == 0)
			return 1;
	return 0;
}

/* Cut "/slurm/uid_1000/job_1234/step_0" above the step, and get the job's name. */
static char *job_part(const char *path, int is_job, char **name)
{
	const char *s = strstr(path, "/job_");
	size_t len = s ? strlen("/job_") + strspn(s + strlen("/job_"), "0123456789") : 0;

	if (s && len > strlen("/job_") && (s[len] == '/' || !s[len])) {
		if (!*name)
			*name = xstrndup(s + 1, len - 1);
		return xstrndup(path, (size_t)(s - path) + len);
	}
	if (!is_job || strcmp(path, "/") == 0)
		return NULL;
	if (!*name)
		*name = xstrdup("job");
	return xstrdup(path);
}

static void take_group(char **field, const char *mount, const char *group)
{
	free(*field);
	*field = xasprintf("/sys/fs/cgroup%s%s", mount, group);
}

/* Read a line "4:memory:/slurm/…" or "0::/system.slice/…"; cgroup v1 has a named hierarchy for each
 * controller. */
static void read_group(struct top_node_watch *w, char *line, int is_job)
{
	char *controllers = strchr(line, ':'),
	     *path = controllers ? strchr(controllers + 1, ':') : NULL;
	auto_free char *group = NULL;

	if (!path)
		return;
	*path++ = '\0';
	controllers++;
	group = job_part(path, is_job, &w->job);
	if (!group)
		return;
	if (!*controllers) {
		if (!w->cpu_dir)
			take_group(&w->cpu_dir, "", group);
		if (!w->memory_dir)
			take_group(&w->memory_dir, "", group);
	}
	if (has_word(controllers, "cpuacct"))
		take_group(&w->cpu_dir, "/cpuacct", group);
	if (has_word(controllers, "memory"))
		take_group(&w->memory_dir, "/memory", group);
}

static void find_group(struct top_node_watch *w, int is_job)
{
	auto_free char *text = read_text(w, "/proc", "self/cgroup");
	char *rest = text, *line;

	while ((line = next_line(&rest)))
		read_group(w, line, is_job);
}

/* Read a number from a group's file; "max" and its equivalent in cgroup v1 mean no limit: -1. */
static int64_t group_number(const struct top_node_watch *w, const char *dir, const char *name)
{
	auto_free char *text = dir ? read_text(w, dir, name) : NULL;
	int64_t v;

	return text && isdigit((unsigned char)*text) && sscanf(text, "%" SCNd64, &v) == 1 &&
			v < INT64_MAX / 2
		? v
		: -1;
}

/* The group's total processor time in nanoseconds. */
static int64_t group_time(const struct top_node_watch *w)
{
	auto_free char *text = w->cpu_dir ? read_text(w, w->cpu_dir, "cpu.stat") : NULL;
	const char *s = text ? strstr(text, "usage_usec ") : NULL;

	return s ? strtoll(s + strlen("usage_usec "), NULL, 10) * 1000
		 : group_number(w, w->cpu_dir, "cpuacct.usage");
}

static void read_job(struct top_node_watch *w, struct top_node *ret)
{
	int64_t ns = group_time(w), when = now_ns();
	cpu_set_t set;

	ret->job = w->job;
	if (ns >= 0 && w->job_ns >= 0 && when > w->when_ns)
		ret->job_busy = (double)(ns - w->job_ns) / (double)(when - w->when_ns);
	w->job_ns = ns;
	w->when_ns = when;
	ret->job_cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : -1;
	ret->job_memory_used = group_number(w, w->memory_dir, "memory.current");
	if (ret->job_memory_used < 0)
		ret->job_memory_used = group_number(w, w->memory_dir, "memory.usage_in_bytes");
	ret->job_memory_limit = group_number(w, w->memory_dir, "memory.max");
	if (ret->job_memory_limit < 0)
		ret->job_memory_limit = group_number(w, w->memory_dir, "memory.limit_in_bytes");
}

/* --- the watch ----------------------------------------------------------------- */

void top_node_next(struct top_node_watch *w, struct top_node *ret)
{
	*ret = (struct top_node){
		.job_cores = -1, .job_busy = -1, .job_memory_used = -1, .job_memory_limit = -1
	};
	ret->busy = read_processors(w);
	ret->n_cores = w->n_cores;
	ret->load = read_load(w);
	read_memory(w, ret);
	if (w->job)
		read_job(w, ret);
}

struct top_node_watch *top_node_watch_new(const char *root, int is_job)
{
	struct top_node_watch *w = xcalloc(1, sizeof(*w));
	struct top_node first;

	w->root = xstrdup(strcmp(root, "/") == 0 ? "" : root);
	w->job_ns = -1;
	find_group(w, is_job);
	top_node_next(w, &first);
	return w;
}

void top_node_watch_free(struct top_node_watch *w)
{
	if (!w)
		return;
	free(w->root);
	free(w->cpu_dir);
	free(w->memory_dir);
	free(w->job);
	free(w);
}
