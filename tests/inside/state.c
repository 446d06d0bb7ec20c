/*
 * state: what a process inherits, to compare a run in a container with one without. Static, so that
 * it runs in any image.
 *
 *   state show                    all that execve(2) hands on, but descriptors and privileges: a
 * line each state with COMMAND ARG...     run COMMAND with most of that unusual state wait COMMAND
 * ARG...     run COMMAND and print how it ended: "exited N" or "killed N" state die N be killed by
 * signal N, without a core state ends                    which of descriptors 0 to 2 are open, and
 * what kind they are state write FD                write to a descriptor until it fails; print
 * errno's text to stderr
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 99;
}

/* Lines of a file of /proc that begin with one of these words. */
static void show_lines(const char *file, const char *const *words)
{
	FILE *f = fopen(file, "re");
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		for (const char *const *w = words; *w; w++)
			if (strncmp(line, *w, strlen(*w)) == 0)
				printf("%s", line);
	if (f)
		fclose(f);
}

static void show_limits(void)
{
	for (int i = 0; i < RLIM_NLIMITS; i++) {
		struct rlimit l;

		if (getrlimit((enum __rlimit_resource)i, &l) == 0)
			printf("limit %d: %llu %llu\n", i, (unsigned long long)l.rlim_cur,
				(unsigned long long)l.rlim_max);
	}
}

static int show(void)
{
	static const char *const status[] = { "SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd",
		"Umask", "Cpus_allowed:", "Mems_allowed:", NULL };
	static const char *const all[] = { "", NULL };
	struct itimerval timer = { 0 };
	mode_t mask = umask(0);
	int death = 0;
	char cwd[4096];

	umask(mask);
	getitimer(ITIMER_REAL, &timer);
	prctl(PR_GET_PDEATHSIG, &death);
	printf("process group is own: %d\nsession: %d\nforeground: %d\n", getpgid(0) == getpid(),
		getsid(0), tcgetpgrp(0));
	show_lines("/proc/self/status", status);
	printf("umask: %03o\nnice: %d\n", (unsigned)mask, getpriority(PRIO_PROCESS, 0));
	printf("scheduler: %d\nio priority: %ld\n", sched_getscheduler(0),
		syscall(SYS_ioprio_get, 1, 0));
	printf("personality: %x\ntimer slack: %d\n", (unsigned)personality(0xffffffff),
		prctl(PR_GET_TIMERSLACK));
	printf("alarm runs: %d\nparent's death: %d\n", timer.it_value.tv_sec > 0, death);
	printf("oom score: ");
	fflush(stdout);
	show_lines("/proc/self/oom_score_adj", all);
	printf("cgroup: ");
	show_lines("/proc/self/cgroup", all);
	printf("cwd: %s\n", getcwd(cwd, sizeof(cwd)) ? cwd : strerror(errno));
	show_limits();
	return 0;
}

static int with(char **argv)
{
	struct rlimit files = { 200, 300 }, core = { 0, 0 };
	cpu_set_t one, set;
	sigset_t blocked;
	int fd;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	umask(0137);
	alarm(1000);
	if (nice(3) < 0)
		return fail("nice");
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
		return fail("setrlimit");
	sched_getaffinity(0, sizeof(set), &set);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &set))
			CPU_SET(i, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		return fail("sched_setaffinity");
	if (syscall(SYS_ioprio_set, 1, 0, 3 << 13) < 0)
		return fail("ioprio_set");
	personality(ADDR_NO_RANDOMIZE);
	prctl(PR_SET_TIMERSLACK, 123456);
	fd = open("/proc/self/oom_score_adj", O_WRONLY);
	if (fd < 0 || write(fd, "345", 3) != 3)
		return fail("oom_score_adj");
	close(fd);
	execvp(argv[0], argv);
	return fail(argv[0]);
}

static int wait_for(char **argv)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execvp(argv[0], argv);
		_exit(fail(argv[0]));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return fail("wait");
	if (WIFEXITED(status))
		printf("exited %d\n", WEXITSTATUS(status));
	else
		printf("killed %d\n", WTERMSIG(status));
	return 0;
}

static int die(int number)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	signal(number, SIG_DFL);
	kill(getpid(), number);
	return 98;
}

static int ends(int out)
{
	for (int fd = 0; fd <= 2; fd++) {
		struct stat st;
		char name[64], to[256];
		ssize_t n;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = '\0';
		if (fstat(fd, &st) < 0)
			dprintf(out, "%d closed\n", fd);
		else
			dprintf(out, "%d %o %s\n", fd, (unsigned)(st.st_mode & S_IFMT), to);
	}
	return 0;
}

static int write_until_it_fails(int fd)
{
	char buf[65536] = { 0 };

	while (write(fd, buf, sizeof(buf)) >= 0)
		;
	fprintf(stderr, "%s\n", strerror(errno));
	return errno == EPIPE ? 3 : 4;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "show") == 0)
		return show();
	if (strcmp(what, "with") == 0 && argc > 2)
		return with(argv + 2);
	if (strcmp(what, "wait") == 0 && argc > 2)
		return wait_for(argv + 2);
	if (strcmp(what, "die") == 0 && argc == 3)
		return die(atoi(argv[2]));
	if (strcmp(what, "ends") == 0 && argc == 3)
		return ends(atoi(argv[2]));
	if (strcmp(what, "write") == 0 && argc == 3)
		return write_until_it_fails(atoi(argv[2]));
	fprintf(stderr, "usage: see tests/inside/state.c\n");
	return 2;
}
