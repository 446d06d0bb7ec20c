#include "work/service_log.h"
#include "work/service.h"

#define LINE_MAX_BYTES (1u << 20) /* of a line that the supervisor did not write */

void service_log_done(struct service_log *l)
{
	free(l->path);
	free(l->old);
	fd_close(&l->fd);
	fd_close(&l->plain);
	*l = (struct service_log)SERVICE_LOG_INIT;
}

static int open_file(struct service_log *l)
{
	struct stat s;

	l->fd = open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->fd < 0 || fstat(l->fd, &s) < 0)
		return -errno;
	l->size = (uint64_t)s.st_size;
	return 0;
}

/* Open the caller's file without following links: the container may have put one there, if it can
 * write the directory, to have its output appended elsewhere when the service starts again. */
static int open_plain(const char *path, struct mlr_error *err)
{
	auto_free char *in = path_dir(path);
	auto_close int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
		       dir = file_open_beneath(top, in[1] ? in + 1 : ".", O_PATH | O_DIRECTORY);
	int fd = dir < 0 ? dir
			 : openat(dir, path_base(path),
				   O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK |
					   O_NOCTTY | O_CLOEXEC,
				   0666);

	return fd < 0 && dir >= 0 ? mlr_fail_errno(err, "open '%s'", path)
				  : mlr_result(err, fd, "open '%s'", path);
}

int service_log_open(struct store *st, const char *name, uint64_t size, const char *plain,
	struct service_log *ret, struct mlr_error *err)
{
	auto_call(service_log_done) struct service_log l = SERVICE_LOG_INIT;

	l.path = service_path(st, name, "log");
	l.old = service_path(st, name, "log.1");
	l.max = size / 2;
	TRY(mlr_result(err, open_file(&l), "open '%s'", l.path));
	if (plain)
		TRY(l.plain = open_plain(plain, err));
	*ret = take_struct(&l, SERVICE_LOG_INIT);
	return 0;
}

/* --- writing ------------------------------------------------------------------------------ */

static void rotate(struct service_log *l)
{
	if (rename(l->path, l->old) < 0)
		return; /* it grows, which is better than to lose all */
	close(l->fd);
	if (open_file(l) < 0)
		l->fd = -1;
}

/* Write all or nothing. Returns 0 or -errno. */
static int put(struct service_log *l, struct iovec *parts, int n)
{
	size_t len = 0;
	ssize_t done;

	for (int i = 0; i < n; i++)
		len += parts[i].iov_len;
	if (l->size > 0 && l->size + len > l->max)
		rotate(l);
	if (l->fd < 0 && open_file(l) < 0)
		return -errno;
	done = TEMP_FAILURE_RETRY(writev(l->fd, parts, n));
	if (done == (ssize_t)len) {
		l->size += len;
		return 0;
	}
	if (done > 0 && ftruncate(l->fd, (off_t)l->size) < 0)
		l->size += (uint64_t)done;
	return done < 0 ? -errno : -ENOSPC;
}

void service_time(const struct timespec *t, char ret[SERVICE_TIME])
{
	struct tm tm;
	size_t n;

	gmtime_r(&t->tv_sec, &tm);
	n = strftime(ret, SERVICE_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret + n, SERVICE_TIME - n, ".%09ldZ", t->tv_nsec);
}

static size_t head(char *buf, size_t size, const char *stream, char tag)
{
	struct timespec now;
	char time[SERVICE_TIME];

	clock_gettime(CLOCK_REALTIME, &now);
	service_time(&now, time);
	return (size_t)snprintf(buf, size, "%s %s %c ", time, stream, tag);
}

static void tell_lost(struct service_log *l)
{
	char buf[256];
	size_t n = head(buf, sizeof(buf), "stderr", 'F');
	struct iovec part = { buf, 0 };

	part.iov_len = n +
		(size_t)snprintf(buf + n, sizeof(buf) - n,
			"mlrun: %llu lines of output were lost here: %s\n",
			(unsigned long long)l->lost, strerror(l->why));
	if (put(l, &part, 1) == 0)
		l->lost = 0;
}

static void put_line(
	struct service_log *l, const char *stream, const char *text, size_t len, char tag)
{
	char buf[64];
	struct iovec parts[] = { { buf, 0 }, { (char *)text, len }, { (char *)"\n", 1 } };
	int r;

	if (l->lost > 0)
		tell_lost(l);
	parts[0].iov_len = head(buf, sizeof(buf), stream, tag);
	r = l->lost > 0 ? -l->why : put(l, parts, 3);
	if (r < 0) {
		l->lost++;
		l->why = -r;
	}
}

