/*
 * spawn: how long do commands take to start and end, side by side?
 *
 *   spawn RUNS NAME CMD ARG... -- NAME CMD ARG... -- ...
 *
 * The commands take turns, so that noise of the machine falls on all of them alike. From just
 * before vfork(2) to the return of wait4(2); stdin and stdout are /dev/null. Prints a table:
 * median, 99th percentile and minimum in milliseconds, CPU time, failures, and the median's ratio
 * to the first command's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_COMMANDS 32
#define WARM_UP      10 /* runs before those that count */

struct contender {
	const char *name;
	char **argv;
	double *wall_ms, cpu_ms;
	int failures;
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

static void run(struct contender *c, int null, int i)
{
	double start = now_ms();
	struct rusage use;
	int status = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(null, 0);
		dup2(null, 1);
		execvp(c->argv[0], c->argv);
		_exit(127);
	}
	wait4(pid, &status, 0, &use);
	if (i < 0)
		return;
	c->wall_ms[i] = now_ms() - start;
	c->cpu_ms += ms(use.ru_utime) + ms(use.ru_stime);
	c->failures += status != 0;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int parse(int argc, char **argv, int runs, struct contender *c)
{
	int n = 0, i = 0;

	while (i < argc && n < MAX_COMMANDS) {
		c[n] = (struct contender){ .name = argv[i], .argv = argv + i + 1 };
		c[n].wall_ms = calloc((size_t)runs, sizeof(double));
		while (i < argc && strcmp(argv[i], "--") != 0)
			i++;
		if (i < argc)
			argv[i++] = NULL;
		if (!c[n].argv[0] || !c[n].wall_ms)
			return -1;
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	struct contender c[MAX_COMMANDS];
	int runs = argc > 3 ? atoi(argv[1]) : 0;
	int n = runs > 0 ? parse(argc - 2, argv + 2, runs, c) : -1;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	double first = 0;

	if (n <= 0 || null < 0) {
		fprintf(stderr, "usage: spawn RUNS NAME CMD ARG... [-- NAME CMD ARG...]...\n");
		return 2;
	}
	for (int i = -WARM_UP; i < runs; i++)
		for (int k = 0; k < n; k++)
			run(&c[k], null, i);

	printf("| %-28s | median ms | ratio | p99 ms | min ms | CPU ms | failures |\n",
		"start to exit");
	printf("|---|---|---|---|---|---|---|\n");
	for (int k = 0; k < n; k++) {
		qsort(c[k].wall_ms, (size_t)runs, sizeof(double), compare);
		double median = c[k].wall_ms[runs / 2];

		first = k == 0 ? median : first;
		printf("| %-28s | %.2f | %.2f | %.2f | %.2f | %.2f | %d/%d |\n", c[k].name, median,
			median / first, c[k].wall_ms[runs * 99 / 100], c[k].wall_ms[0],
			c[k].cpu_ms / runs, c[k].failures, runs);
	}
	return 0;
}
