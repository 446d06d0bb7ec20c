#include "cli/top.h"

#include "base/proc.h"
#include "cli/common.h"

#define COMMAND_MAX 512 /* bytes of a command line shown */

static const struct gpu_sample *find_sample(const struct gpu_sample *v, int n, const char *bus_id)
{
	for (int i = 0; bus_id && i < n; i++)
		if (strcmp(v[i].bus_id, bus_id) == 0)
			return &v[i];
	return NULL;
}

/* Read a process's arguments, each ending with a NUL; without any, as for the kernel's, its
 * name. */
static char *command_of(int dir)
{
	char text[COMMAND_MAX];
	auto_close int fd = openat(dir, "cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n <= 0)
		return proc_read(dir, "comm", text, sizeof(text)) < 0
			? xstrdup("?")
			: xstrndup(text, strcspn(text, "\n"));
	while (n > 0 && text[n - 1] == '\0')
		n--;
	text[n] = '\0';
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	return xstrdup(text);
}

static void describe(struct top_process *p)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%ld", (long)p->pid);
	auto_close int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fstat(dir, &st) < 0) {
		p->user = xstrdup("?");
		p->command = xstrdup("?");
		return;
	}
	p->user = cli_user_name(st.st_uid);
	p->command = command_of(dir);
}

static void add_processes(struct top *t, const struct top_gpu *g)
{
	for (size_t i = 0; g->sample && i < g->sample->n_processes; i++) {
		const struct gpu_process *from = &g->sample->processes[i];
		struct top_process *p = xadd(t->processes, t->n_processes);
		*p = (struct top_process){
			.pid = from->pid, .index = g->gpu->index, .memory = from->memory
		};
		describe(p);
	}
}

void top_fill(struct top *ret, const struct gpu_machine *m, const char *is_shown,
	const struct gpu_sample *samples, int n, const struct top_node *node)
{
	ret->time = time(NULL);
	ret->node = *node;
	ret->gpus = xcalloc(m->n_gpus + 1, sizeof(*ret->gpus));
	ret->n_gpus = 0;
	for (size_t i = 0; i < m->n_gpus; i++) {
		struct top_gpu *g = &ret->gpus[ret->n_gpus];

		if (!is_shown[i])
			continue;
		*g = (struct top_gpu){ &m->gpus[i], find_sample(samples, n, m->gpus[i].bus_id) };
		ret->n_gpus++;
		add_processes(ret, g);
	}
}

void top_empty(struct top *t)
{
	for (size_t i = 0; i < t->n_processes; i++) {
		free(t->processes[i].user);
		free(t->processes[i].command);
	}
	free(t->processes);
	free(t->gpus);
	t->processes = NULL;
	t->gpus = NULL;
	t->n_processes = t->n_gpus = 0;
}
