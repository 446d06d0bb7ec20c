#include "store/process.h"

#include "base/proc.h"
#include "store/unsynced.h"

void store_process_host(char host[STORE_HOST_SIZE])
{
	memset(host, 0, STORE_HOST_SIZE);
	if (gethostname(host, STORE_HOST_SIZE - 1) < 0 || !host[0])
		strcpy(host, "localhost");
	for (char *c = host; *c; c++)
		if (*c == '/' || (unsigned char)*c <= ' ')
			*c = '_';
}

int store_process_boot(char boot[STORE_BOOT_SIZE])
{
	char buf[64];

	TRY(proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", buf, sizeof(buf)));
	buf[strcspn(buf, "\n")] = '\0';
	snprintf(boot, STORE_BOOT_SIZE, "%.36s", buf);
	return 0;
}

/* The inode of this process's PID namespace, read from the link's text (namespaces(7)): following
 * the link takes three times as long. 0 without one. */
static unsigned long long own_pid_ns(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);

	if (n < 0)
		return 0;
	text[n] = '\0';
	return strncmp(text, "pid:[", 5) == 0 ? strtoull(text + 5, NULL, 10) : 0;
}

int store_process_self(struct store_process *ret)
{
	struct store_process p = { .pid = getpid() };
	struct proc_stat shown;

	TRY(store_process_boot(p.boot));
	TRY(proc_stat_read(AT_FDCWD, "/proc/self/stat", &shown));
	p.start = shown.start;
	if (shown.pid == p.pid) /* else /proc is another namespace's */
		p.pid_ns = own_pid_ns();
	store_process_host(p.host);
	*ret = p;
	return 0;
}

void store_process_name(const struct store_process *p, char name[STORE_PROCESS_NAME])
{
	snprintf(name, STORE_PROCESS_NAME, "%s.%s.%llu.%ld.%llu", p->host, p->boot, p->pid_ns,
		(long)p->pid, p->start);
}

int store_process_parse(const char *name, struct store_process *ret)
{
	struct store_process p = { .pid = 0 };
	char buf[STORE_PROCESS_NAME], *field[4];

	if (strlen(name) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, name);
	for (int i = 0; i < 4; i++) {
		field[i] = strrchr(buf, '.');
		if (!field[i])
			return -EINVAL;
		*field[i]++ = '\0';
	}
	p.pid_ns = strtoull(field[2], NULL, 10);
	p.pid = (pid_t)strtol(field[1], NULL, 10);
	p.start = strtoull(field[0], NULL, 10);
	if (p.pid <= 0 || strlen(buf) >= sizeof(p.host) || strlen(field[3]) >= sizeof(p.boot))
		return -EINVAL;
	strcpy(p.host, buf);
	strcpy(p.boot, field[3]);
	*ret = p;
	return 0;
}

int store_work_path(const char *kind, char path[STORE_WORK_PATH], struct mlr_error *err)
{
	static unsigned serial;
	struct store_process self;
	char who[STORE_PROCESS_NAME];

	TRY(mlr_result(err, store_process_self(&self), "read /proc/self/stat and boot_id"));
	store_process_name(&self, who);
	snprintf(path, STORE_WORK_PATH, "tmp/%s.%u.%s", kind,
		__atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED), who);
	return 0;
}

static int alive_here(const struct store_process *p, const struct store_process *self)
{
	if (strcmp(p->host, self->host) != 0)
		return -1;
	if (strcmp(p->boot, self->boot) != 0)
		return 0;
	if (p->pid_ns != self->pid_ns || self->pid_ns == 0)
		return -1;
	return proc_is_running(p->pid, p->start);
}

int store_process_judge(
	struct store *st, const struct store_process *p, const struct store_process *self)
{
	int alive = alive_here(p, self);

	/* Only one boot at a time uses a local file system. */
	return alive == 0 && strcmp(p->boot, self->boot) != 0 && !unsynced_allowed(st) ? -1 : alive;
}