void service_log_put(struct service_log *l, const char *stream, const char *text, size_t len)
{
	if (l->plain >= 0)
		file_write_all(l->plain, text, len);
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len, used = n + (end != NULL);

		put_line(l, stream, text, n, end ? 'F' : 'P');
		text += used;
		len -= used;
	}
}

/* --- reading ------------------------------------------------------------------------------ */

void service_reader_done(struct service_reader *r)
{
	free(r->path);
	free(r->old);
	free(r->line);
	if (r->file)
		fclose(r->file);
	*r = (struct service_reader){ 0 };
}

static int open_to_read(struct service_reader *r, int old)
{
	int fd = open(old ? r->old : r->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat s;

	if (fd < 0)
		return 0;
	if (fstat(fd, &s) < 0 || !S_ISREG(s.st_mode)) {
		close(fd);
		return 0;
	}
	r->file = fdopen(fd, "r");
	r->inode = s.st_ino;
	r->is_old = old;
	return r->file != NULL;
}

/* Has `log` become another file since this one was opened? */
static int has_rotated(const struct service_reader *r)
{
	struct stat s;

	return r->is_old || (lstat(r->path, &s) == 0 && s.st_ino != r->inode);
}

/* Add to the line what there is. Returns 1 if it is whole. */
static int read_on(struct service_reader *r)
{
	int c = EOF;

	while (r->len < LINE_MAX_BYTES && (c = getc_unlocked(r->file)) != EOF && c != '\n') {
		if (r->len % 256 == 0)
			r->line = xreallocarray(r->line, r->len + 256 + 1, 1);
		r->line[r->len++] = (char)c;
	}
	clearerr(r->file);
	return c == '\n' || r->len == LINE_MAX_BYTES;
}

static int next_raw(struct service_reader *r)
{
	for (int last = 0;;) {
		if (!r->file && !open_to_read(r, 0))
			return 0;
		if (read_on(r))
			return 1;
		/* What came between the end and the rotation is read before the file is left. */
		if (!has_rotated(r))
			return 0;
		if (last++ == 0)
			continue;
		last = 0;
		fclose(r->file);
		r->file = NULL;
		r->len = 0;
	}
}

static int is_outside(const struct service_range *range, const char *time)
{
	return strcmp(time, range->since) < 0 || (*range->until && strcmp(time, range->until) > 0);
}

/* "TIME stdout F text". Returns 0 for what is none, or not of the range. */
static int take_apart(struct service_reader *r, struct service_line *ret)
{
	char *stream, *tag, *text;
	int bit;

	if (!r->line) /* an empty line */
		return 0;
	r->line[r->len] = '\0';
	stream = strchr(r->line, ' ');
	tag = stream ? strchr(stream + 1, ' ') : NULL;
	text = tag && (tag[1] == 'F' || tag[1] == 'P') && tag[2] == ' ' ? tag + 3 : NULL;
	if (!text)
		return 0;
	*stream++ = '\0';
	bit = 1 << (strncmp(stream, "stderr ", 7) == 0);
	*ret = (struct service_line){ .time = r->line,
		.text = text,
		.len = (size_t)(r->line + r->len - text),
		.is_error = bit == 2,
		.begins = !(r->goes_on & bit),
		.ends = tag[1] == 'F' };
	r->goes_on = ret->ends ? r->goes_on & ~bit : r->goes_on | bit;
	if (ret->begins && is_outside(&r->range, ret->time))
		r->out |= bit;
	else if (ret->begins)
		r->out &= ~bit;
	return !(r->out & bit);
}

int service_reader_next(struct service_reader *r, struct service_line *ret)
{
	while (next_raw(r)) {
		int found = take_apart(r, ret);

		r->len = 0;
		if (!found)
			continue;
		if (r->skip == 0)
			return 1;
		r->skip -= (uint64_t)ret->ends;
	}
	return 0;
}

void service_reader_open(struct store *st, const char *name, const struct service_range *range,
	struct service_reader *ret)
{
	struct service_reader r = { .path = service_path(st, name, "log"),
		.old = service_path(st, name, "log.1"),
		.range = range ? *range : (struct service_range){ .tail = -1 } };
	uint64_t n = 0, tail = (uint64_t)r.range.tail;
	struct service_line line;

	open_to_read(&r, 1);
	if (r.range.tail < 0) {
		*ret = r;
		return;
	}
	while (service_reader_next(&r, &line))
		n += (uint64_t)line.ends;
	n += (r.goes_on & ~r.out) != 0; /* a line that has not ended counts */
	if (r.file)
		fclose(r.file);
	r.file = NULL;
	r.len = 0;
	r.goes_on = r.out = 0;
	r.skip = n > tail ? n - tail : 0;
	open_to_read(&r, 1);
	*ret = r;
}
