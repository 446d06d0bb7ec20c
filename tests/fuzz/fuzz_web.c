/*
 * Fuzz target: what mlrun web reads of runs, and of its clients. The first byte says which parser
 * reads the rest: 'q' a filter, then NUL and an order; 'l' a log, in parts; 'm', 'r' and 'e' a
 * run's metrics, run.json and end.json in a directory. What is accepted is written as JSON, matched
 * and ordered.
 */
#include "web/log.h"
#include "web/query.h"

#include <math.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct run made(void)
{
	return (struct run){ .id = "0123456789abcdef",
		.directory = xstrdup("/runs/e/a"),
		.wish = { .name = xstrdup("a"), .experiment = xstrdup("e") },
		.started = NAN,
		.ended = NAN };
}

static void filter(const struct query *q, struct run *r)
{
	struct query_key key;
	int falls = q->falls;

	query_matches(q, r);
	query_key(q, r, &key);
	if (query_compare(&key, &key, &falls) != 0)
		abort();
}

static void read_query(const char *text, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct query q;
	struct run r = made();
	size_t n = strlen(text);

	if (query_parse(text, n < size ? text + n + 1 : NULL, &q, &err) == 0) {
		filter(&q, &r);
		query_done(&q);
	} else if (!err.text[0]) {
		abort();
	}
	run_done(&r);
}

static void read_log(const uint8_t *data, size_t size)
{
	auto_close int fd = memfd_create("log", MFD_CLOEXEC);
	struct log_part part;
	off_t at = 0;

	if (fd < 0 || file_write_all(fd, data, size) < 0)
		return;
	while (at < (off_t)size) { /* in parts of a few bytes, each of them once */
		if (log_before(fd, at + 1 + (off_t)size / 7, 64, &part) < 0 || part.from > part.to)
			abort();
		free(part.text);
		if (log_behind(fd, at, &part) < 0 || part.to <= at)
			abort();
		at = part.to;
		free(part.text);
	}
}

static void read_run(const char *name, const uint8_t *data, size_t size)
{
	char path[] = "/tmp/fuzz_web.XXXXXX";
	auto_close int dir = mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY) : -1;
	struct run r, again;
	auto_close int fd = dir < 0 ? -1 : openat(dir, name, O_WRONLY | O_CREAT, 0600);

	if (fd >= 0 && file_write_all(fd, data, size) == 0 && run_read(dir, path, NULL, &r) == 1) {
		json_t *o = run_json(&r);

		if (!o || run_read(dir, path, &r, &again) != RUN_SAME || run_read_on(&r) != 0)
			abort();
		json_decref(o);
		run_done(&r);
	}
	file_remove_tree(AT_FDCWD, path, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{

	if (!size)
		return 0;
	if (data[0] == 'q') {
		auto_free char *copy = xmalloc(size);

		memcpy(copy, data + 1, size - 1);
		copy[size - 1] = '\0';
		read_query(copy, size - 1);
	} else if (data[0] == 'l') {
		read_log(data + 1, size - 1);
	} else if (data[0] == 'm' || data[0] == 'r' || data[0] == 'e') {
		read_run(data[0] == 'm'          ? "m.jsonl"
				: data[0] == 'r' ? "run.json"
						 : "end.json",
			data + 1, size - 1);
	}
	return 0;
}
