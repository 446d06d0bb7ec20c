#include "load/connection.h"

#include <sys/epoll.h>

/* --- queues ----------------------------------------------------------------------------- */

void connection_dequeue(struct connection *c)
{
	struct connection_queue *q = c->queue;

	if (!q)
		return;
	*(c->before ? &c->before->after : &q->first) = c->after;
	*(c->after ? &c->after->before : &q->last) = c->before;
	c->queue = NULL;
	c->before = c->after = NULL;
}

void connection_enqueue(struct connection_queue *q, struct connection *c, uint64_t at)
{
	connection_dequeue(c);
	c->queue = q;
	c->at = at;
	c->before = q->last;
	*(q->last ? &q->last->after : &q->first) = c;
	q->last = c;
}

/* --- checks ----------------------------------------------------------------------------- */

static void header(void *ctx, const char *name, size_t name_len, const char *value, size_t len)
{
	struct connection *c = ctx;

	for (size_t i = 0; i < c->o->n_checks; i++) {
		const struct check *k = &c->o->checks[i];

		if (k->subject == CHECK_HEADER && strlen(k->name) == name_len &&
			strncasecmp(k->name, name, name_len) == 0 && check_bytes(k, value, len))
			c->checks |= 1u << i;
	}
}

void connection_check(const struct connection *c, struct results *r)
{
	const struct answer *a = &c->answer;

	for (size_t i = 0; i < c->o->n_checks; i++) {
		struct check *k = &c->o->checks[i];
		int passed = k->subject == CHECK_STATUS ? check_status(k, a->status)
			: k->subject == CHECK_BODY      ? check_bytes(k, a->body, a->kept)
							: (int)(c->checks >> i & 1);

		*(passed ? &k->passed : &k->failed) += 1;
		*(passed ? &r->checks_passed : &r->checks_failed) += 1;
	}
}

/* --- one connection --------------------------------------------------------------------- */

void connection_init(struct connection *c, const struct load_options *o)
{
	*c = (struct connection){ .stream.fd = -1, .o = o };
	for (size_t i = 0; i < o->n_checks; i++) {
		if (o->checks[i].subject == CHECK_HEADER)
			c->answer.header = header;
		if (o->checks[i].subject == CHECK_BODY)
			c->answer.keep_max = CHECK_BODY_MAX;
	}
	c->answer.ctx = c;
}

void connection_done(struct connection *c)
{
	connection_close(c);
	answer_done(&c->answer);
	free(c->buffer.bytes);
}

void connection_close(struct connection *c)
{
	connection_dequeue(c);
	stream_close(&c->stream);
	c->state = CONNECTION_OFF;
	c->watched = 0;
}

static enum connection_event fail(
	struct connection_failure *f, enum results_kind kind, const char *what)
{
	f->kind = kind;
	snprintf(f->text, sizeof(f->text), "%s", what);
	return CONNECTION_FAILED;
}

static enum connection_event watch(
	struct connection *c, int poll, uint32_t events, struct connection_failure *f)
{
	struct epoll_event e = { .events = events, .data.ptr = c };

	if (c->watched == events)
		return CONNECTION_WAITS;
	if (epoll_ctl(poll, c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->stream.fd, &e) < 0)
		return fail(f, RESULTS_CONNECT, strerror(errno));
	c->watched = events;
	return CONNECTION_WAITS;
}

/* Send the rest. A server that closes before it has everything may have answered why: so a failure
 * to send is not reported, and the answer is read. */
static void send_some(struct connection *c, struct results *r)
{
	while (c->left) {
		const char *p = c->request.bytes + c->request.len - c->left;
		ssize_t n = stream_write(&c->stream, p, c->left);

		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			c->left = 0;
			c->answer.closes = 1;
			return;
		}
		c->left -= (size_t)n;
		r->sent += (uint64_t)n;
		r->row.sent += (uint64_t)n;
	}
}

