/* Prints the output of a RUN's command. */
#include "build/run.h"

#define LINE_SIZE (4u << 10) /* longer lines are printed in pieces */
#define TAIL_SIZE (8u << 10) /* bytes that a failure shows */
#define PIPE_SIZE (1 << 20)

int run_output_open(struct run_output *o, const char *label, int is_quiet, struct mlr_error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	/* The command need not wait while files are copied for another stage; best effort. */
	fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
	*o = (struct run_output){ .fd = ends[0],
		.label = label && !is_quiet ? xstrdup(label) : NULL,
		.is_plain = !label && !is_quiet,
		.line = xmalloc(LINE_SIZE),
		.tail = xmalloc(TAIL_SIZE) };
	return ends[1];
}

void run_output_done(struct run_output *o)
{
	if (o->fd >= 0)
		close(o->fd);
	free(o->label);
	free(o->line);
	free(o->tail);
	*o = (struct run_output){ .fd = -1 };
}

void run_output_close(struct run_output *o)
{
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
}

/* Print a line by one write(2), so that lines of several commands do not mix. */
static void print_line(struct run_output *o)
{
	if (o->label && o->n_line > 0) {
		auto_free char *text = xasprintf("%s | %.*s\n", o->label, (int)o->n_line, o->line);

		(void)!write(STDERR_FILENO, text, strlen(text));
	}
	o->n_line = 0;
}

static void add_byte(struct run_output *o, char c)
{
	if (c != '\n')
		o->line[o->n_line++] = c ? c : ' ';
	else if (o->n_line == 0 && !o->is_cut)
		o->line[o->n_line++] = ' '; /* an empty line stays one */
	o->is_cut = c != '\n' && o->n_line == LINE_SIZE;
	if (c == '\n' || o->is_cut)
		print_line(o);
}

static void add_tail(struct run_output *o, const char *buf, size_t n)
{
	size_t keep = n < TAIL_SIZE ? TAIL_SIZE - n : 0, drop;

	if (n > TAIL_SIZE) {
		buf += n - TAIL_SIZE;
		n = TAIL_SIZE;
	}
	drop = o->n_tail > keep ? o->n_tail - keep : 0;
	memmove(o->tail, o->tail + drop, o->n_tail - drop);
	o->n_tail -= drop;
	memcpy(o->tail + o->n_tail, buf, n);
	o->n_tail += n;
}

int run_output_take(struct run_output *o)
{
	char buf[LINE_SIZE];
	ssize_t n = read(o->fd, buf, sizeof(buf));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n <= 0) {
		print_line(o);
		return 0;
	}
	if (o->is_plain) {
		(void)file_write_all(STDERR_FILENO, buf, (size_t)n);
		return 1;
	}
	add_tail(o, buf, (size_t)n);
	for (ssize_t i = 0; i < n; i++)
		add_byte(o, buf[i]);
	return 1;
}

void run_output_show(const struct run_output *o)
{
	if (o->n_tail > 0)
		(void)!write(STDERR_FILENO, o->tail, o->n_tail);
}
