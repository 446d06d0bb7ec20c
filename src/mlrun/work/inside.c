#include "work/inside.h"

#include "base/base.h"
#include "base/proc.h"
#include "runtime/container.h"

/* An init of ours, or a process that has not executed its command yet, and perhaps cannot. */
static int is_ours(int proc, pid_t pid)
{
	struct stat own, exe;
	char name[32];

	snprintf(name, sizeof(name), "%ld/exe", (long)pid);
	return fstatat(proc, "self/exe", &own, 0) == 0 && fstatat(proc, name, &exe, 0) == 0 &&
		own.st_ino == exe.st_ino && own.st_dev == exe.st_dev;
}

pid_t inside_find(int proc, pid_t pid, uint64_t *id)
{
	auto_call(container_done) struct container c = CONTAINER_INIT;
	char name[64], children[4096], *rest = children, *word;

	if (container_look(proc, pid, &c) == 0 && !is_ours(proc, pid)) {
		*id = c.id;
		return pid;
	}
	snprintf(name, sizeof(name), "%ld/task/%ld/children", (long)pid, (long)pid);
	if (proc_read(proc, name, children, sizeof(children)) < 0)
		return 0;
	while ((word = strsep(&rest, " "))) {
		pid_t child = (pid_t)atol(word),
		      found = child > 0 ? inside_find(proc, child, id) : 0;

		if (found > 0)
			return found;
	}
	return 0;
}

void inside_kill(int proc, uint64_t id)
{
	struct timespec nap = { 0, 5 * 1000000 };
	int found = id != 0;

	for (int i = 0; found && i < 200; i++) {
		auto_strv struct strv names = STRV_INIT;

		found = 0;
		file_list(proc, ".", 0, &names);
		for (size_t k = 0; k < names.n; k++) {
			auto_call(container_done) struct container c = CONTAINER_INIT;
			pid_t pid = (pid_t)atol(names.v[k]);

			if (pid <= 0 || container_look(proc, pid, &c) < 0 || c.id != id)
				continue;
			kill(pid, SIGKILL);
			found = 1;
		}
		if (found)
			nanosleep(&nap, NULL);
	}
}
