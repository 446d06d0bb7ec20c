#include "load/load.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "load/connection.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#define NS               1000000000ull
#define EVENTS           256       /* taken at once */
#define PAUSE_REFUSED_NS (NS / 10) /* a user's, after a connection that failed */
#define NOBODY_NS        (2 * NS)  /* when a server that never answered is given up */
#define FILES_OTHER      32        /* descriptors that are no connections */

struct load {
	const struct load_options *o;
	struct results *r;
	int poll;
	struct connection *all; /* [n] */
	unsigned n;
	uint64_t start, end, row_end, now;
	int ended; /* no request begins any more */
	unsigned on_way, users;
	/* Of the closed loop: how many users there shall be. Of the open one: requests begun. */
	unsigned wanted;
	uint64_t begun;
	struct connection_queue requests; /* on their way, the oldest first */
	struct connection_queue thinking, refused;
	struct connection **free; /* [n_free]: users that are not there; connections to take, the
				     connected ones on top */
	unsigned n_free;
	uint64_t answers;
};

static uint64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static uint64_t ns_of(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

double load_seconds(const struct load_options *o)
{
	return o->stages.n ? stages_seconds(&o->stages) : o->seconds;
}

static int is_open_loop(const struct load *l)
{
	return !l->o->stages.n;
}

/* --- requests --------------------------------------------------------------------------- */

static int begin(struct load *l, struct connection *c, struct mlr_error *err);

/* The connection waits for its turn: an open loop's next request, a user that may come back. */
static void put_free(struct load *l, struct connection *c)
{
	unsigned at = l->n_free++;

	/* Those that must be connected first are taken last. */
	if (c->state == CONNECTION_OFF && is_open_loop(l) && at) {
		l->free[at] = l->free[0];
		at = 0;
	}
	l->free[at] = c;
}

static void take_from_free(struct load *l, struct connection *c)
{
	for (unsigned i = 0; i < l->n_free; i++)
		if (l->free[i] == c) {
			memmove(&l->free[i], &l->free[i + 1], (--l->n_free - i) * sizeof(*l->free));
			return;
		}
}

/* How many requests of an open loop should have begun. */
static uint64_t requests_due(const struct load *l)
{
	uint64_t until = l->now < l->end ? l->now : l->end - 1;

	return (uint64_t)((double)(until - l->start) * 1e-9 * l->o->rate) + 1;
}

/* When an open loop's request is due. */
static uint64_t due_of(const struct load *l, uint64_t i)
{
	return l->start + (uint64_t)ceil((double)i / l->o->rate * 1e9);
}

/* After a request: a user goes on, thinks or leaves. */
static int next(struct load *l, struct connection *c, int refused, struct mlr_error *err)
{
	if (l->ended || is_open_loop(l)) {
		put_free(l, c);
		return 0;
	}
	if (l->users > l->wanted) {
		l->users--;
		put_free(l, c);
	} else if (refused) {
		connection_enqueue(&l->refused, c, l->now + PAUSE_REFUSED_NS);
	} else if (l->o->think_s > 0) {
		connection_enqueue(&l->thinking, c, l->now + ns_of(l->o->think_s));
	} else {
		return begin(l, c, err);
	}
	return 0;
}

static uint64_t us_since(const struct load *l, uint64_t then)
{
	return l->now > then ? (l->now - then + 500) / 1000 : 0;
}

static void leave_way(struct load *l, struct connection *c)
{
	connection_dequeue(c);
	l->on_way -= (unsigned)c->on_way;
	c->on_way = 0;
}

static int answered(struct load *l, struct connection *c, struct mlr_error *err)
{
	l->answers++;
	results_answer(l->r, c->answer.status, us_since(l, c->due));
	connection_check(c, l->r);
	leave_way(l, c);
	if (c->answer.keeps_alive && !c->answer.closes && !l->o->close)
		c->state = CONNECTION_IDLE;
	else
		connection_close(c);
	return next(l, c, 0, err);
}

static int failed(struct load *l, struct connection *c, const struct connection_failure *f,
	struct mlr_error *err)
{
	int had_request = c->on_way;

	if (had_request)
		results_failure(l->r, f->kind, us_since(l, c->due), f->text);
	leave_way(l, c);
	connection_close(c);
	if (!had_request) { /* one of the connections made at the start */
		put_free(l, c);
		return 0;
	}
	return next(l, c, f->kind == RESULTS_CONNECT || f->kind == RESULTS_TLS, err);
}

static int happened(struct load *l, struct connection *c, enum connection_event e,
	const struct connection_failure *f, struct mlr_error *err)
{
	switch (e) {
	case CONNECTION_ANSWERED:
		return answered(l, c, err);
	case CONNECTION_FAILED:
		return failed(l, c, f, err);
	case CONNECTION_READY:
		put_free(l, c);
		return 0;
	case CONNECTION_LOST: /* a thinking user keeps its place in the queue */
		stream_close(&c->stream);
		c->state = CONNECTION_OFF;
		c->watched = 0;
		if (is_open_loop(l) || !c->queue) {
			take_from_free(l, c);
			put_free(l, c);
		}
		return 0;
	default:
		return 0;
	}
}

static int begin(struct load *l, struct connection *c, struct mlr_error *err)
{
	struct connection_failure f;
	enum connection_event e;
	int r = requests_next(l->o->requests, &c->buffer, &c->request, err);

	if (r < 0)
		return r;
	*(c->request.is_unique ? &l->r->unique : &l->r->repeated) += 1;
	c->due = is_open_loop(l) ? due_of(l, l->begun) : l->now;
	l->begun++;
	c->has_request = c->on_way = 1;
	l->on_way++;
	if (is_open_loop(l) && l->on_way > l->r->row.users)
		l->r->row.users = l->on_way;
	connection_enqueue(&l->requests, c, l->now + ns_of(l->o->timeout_s));
	e = connection_begin(c, l->poll, l->now, l->r, &f);
	/* After a failure at once a user pauses, so this is no recursion. */
	return e == CONNECTION_WAITS ? 0 : happened(l, c, e, &f, err);
}

/* --- what is due ------------------------------------------------------------------------ */

static int add_users(struct load *l, struct mlr_error *err)
{
	l->wanted = stages_users(&l->o->stages, (double)(l->now - l->start) * 1e-9);
	while (l->users < l->wanted && l->n_free) {
		l->users++;
		if (begin(l, l->free[--l->n_free], err) < 0)
			return -err->code;
	}
	return 0;
}

/* Wake whoever is at its time in a queue. A user too many leaves instead. */
static int wake(struct load *l, struct connection_queue *q, struct mlr_error *err)
{
	while (q->first && q->first->at <= l->now) {
		struct connection *c = q->first;

		connection_dequeue(c);
		if (l->users > l->wanted) {
			l->users--;
			put_free(l, c);
		} else if (begin(l, c, err) < 0) {
			return -err->code;
		}
	}
	return 0;
}

/* Those that are due now, and no later ones: where all fail at once this has an end. */
static int begin_due(struct load *l, struct mlr_error *err)
{
	uint64_t due = requests_due(l);

	while (l->begun < due && l->n_free)
		if (begin(l, l->free[--l->n_free], err) < 0)
			return -err->code;
	return 0;
}

static int expire(struct load *l, struct mlr_error *err)
{
	struct connection_failure f = { .kind = RESULTS_TIMEOUT };

	snprintf(f.text, sizeof(f.text), "no answer within %g s", l->o->timeout_s);
	while (l->requests.first && l->requests.first->at <= l->now)
		if (failed(l, l->requests.first, &f, err) < 0)
			return -err->code;
	return 0;
}

static void end_row(struct load *l)
{
	struct results *r = l->r;
	size_t n;

	if (!is_open_loop(l))
		r->row.users = l->users;
	if (r->row.users > r->users_most)
		r->users_most = r->row.users;
	n = r->n_rows;
	results_row_end(r, (double)(l->now - l->start) * 1e-9);
	r->row.users = is_open_loop(l) ? l->on_way : 0;
	if (l->o->tell && r->n_rows > n)
		l->o->tell(l->o->ctx, r, &r->rows[r->n_rows - 1]);
}

static int do_due(struct load *l, struct mlr_error *err)
{
	int r = expire(l, err);

	if (l->now >= l->row_end) {
		end_row(l);
		l->row_end += NS * (1 + (l->now - l->row_end) / NS);
	}
	if (r < 0 || l->ended)
		return r;
	if (is_open_loop(l))
		return begin_due(l, err);
	r = add_users(l, err);
	if (r == 0)
		r = wake(l, &l->thinking, err);
	return r < 0 ? r : wake(l, &l->refused, err);
}

static uint64_t earlier(uint64_t a, const struct connection_queue *q)
{
	return q->first && q->first->at < a ? q->first->at : a;
}

/* When something is due next. */
static uint64_t next_due(const struct load *l)
{
	uint64_t at = earlier(l->row_end, &l->requests), change;

	if (l->ended)
		return at;
	at = l->end < at ? l->end : at;
	if (is_open_loop(l))
		return l->n_free && due_of(l, l->begun) < at ? due_of(l, l->begun) : at;
	at = earlier(earlier(at, &l->thinking), &l->refused);
	change = l->start + ns_of(stages_change(&l->o->stages, (double)(l->now - l->start) * 1e-9));
	return change < at ? change : at;
}

/* --- events ----------------------------------------------------------------------------- */

/*
 * Wait for events until a time. epoll_wait(2) counts milliseconds, which is too coarse for an open
 * loop's requests; ppoll(2) on its descriptor counts nanoseconds.
 */
static int wait_events(const struct load *l, struct epoll_event *events, uint64_t until)
{
	uint64_t ns = until > l->now ? until - l->now : 0;
	struct timespec t = { (time_t)(ns / NS), (long)(ns % NS) };
	struct pollfd p = { .fd = l->poll, .events = POLLIN };
	int n;

	if (!ns || ns > NS / 50)
		return epoll_wait(l->poll, events, EVENTS, (int)((ns + 999999) / 1000000));
	n = epoll_wait(l->poll, events, EVENTS, 0);
	if (n == 0 && ppoll(&p, 1, &t, NULL) > 0)
		n = epoll_wait(l->poll, events, EVENTS, 0);
	return n;
}

static int take_events(struct load *l, struct mlr_error *err)
{
	struct epoll_event events[EVENTS];
	struct connection_failure f;
	int n = wait_events(l, events, next_due(l)), r = 0;

	if (n < 0 && errno != EINTR)
		return mlr_fail_errno(err, "wait for answers");
	for (int i = 0; i < n && r == 0; i++) {
		struct connection *c = events[i].data.ptr;

		/* One clock for all would count the work on the first to the last one's time. */
		l->now = clock_ns();
		r = happened(l, c, connection_go(c, l->poll, l->now, l->r, &f), &f, err);
	}
	l->now = clock_ns();
	return r;
}

/* The server is not there if not one request of some seconds got through to it. */
static int nobody(const struct load *l, struct mlr_error *err)
{
	const struct results *r = l->r;
	enum results_kind k = r->kinds[RESULTS_TLS] ? RESULTS_TLS : RESULTS_CONNECT;
	auto_free char *where = NULL;

	if (!r->kinds[k] || r->kinds[k] != r->requests || r->connections ||
		(l->now < l->start + NOBODY_NS && !l->ended))
		return 0;
	where = target_shown(l->o->target);
	mlr_fail(err, k == RESULTS_TLS ? EPERM : ECONNREFUSED, "connect to '%s': %s", where,
		r->examples[k] ? r->examples[k] : "");
	return mlr_hint(err,
		k == RESULTS_TLS
			? "--cacert FILE trusts another authority, --tls-verify=false any certificate"
			: "is the server running, and does it listen there?");
}

static int loop(struct load *l, struct mlr_error *err)
{
	uint64_t grace = l->end + ns_of(fmin(l->o->timeout_s, LOAD_GRACE_S));
	int r = 0;

	while (r == 0) {
		if (*l->o->stop)
			return mlr_fail(err, EINTR, "stopped by a signal");
		if (!l->ended && l->now >= l->end) {
			l->ended = 1;
			if (is_open_loop(l))
				l->r->not_sent = requests_due(l) - l->begun;
		}
		r = do_due(l, err);
		if (r == 0)
			r = nobody(l, err);
		if (r == 0 && l->ended && (!l->on_way || l->now >= grace))
			return 0;
		if (r == 0)
			r = take_events(l, err);
	}
	return r;
}

/* --- a run ------------------------------------------------------------------------------ */

/* Raise the limit on open files to what the connections need, as far as this process may. */
static int allow_files(unsigned connections, struct mlr_error *err)
{
	rlim_t need = (rlim_t)connections + FILES_OTHER;
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= need)
		return 0;
	if (l.rlim_max >= need) {
		l.rlim_cur = need;
		return setrlimit(RLIMIT_NOFILE, &l) < 0
			? mlr_fail_errno(err, "raise the limit on open files")
			: 0;
	}
	mlr_fail(err, EMFILE, "%u connections need %llu open files, but this process may have %llu",
		connections, (unsigned long long)need, (unsigned long long)l.rlim_max);
	return mlr_hint(err,
		"`ulimit -Hn` shows the limit; an administrator raises it in "
		"/etc/security/limits.conf, or use fewer connections");
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void load_done(struct load *l)
{
	for (unsigned i = 0; i < l->n; i++)
		connection_done(&l->all[i]);
	free(l->all);
	free(l->free);
	if (l->poll >= 0)
		close(l->poll);
}

static int load_init(struct load *l, const struct load_options *o, struct mlr_error *err)
{
	unsigned n = o->stages.n ? stages_most(&o->stages) : o->connections_max;

	if (allow_files(n, err) < 0)
		return -err->code;
	l->poll = epoll_create1(EPOLL_CLOEXEC);
	if (l->poll < 0)
		return mlr_fail_errno(err, "make an epoll descriptor");
	l->n = n;
	l->all = xcalloc(l->n, sizeof(*l->all));
	l->free = xcalloc(l->n, sizeof(struct connection *));
	for (unsigned i = 0; i < l->n; i++) {
		connection_init(&l->all[i], o);
		l->free[l->n_free++] = &l->all[l->n - 1 - i];
	}
	return 0;
}

/* Connect those of an open loop that it begins with, before the clock starts. */
static void connect_first(struct load *l)
{
	unsigned n = l->o->connections < l->n ? l->o->connections : l->n;
	struct connection_failure f;

	for (unsigned i = 0; i < n; i++) {
		struct connection *c = l->free[--l->n_free];
		enum connection_event e = connection_begin(c, l->poll, l->now, l->r, &f);

		if (e == CONNECTION_FAILED) {
			connection_close(c);
			put_free(l, c);
		}
	}
}

int load_run(const struct load_options *o, struct results *ret, struct mlr_error *err)
{
	auto_call(load_done) struct load l = { .o = o, .r = ret, .poll = -1 };
	double cpu = cpu_seconds();
	int r = load_init(&l, o, err);

	if (r < 0)
		return r;
	/* Else the kernel wakes this thread up to 50 µs late. */
	prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
	l.now = clock_ns();
	connect_first(&l);
	l.start = l.now = clock_ns();
	l.end = l.start + ns_of(load_seconds(o));
	l.row_end = l.start + NS;
	r = loop(&l, err);
	ret->unfinished = l.on_way;
	end_row(&l);
	ret->seconds = (double)(l.now - l.start) * 1e-9;
	ret->cpu_seconds = cpu_seconds() - cpu;
	return r;
}
