#include "work/inside.h"

#include "base/base.h"
#include "base/proc.h"
#include "runtime/container.h"

#include <sys/sysmacros.h>

/* An init of ours, or a process that has not executed its command yet, and perhaps cannot. */
static int is_ours(int proc, pid_t pid)
{
	struct stat own, exe;
	char name[32];

	snprintf(name, sizeof(name), "%ld/exe", (long)pid);
	return fstatat(proc, "self/exe", &own, 0) == 0 && fstatat(proc, name, &exe, 0) == 0 &&
		own.st_ino == exe.st_ino && own.st_dev == exe.st_dev;
}

static int take(int proc, pid_t pid, const struct container *c, struct inside *ret)
{
	auto_close int root = -1;
	struct stat sb;
	char name[32];

	snprintf(name, sizeof(name), "%ld/root", (long)pid);
	root = openat(proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fstat(root, &sb) < 0 ||
		c->id != ((uint64_t)major(sb.st_dev) << 32 | minor(sb.st_dev)))
		return 0; /* it has ended meanwhile */
	if (ret->root >= 0)
		close(ret->root);
	*ret = (struct inside){ c->id, take_fd(&root) };
	return 1;
}

pid_t inside_find(int proc, pid_t pid, struct inside *ret)
{
	auto_call(container_done) struct container c = CONTAINER_INIT;
	char name[64], children[4096], *rest = children, *word;

	if (container_look(proc, pid, &c) == 0 && !is_ours(proc, pid) && take(proc, pid, &c, ret))
		return pid;
	snprintf(name, sizeof(name), "%ld/task/%ld/children", (long)pid, (long)pid);
	if (proc_read(proc, name, children, sizeof(children)) < 0)
		return 0;
	while ((word = strsep(&rest, " "))) {
		pid_t child = (pid_t)atol(word),
		      found = child > 0 ? inside_find(proc, child, ret) : 0;

		if (found > 0)
			return found;
	}
	return 0;
}

void inside_kill(int proc, struct inside *in)
{
	struct timespec nap = { 0, 5 * 1000000 };
	int found = in->id != 0;

	for (int i = 0; found && i < 200; i++) {
		auto_strv struct strv names = STRV_INIT;

		found = 0;
		file_list(proc, ".", 0, &names);
		for (size_t k = 0; k < names.n; k++) {
			auto_call(container_done) struct container c = CONTAINER_INIT;
			pid_t pid = (pid_t)atol(names.v[k]);

			if (pid <= 0 || container_look(proc, pid, &c) < 0 || c.id != in->id)
				continue;
			kill(pid, SIGKILL);
			found = 1;
		}
		if (found)
			nanosleep(&nap, NULL);
	}
	if (in->root >= 0)
		close(in->root);
	*in = (struct inside)INSIDE_INIT;
}
