/*
 * spawn: how long do commands take to start and end, side by side?
 *
 *   spawn [-j N] [-w TURNS] TURNS NAME EVERY CMD ARG... [";" NAME EVERY CMD ARG...]...
 *
 * The commands take turns, so that noise of the machine falls on all of them alike; each runs in
 * every EVERY-th turn only, at least once. -w: turns before those that count (10). {} in an
 * argument becomes a number that no other run has.
 *
 * Alone, a run counts from just before vfork(2) to the return of wait4(2). With -j N runs are
 * started at once, and what counts is the time until the last has ended. stdin and stdout are
 * /dev/null. Processes that a run leaves behind are waited for before the next, off the clock, and
 * killed after a second; their CPU time is the run's.
 *
 * Prints a line of tab-separated fields a command: NAME, runs (with -j rounds), failures among
 * all that were started, median, 99th percentile and minimum in ms, CPU ms of one start.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_COMMANDS 48
#define MAX_ARGS     64
#define PATIENCE_MS  1000

struct contender {
	const char *name;
	char **argv;
	double *wall_ms, cpu_ms;
	int every, runs, failures;
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double ms(struct timeval t)
{
	return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

/* argv with {} replaced by a new number. */
static char **numbered(char **argv)
{
	static char *out[MAX_ARGS], room[MAX_ARGS][512];
	static int number;
	int i;

	number++;
	for (i = 0; argv[i] && i < MAX_ARGS - 1; i++) {
		const char *braces = strstr(argv[i], "{}");

		out[i] = argv[i];
		if (!braces)
			continue;
		snprintf(room[i], sizeof(room[i]), "%.*s%d%s", (int)(braces - argv[i]), argv[i],
			number, braces + 2);
		out[i] = room[i];
	}
	out[i] = NULL;
	return out;
}

static pid_t start(struct contender *c, int null)
{
	char **argv = numbered(c->argv);
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(null, 0);
		dup2(null, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static void kill_children(void)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (f)
		fclose(f);
}

/* What has been left behind comes to us, the subreaper. Its CPU time; how it ends does not
 * count. */
static double wait_for_rest(void)
{
	double cpu = 0, end = now_ms() + PATIENCE_MS;
	struct rusage use;
	pid_t pid;

	while ((pid = wait4(-1, NULL, WNOHANG, &use)) >= 0) {
		if (pid > 0) {
			cpu += ms(use.ru_utime) + ms(use.ru_stime);
			continue;
		}
		if (now_ms() > end)
			kill_children();
		usleep(200);
	}
	return cpu;
}

/* at_once starts, until the last has ended; only counted when count is set. */
static void run(struct contender *c, int null, int at_once, int count)
{
	static pid_t pids[4096];
	double begin = now_ms(), wall, cpu = 0;
	int failures = 0;

	for (int i = 0; i < at_once; i++)
		pids[i] = start(c, null);
	for (int i = 0; i < at_once; i++) {
		struct rusage use;
		int status = 0;

		if (pids[i] < 0 || wait4(pids[i], &status, 0, &use) != pids[i] || status != 0)
			failures++;
		if (pids[i] > 0)
			cpu += ms(use.ru_utime) + ms(use.ru_stime);
	}
	wall = now_ms() - begin;
	cpu += wait_for_rest();
	if (!count)
		return;
	c->wall_ms[c->runs++] = wall;
	c->cpu_ms += cpu / at_once;
	c->failures += failures;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int parse(int argc, char **argv, int turns, struct contender *c)
{
	int n = 0, i = 0;

	while (i + 2 < argc && n < MAX_COMMANDS) {
		c[n] = (struct contender){ .name = argv[i], .every = atoi(argv[i + 1]) };
		c[n].argv = argv + i + 2;
		c[n].wall_ms = calloc((size_t)turns, sizeof(double));
		while (i < argc && strcmp(argv[i], ";") != 0)
			i++;
		if (i < argc)
			argv[i++] = NULL;
		if (!c[n].argv[0] || c[n].every <= 0 || !c[n].wall_ms)
			return -1;
		n++;
	}
	return i == argc ? n : -1;
}

static void print(struct contender *c)
{
	qsort(c->wall_ms, (size_t)c->runs, sizeof(double), compare);
	printf("%s\t%d\t%d\t%.3f\t%.3f\t%.3f\t%.3f\n", c->name, c->runs, c->failures,
		c->wall_ms[c->runs / 2], c->wall_ms[c->runs * 99 / 100], c->wall_ms[0],
		c->cpu_ms / c->runs);
}

int main(int argc, char **argv)
{
	struct contender c[MAX_COMMANDS];
	int at_once = 1, warm_up = 10, option, turns, n;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	while ((option = getopt(argc, argv, "+j:w:")) != -1) {
		if (option == 'j')
			at_once = atoi(optarg);
		else if (option == 'w')
			warm_up = atoi(optarg);
	}
	turns = argc > optind ? atoi(argv[optind]) : 0;
	n = turns > 0 ? parse(argc - optind - 1, argv + optind + 1, turns, c) : -1;
	if (n <= 0 || null < 0 || at_once < 1 || at_once > 4096) {
		fprintf(stderr,
			"usage: spawn [-j N] [-w TURNS] TURNS NAME EVERY CMD ARG... [';' ...]...\n");
		return 2;
	}
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		perror("spawn: become the reaper of what is left behind");
		return 1;
	}
	for (int turn = -warm_up; turn < turns; turn++)
		for (int k = 0; k < n; k++)
			if (turn % c[k].every == 0)
				run(&c[k], null, at_once, turn >= 0);
	for (int k = 0; k < n; k++)
		print(&c[k]);
	return 0;
}
