#include "base/proc.h"

#include "base/base.h"

#include <linux/keyctl.h>
#include <sys/syscall.h>

int proc_read(int dir, const char *name, char *buf, size_t size)
{
	auto_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1); /* one read gets these files completely */
	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	buf[n] = '\0';
	return 0;
}

/* Count fields from the last ')'. */
int proc_stat_parse(const char *text, struct proc_stat *ret)
{
	const char *s = strrchr(text, ')');
	struct proc_stat got = { .pid = (pid_t)strtol(text, NULL, 10) };

	if (!s || s[1] != ' ' || !s[2] || got.pid <= 0)
		return -EIO;
	got.state = s[2];
	for (int field = 2; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	if (!s)
		return -EIO;
	got.start = strtoull(s + 1, NULL, 10);
	*ret = got;
	return 0;
}

int proc_stat_read(int dir, const char *name, struct proc_stat *ret)
{
	struct proc_stat got;
	char buf[1024];

	TRY(proc_read(dir, name, buf, sizeof(buf)));
	TRY(proc_stat_parse(buf, &got));
	if (got.state == 'Z' || got.state == 'X')
		return -ESRCH;
	*ret = got;
	return 0;
}

int proc_stat_of(int proc, pid_t pid, struct proc_stat *ret)
{
	char name[40];

	snprintf(name, sizeof(name), "%ld/stat", (long)pid);
	return proc_stat_read(proc, name, ret);
}

int proc_is_running(pid_t pid, unsigned long long start)
{
	struct proc_stat shown;
	char path[40];
	int r;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	r = proc_stat_read(AT_FDCWD, path, &shown);
	if (r == 0)
		return shown.start == start;
	if (r == -ESRCH || (kill(pid, 0) < 0 && errno != EPERM))
		return 0;
	return -1;
}

int proc_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

void proc_leave_keyring(void)
{
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

static int whole_number(const char *text, int first)
{
	char *end;
	long n = strtol(text, &end, 10);

	return end == text || *end || n < 1 - first || n > SIGRTMAX - first ? -1 : (int)n + first;
}

int signal_number(const char *word)
{
	if (strncasecmp(word, "SIG", 3) == 0)
		word += 3;
	if (strcasecmp(word, "RTMIN") == 0)
		return SIGRTMIN;
	if (strncasecmp(word, "RTMIN+", 6) == 0)
		return whole_number(word + 6, SIGRTMIN);
	for (int sig = 1; sig < NSIG; sig++) {
		const char *name = sigabbrev_np(sig);

		if (name && strcasecmp(name, word) == 0)
			return sig;
	}
	return whole_number(word, 0);
}

void signal_catch_ends(void (*handler)(int sig), int flags)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags }, was;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		if (sigaction(ends[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
			sigaction(ends[i], &a, NULL);
}
