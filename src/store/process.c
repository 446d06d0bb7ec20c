#include "store/process.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "store/unsynced.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A small file of /proc, NUL-terminated. */
static int read_proc(const char *path, char *buf, size_t size)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1); /* these files come whole in one read */
	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	buf[n] = '\0';
	return 0;
}

/* The start time and the pid in "pid (name) state ppid ...": counted after the last ')', as the
 * name may hold any byte. One that has ended and was not waited for (Z, X) is -ESRCH. */
static int read_stat(const char *path, pid_t *pid, unsigned long long *start)
{
	char buf[1024], *s;
	int r = read_proc(path, buf, sizeof(buf));

	if (r < 0)
		return r;
	s = strrchr(buf, ')');
	if (s && s[1] == ' ' && (s[2] == 'Z' || s[2] == 'X'))
		return -ESRCH;
	for (int field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	if (!s)
		return -EIO;
	*pid = (pid_t)strtol(buf, NULL, 10);
	*start = strtoull(s + 1, NULL, 10);
	return 0;
}

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
	int r = read_proc("/proc/sys/kernel/random/boot_id", buf, sizeof(buf));

	if (r < 0)
		return r;
	buf[strcspn(buf, "\n")] = '\0';
	snprintf(boot, STORE_BOOT_SIZE, "%.36s", buf);
	return 0;
}

int store_process_self(struct store_process *ret)
{
	struct store_process p = { .pid = getpid() };
	struct stat sb;
	pid_t shown;
	int r = store_process_boot(p.boot);

	if (r < 0)
		return r;
	r = read_stat("/proc/self/stat", &shown, &p.start);
	if (r < 0)
		return r;
	if (shown == p.pid && stat("/proc/self/ns/pid", &sb) == 0) /* else /proc is another's */
		p.pid_ns = sb.st_ino;
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

int store_process_alive(const struct store_process *p, const struct store_process *self)
{
	unsigned long long start;
	char path[40];
	pid_t pid;

	if (strcmp(p->host, self->host) != 0)
		return -1;
	if (strcmp(p->boot, self->boot) != 0)
		return 0;
	if (p->pid_ns != self->pid_ns || self->pid_ns == 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)p->pid);
	return read_stat(path, &pid, &start) == 0 && start == p->start;
}

int store_process_judge(
	struct store *st, const struct store_process *p, const struct store_process *self)
{
	int alive = store_process_alive(p, self);

	/* A local file system knows of one boot at a time. */
	return alive == 0 && strcmp(p->boot, self->boot) != 0 && !unsynced_allowed(st) ? -1 : alive;
}
