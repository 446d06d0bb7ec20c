#include "work/step.h"

#include "base/base.h"

#include <sys/syscall.h>

void step_done(struct step *s)
{
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct step)STEP_INIT;
}

static int read_stat(int proc, pid_t pid, struct proc_stat *ret)
{
	char name[32];

	snprintf(name, sizeof(name), "%ld/stat", (long)pid);
	return proc_stat_read(proc, name, ret);
}

/* The parent of a process, and whether it is Slurm's for a step. "pid (name) state ppid ..." */
static pid_t parent_of(int proc, pid_t pid, int *is_step)
{
	char name[32], text[512], *end;
	pid_t parent = 0;
	char state;

	snprintf(name, sizeof(name), "%ld/stat", (long)pid);
	if (proc_read(proc, name, text, sizeof(text)) < 0 || !(end = strrchr(text, ')')) ||
		sscanf(end + 1, " %c %d", &state, &parent) != 2)
		return 0;
	*end = '\0';
	*is_step = strstr(text, " (slurmstepd") != NULL;
	return parent;
}

void step_find(int proc, struct step *ret)
{
	int is_step = 0;

	for (pid_t pid = getppid(), next; pid > 1; pid = next) {
		next = parent_of(proc, pid, &is_step);
		if (!is_step)
			continue;
		if (read_stat(proc, pid, &ret->keeper) == 0)
			ret->fd = (int)syscall(SYS_pidfd_open, pid, 0);
		return;
	}
}

int step_has_ended(int proc, const struct step *s)
{
	struct proc_stat now;

	return s->keeper.pid > 0 &&
		(read_stat(proc, s->keeper.pid, &now) < 0 || now.start != s->keeper.start);
}
