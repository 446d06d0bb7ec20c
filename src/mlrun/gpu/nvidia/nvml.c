#include "gpu/nvidia/nvml.h"

#include "base/program.h"
#include "gpu/gpu.h"

#include <poll.h>

#define PROGRAM "mlrun-nvml"
#define LIBRARY "libnvidia-ml.so.1"
/* Without a persistence daemon NVML wakes one GPU after the other, for seconds each. */
#define ANSWER_MS  60000
#define ANSWER_MAX (4u << 20) /* bytes of a line: 16 GPUs with 1000 processes each need 1 MB */
#define CHUNK      65536

static const struct gpu_file *find_library(const struct gpu_machine *m)
{
	for (size_t i = 0; i < m->n_files; i++) {
		const struct gpu_file *f = &m->files[i];

		if (f->kind == GPU_LIBRARY && f->bits == 8 * (int)sizeof(void *) && f->soname &&
			strcmp(f->soname, LIBRARY) == 0)
			return f;
	}
	return NULL;
}

/* The library's path on this machine, to free(). */
static int library_path(const struct gpu_machine *m, char **ret, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine whole = GPU_MACHINE_INIT;
	const struct gpu_file *f = find_library(m);
	const char *root = gpu_root();
	int r = 0;

	/* A start reads only the files that it injects. */
	if (!f && m->driver != GPU_DRIVER_NONE) {
		r = gpu_machine_read(root, &whole, err);
		f = find_library(&whole);
	}
	TRY(r);
	if (!f) {
		mlr_fail(err, ENOENT, "NVIDIA's management library " LIBRARY " was not found");
		return mlr_hint(err,
			"the driver's package for programs brings it, as nvidia-smi (Debian: libnvidia-ml1)");
	}
	*ret = xasprintf("%s%s", strcmp(root, "/") == 0 ? "" : root, f->path);
	return 0;
}

/*
 * "LD_LIBRARY_PATH=" and the library's directory under WSL, where the library loads libdxcore.so by
 * name from beside it, perhaps in no cache. NULL elsewhere: the library needs only the C library,
 * and a driver's directory (/run/nvidia/driver) may hold another system's C library, with which no
 * program here starts.
 */
static char *search_path(const struct gpu_machine *m, const char *library)
{
	return m->driver == GPU_DRIVER_WSL
		? xasprintf("LD_LIBRARY_PATH=%.*s", (int)(strrchr(library, '/') - library), library)
		: NULL;
}

/*
 * interval: milliseconds between lines; NULL: one line only
 */
static int start(const struct gpu_machine *m, const char *interval, struct gpu_watch *ret,
	struct mlr_error *err)
{
	auto_free char *program = program_path(PROGRAM), *library = NULL, *search = NULL;

	TRY(library_path(m, &library, err));
	search = search_path(m, library);
	char *const argv[] = { (char *)PROGRAM, library, (char *)interval, NULL };
	char *const envp[] = { search, NULL };

	*ret = (struct gpu_watch)GPU_WATCH_INIT;
	return mlr_result(
		err, program_start(program, argv, envp, &ret->from, &ret->pid), "'%s'", program);
}

/* Report how the program ended. */
static int tell_end(struct gpu_watch *w, struct mlr_error *err)
{
	int status = 0;
	pid_t pid = waitpid(w->pid, &status, 0);

	if (pid == w->pid)
		w->pid = 0;
	if (pid > 0 && WIFSIGNALED(status))
		return mlr_fail(err, EIO, "mlrun-nvml ended by signal %d (%s)", WTERMSIG(status),
			strsignal(WTERMSIG(status)));
	return mlr_fail(err, EIO, "mlrun-nvml ended without a message");
}