static enum connection_event ask(struct connection *c, int poll, uint64_t now, struct results *r,
	struct connection_failure *f)
{
	c->state = CONNECTION_ASKING;
	c->has_request = 0;
	c->checks = 0;
	c->left = c->request.len;
	if (c->o->stages.n) /* a closed loop's clock begins now */
		c->due = now;
	answer_begin(&c->answer, strcmp(requests_method(c->o->requests), "HEAD") == 0);
	send_some(c, r);
	return watch(c, poll, c->left ? EPOLLIN | EPOLLOUT : EPOLLIN, f);
}

static enum connection_event connected(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f)
{
	r->connections++;
	r->connect_seconds += (double)(now - c->began) * 1e-9;
	if (c->has_request)
		return ask(c, poll, now, r, f);
	c->state = CONNECTION_IDLE;
	watch(c, poll, EPOLLIN, f);
	return CONNECTION_READY;
}

static enum connection_event go_on_connecting(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f)
{
	char why[120] = "";
	int n = stream_connect(&c->stream, why, sizeof(why));

	if (n == -EAGAIN)
		return watch(c, poll, c->stream.wants, f);
	if (n == 0)
		return connected(c, poll, now, r, f);
	return *why ? fail(f, RESULTS_TLS, why) : fail(f, RESULTS_CONNECT, strerror(-n));
}

enum connection_event connection_begin(struct connection *c, int poll, uint64_t now,
	struct results *r, struct connection_failure *f)
{
	int n;

	c->began = now;
	if (c->state == CONNECTION_IDLE)
		return ask(c, poll, now, r, f);
	c->state = CONNECTION_MAKING;
	n = stream_open(&c->stream, c->o->target, c->o->tls);
	if (n < 0)
		return fail(f, RESULTS_CONNECT, strerror(-n));
	return watch(c, poll, EPOLLOUT, f);
}

static enum connection_event read_answer(
	struct connection *c, struct results *r, struct connection_failure *f)
{
	static char bytes[65536];
	size_t used;
	ssize_t n;
	int done;

	do {
		n = stream_read(&c->stream, bytes, sizeof(bytes));
		if (n == -EAGAIN)
			return CONNECTION_WAITS;
		if (n == 0 && answer_end(&c->answer))
			return CONNECTION_ANSWERED;
		if (n <= 0)
			return fail(f, RESULTS_CLOSED,
				n < 0 ? strerror((int)-n)
				      : "the server closed the connection before the answer's end");
		r->received += (uint64_t)n;
		r->row.received += (uint64_t)n;
		done = answer_read(&c->answer, bytes, (size_t)n, &used);
		if (done == -EFBIG)
			return fail(f, RESULTS_SIZE,
				"the answer has no end, or none that this program waits for");
		if (done < 0)
			return fail(f, RESULTS_GARBAGE, "the answer is not HTTP/1");
		if (done) {
			/* More than the answer, or an answer to half a request: nothing can follow.
			 */
			if (used < (size_t)n || c->left)
				c->answer.keeps_alive = 0;
			return CONNECTION_ANSWERED;
		}
		/* TLS keeps the rest of a record. */
	} while (c->stream.ssl || (size_t)n == sizeof(bytes));
	return CONNECTION_WAITS;
}

static enum connection_event go_on_asking(
	struct connection *c, int poll, struct results *r, struct connection_failure *f)
{
	enum connection_event e;

	if (c->left)
		send_some(c, r);
	e = read_answer(c, r, f);
	if (e != CONNECTION_WAITS)
		return e;
	return watch(c, poll, c->left ? EPOLLIN | EPOLLOUT : c->stream.wants | EPOLLIN, f);
}

enum connection_event connection_go(struct connection *c, int poll, uint64_t now, struct results *r,
	struct connection_failure *f)
{
	char byte;

	switch (c->state) {
	case CONNECTION_MAKING:
		return go_on_connecting(c, poll, now, r, f);
	case CONNECTION_ASKING:
		return go_on_asking(c, poll, r, f);
	case CONNECTION_IDLE: /* it can bring only its end, and at most a session's ticket of TLS */
		return stream_read(&c->stream, &byte, 1) == -EAGAIN ? CONNECTION_WAITS
								    : CONNECTION_LOST;
	default:
		return CONNECTION_WAITS;
	}
}
