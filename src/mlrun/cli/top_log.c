#include "cli/top.h"

#include "base/follow.h"
#include "cli/common.h"

#define LOCK_MS 3000 /* longest wait for other processes */

const char top_log_header[] =
	"time,host,gpu,uuid,gpu_busy_percent,gpu_memory_used_bytes,gpu_memory_total_bytes,power_watts,"
	"temperature_celsius,cpu_busy_percent,memory_used_bytes\n";

/* An unknown value is an empty field. */
static void put_number(FILE *out, int64_t v)
{
	if (v >= 0)
		fprintf(out, "%" PRId64, v);
}

static void put_line(FILE *out, const struct top *t, const struct top_gpu *g)
{
	const struct gpu_sample *s = g ? g->sample : NULL;
	char when[CLI_TIME_SIZE];

	mlr_time_utc(t->time, when);
	fprintf(out, "%s,%s,", when, t->host);
	put_number(out, g ? g->gpu->index : -1);
	fprintf(out, ",%s,", g && g->gpu->uuid ? g->gpu->uuid : "");
	put_number(out, s ? s->busy : -1);
	putc(',', out);
	put_number(out, s ? s->memory_used : -1);
	putc(',', out);
	put_number(out, s ? s->memory_total : -1);
	putc(',', out);
	if (s && s->power >= 0)
		fprintf(out, "%.1f", s->power);
	putc(',', out);
	put_number(out, s ? s->temperature : -1);
	putc(',', out);
	put_number(out, t->node.busy);
	putc(',', out);
	put_number(out, t->node.memory_used);
	putc('\n', out);
}

char *top_log_lines(const struct top *t)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		mlr_oom();
	for (size_t i = 0; i < t->n_gpus; i++)
		put_line(out, t, &t->gpus[i]);
	if (t->n_gpus == 0)
		put_line(out, t, NULL);
	if (fclose(out) != 0)
		mlr_oom();
	return text;
}

/*
 * Without locks, or if a stopped or hanging process holds the lock, O_APPEND keeps lines whole on
 * one node. Do not wait in fcntl(2), because signals are blocked meanwhile.
 */
static void lock(int fd, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };
	long waited_ms = 0, nap_ms = 1;

	while (fcntl(fd, F_SETLK, &l) < 0 && (errno == EAGAIN || errno == EACCES) &&
		waited_ms < LOCK_MS) {
		mlr_sleep_ms(nap_ms);
		waited_ms += nap_ms;
		nap_ms *= nap_ms < 64 ? 2 : 1;
	}
}

/* Append by one write(2), so that a killed process leaves no partial line. */
static int append(int fd, const char *path, const char *text, struct mlr_error *err)
{
	return mlr_result(err, file_write_all(fd, text, strlen(text)), "write to '%s'", path);
}

int top_log_add(int fd, const char *path, const struct top *t, struct mlr_error *err)
{
	auto_free char *lines = top_log_lines(t);
	int r;

	lock(fd, F_WRLCK);
	r = append(fd, path, lines, err);
	lock(fd, F_UNLCK);
	return r;
}

static int no_log(const char *path, struct mlr_error *err)
{
	mlr_fail(err, EEXIST, "'%s' is not a log of mlrun gpu top: it begins with another line",
		path);
	return mlr_hint(err, "not a log of `mlrun gpu top`: name a new file");
}

/* Write a header or its missing part, or end a line that a killed process or a full disk truncated.
 * A file that may not be read stays as it is. */
static int begin(int fd, const char *path, struct mlr_error *err)
{
	const size_t whole = strlen(top_log_header);
	char is[sizeof(top_log_header)], last;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "'%s'", path);
	if (st.st_size == 0)
		return append(fd, path, top_log_header, err);
	n = S_ISREG(st.st_mode) ? pread(fd, is, whole, 0) : -1;
	if (n <= 0)
		return 0;
	if (memcmp(is, top_log_header, (size_t)n) != 0)
		return no_log(path, err);
	if ((size_t)n < whole)
		return append(fd, path, top_log_header + n, err);
	if (pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
		return append(fd, path, "\n", err);
	return 0;
}

int top_log_open(const char *path, struct mlr_error *err)
{
	auto_free char *real = NULL;
	auto_close int fd = -1;
	int r;

	TRY(follow_real(path, &real, err));
	fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0 && errno == EACCES) /* writable but not readable */
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return mlr_fail_errno(err, "open '%s'", path);
	lock(fd, F_WRLCK);
	r = begin(fd, path, err);
	lock(fd, F_UNLCK);
	return r < 0 ? r : take_fd(&fd);
}