/* Read what has arrived. Returns the number of bytes, 0 at the end, or -errno. */
static ssize_t read_chunk(struct gpu_watch *w, struct mlr_error *err)
{
	ssize_t n;

	if (w->len > ANSWER_MAX)
		return mlr_fail(err, EPROTO, "mlrun-nvml wrote more than %u bytes", ANSWER_MAX);
	if (w->size - w->len <= CHUNK) {
		w->size += 2 * CHUNK;
		w->buf = xreallocarray(w->buf, w->size, 1);
	}
	n = TEMP_FAILURE_RETRY(read(w->from, w->buf + w->len, CHUNK));
	if (n < 0)
		return mlr_fail_errno(err, "read from mlrun-nvml");
	w->len += (size_t)n;
	return n;
}

/* Does data or the end arrive within ms milliseconds? */
static int has_more(const struct gpu_watch *w, long long ms)
{
	struct pollfd in = { .fd = w->from, .events = POLLIN };
	int r = poll(&in, 1, ms > 0 ? (int)ms : 0);

	return r > 0 || (r < 0 && errno == EINTR);
}

static char *line_end(const struct gpu_watch *w)
{
	return w->len ? memrchr(w->buf, '\n', w->len) : NULL;
}

/* Wait ms milliseconds for a line. Returns 0 or -errno. */
static int wait_for_line(struct gpu_watch *w, long long ms, struct mlr_error *err)
{
	long long end = mlr_now_ms() + ms;

	while (!line_end(w)) {
		ssize_t n;

		if (!has_more(w, end - mlr_now_ms())) {
			mlr_fail(err, ETIMEDOUT, "NVIDIA's management library does not answer");
			return mlr_hint(err, "a GPU may hang: nvidia-smi, and dmesg | grep -i xid");
		}
		n = read_chunk(w, err);
		if (n <= 0)
			return n < 0 ? (int)n : tell_end(w, err);
	}
	return 0;
}

/* The last complete line, without its newline, valid until the next read. */
static char *last_line(struct gpu_watch *w)
{
	char *end = line_end(w), *before;

	*end = '\0';
	before = memrchr(w->buf, '\n', (size_t)(end - w->buf));
	return before ? before + 1 : w->buf;
}

/* Drop the line and all before it. */
static void drop_line(struct gpu_watch *w, const char *line)
{
	size_t used = (size_t)(line - w->buf) + strlen(line) + 1;

	w->len -= used;
	memmove(w->buf, w->buf + used, w->len);
}

int gpu_nvml_fill(struct gpu_machine *m, struct mlr_error *err)
{
	auto_call(gpu_watch_close) struct gpu_watch w = GPU_WATCH_INIT;

	TRY(start(m, NULL, &w, err));
	TRY(wait_for_line(&w, ANSWER_MS, err));
	return gpu_nvml_read_query(last_line(&w), m, err);
}

int gpu_watch_open(const struct gpu_machine *m, unsigned interval_ms, struct gpu_watch *ret,
	struct mlr_error *err)
{
	char interval[16];

	snprintf(interval, sizeof(interval), "%u", interval_ms);
	return start(m, interval, ret, err);
}

int gpu_watch_next(struct gpu_watch *w, struct gpu_sample **ret, struct mlr_error *err)
{
	ssize_t n = 1;
	char *line;
	int r;

	while (n > 0 && has_more(w, 0))
		n = read_chunk(w, err);
	if (n < 0)
		return (int)n;
	if (!line_end(w))
		return n == 0 ? tell_end(w, err) : -EAGAIN;
	line = last_line(w);
	r = gpu_nvml_read_samples(line, ret, err);
	drop_line(w, line);
	return r;
}

/* Do not wait for it: in the driver it cannot be killed. The closed pipe ends it later. */
void gpu_watch_close(struct gpu_watch *w)
{
	fd_close(&w->from);
	if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		for (long us = 100; us < 200000 && waitpid(w->pid, NULL, WNOHANG) == 0; us *= 2)
			mlr_sleep_us(us);
	}
	free(w->buf);
	*w = (struct gpu_watch)GPU_WATCH_INIT;
}
