#include "load/load.h"

#include "load/connection.h"

#include <math.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define NS               1000000000ull
#define EVENTS           256       /* taken at once */
#define PAUSE_REFUSED_NS (NS / 10) /* a user's, after a connection that failed */
#define NOBODY_NS        (2 * NS)  /* to wait for a server that never answered */
#define CONNECT_NS       (5 * NS)  /* an open loop's first connections may take */
#define SPINS            20        /* looks for events before a sleep, half a microsecond each */
#define SPIN_AGAIN       64        /* sleeps */
#define FILES_OTHER      32        /* descriptors other than connections */

struct stack {
	struct connection **v; /* [n], room for all connections; owned */
	unsigned n;
};

struct load {
	const struct load_options *o;
	struct results *r;
	int poll;
	struct connection *all; /* [n] */
	unsigned n;
	uint64_t start, end, row_end, now;
	uint64_t last; /* when a request ended, but for timeouts */
	int ended;     /* no more requests begin */
	int aborted;   /* tell() wants the end */
	unsigned on_way, users;
	unsigned wanted; /* users of a closed loop */
	uint64_t begun;  /* requests of an open loop */
	unsigned spins, sleeps;
	struct connection_queue requests; /* on their way, the oldest first */
	struct connection_queue thinking, refused;
	struct stack ready; /* an open loop's connections to take */
	struct stack rest;  /* those that must be connected first; users that are not there */
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

static void push(struct stack *s, struct connection *c)
{
	s->v[s->n++] = c;
}

/* Let a connection wait for an open loop's next request, or for a user that may come back. */
static void put_free(struct load *l, struct connection *c)
{
	push(c->state == CONNECTION_IDLE && is_open_loop(l) ? &l->ready : &l->rest, c);
}

/* Take an idle connection, an open one if possible; NULL if all are busy. */
static struct connection *take_free(struct load *l)
{
	struct stack *s = l->ready.n ? &l->ready : &l->rest;

	return s->n ? s->v[--s->n] : NULL;
}

/* Remove a free connection of an open loop that was lost. */
static void lose_ready(struct load *l, const struct connection *c)
{
	unsigned i = 0;

	while (l->ready.v[i] != c)
		i++;
	l->ready.v[i] = l->ready.v[--l->ready.n];
}

/* Count the requests of an open loop that should have begun. */
static uint64_t requests_due(const struct load *l)
{
	uint64_t until = l->now < l->end ? l->now : l->end - 1;

	return (uint64_t)((double)(until - l->start) * 1e-9 * l->o->rate) + 1;
}

/* Compute when an open loop's request is due. */
static uint64_t due_of(const struct load *l, uint64_t i)
{
	return l->start + (uint64_t)ceil((double)i / l->o->rate * 1e9);
}

/*
 * Decide what follows a request: the user thinks, or leaves. A user that does not think waits until
 * all answers that have come are read: then the next requests go out one after the other, and a
 * busy server finds them together.
 */
static void next(struct load *l, struct connection *c, int refused)
{
	if (l->ended || is_open_loop(l)) {
		put_free(l, c);
	} else if (l->users > l->wanted) {
		l->users--;
		put_free(l, c);
	} else if (refused) {
		connection_enqueue(&l->refused, c, l->now + PAUSE_REFUSED_NS);
	} else {
		connection_enqueue(
			&l->thinking, c, l->now + (c->request.is_also ? 0 : ns_of(l->o->think_s)));
	}
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

static void answered(struct load *l, struct connection *c)
{
	l->last = l->now;
	results_answer(l->r, c->answer.status, us_since(l, c->due));
	if (!c->request.is_also)
		connection_check(c, l->r);
	leave_way(l, c);
	if (c->answer.keeps_alive && !c->answer.closes && !l->o->close)
		c->state = CONNECTION_IDLE;
	else
		connection_close(c);
	next(l, c, 0);
}

static void failed(struct load *l, struct connection *c, const struct connection_failure *f)
{
	int had_request = c->on_way;

	if (had_request && f->kind != RESULTS_TIMEOUT)
		l->last = l->now;
	if (had_request)
		results_failure(l->r, f->kind, us_since(l, c->due), f->text);
	leave_way(l, c);
	connection_close(c);
	if (!had_request) { /* one of the connections made at the start */
		put_free(l, c);
		return;
	}
	next(l, c, f->kind == RESULTS_CONNECT || f->kind == RESULTS_TLS);
}

static void happened(struct load *l, struct connection *c, enum connection_event e,
	const struct connection_failure *f)
{
	switch (e) {
	case CONNECTION_ANSWERED:
		answered(l, c);
		break;
	case CONNECTION_FAILED:
		failed(l, c, f);
		break;
	case CONNECTION_READY:
		put_free(l, c);
		break;
	case CONNECTION_LOST: /* a thinking user keeps its place in the queue */
		if (is_open_loop(l))
			lose_ready(l, c);
		connection_drop(c);
		if (is_open_loop(l))
			put_free(l, c);
		break;
	default:
		break;
	}
}

static int begin(struct load *l, struct connection *c, struct mlr_error *err)
{
	struct connection_failure f;
	enum connection_event e;

	TRY(requests_next(l->o->requests, &c->buffer, &c->request, err));
	if (!c->request.is_also)
		*(c->request.is_unique ? &l->r->unique : &l->r->repeated) += 1;
	c->due = is_open_loop(l) ? due_of(l, l->begun) : l->now;
	l->begun++;
	c->has_request = c->on_way = 1;
	l->on_way++;
	if (is_open_loop(l) && l->on_way > l->r->row.users)
		l->r->row.users = l->on_way;
	connection_enqueue(&l->requests, c, l->now + ns_of(l->o->timeout_s));
	e = connection_begin(c, l->poll, l->now, l->r, &f);
	happened(l, c, e, &f);
	return 0;
}

/* --- what is due ------------------------------------------------------------------------ */

static int add_users(struct load *l, struct mlr_error *err)
{
	l->wanted = stages_users(&l->o->stages, (double)(l->now - l->start) * 1e-9);
	while (l->users < l->wanted) {
		l->users++;
		TRY(begin(l, take_free(l), err));
	}
	return 0;
}

/* Wake the users in a queue whose time has come. Surplus users leave instead. */
static int wake(struct load *l, struct connection_queue *q, struct mlr_error *err)
{
	while (q->first && q->first->at <= l->now) {
		struct connection *c = q->first;

		connection_dequeue(c);
		if (l->users > l->wanted) {
			l->users--;
			put_free(l, c);
			continue;
		}
		l->now = clock_ns();
		TRY(begin(l, c, err));
	}
	return 0;
}

/* Only requests due now, so that the loop ends even if every one fails at once. */
static int begin_due(struct load *l, struct mlr_error *err)
{
	uint64_t due = requests_due(l);
	struct connection *c;

	while (l->begun < due && (c = take_free(l)))
		TRY(begin(l, c, err));
	return 0;
}

static void expire(struct load *l)
{
	struct connection_failure f = { .kind = RESULTS_TIMEOUT };

	snprintf(f.text, sizeof(f.text), "no answer within %g s", l->o->timeout_s);
	while (l->requests.first && l->requests.first->at <= l->now)
		failed(l, l->requests.first, &f);
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
		l->aborted = l->o->tell(l->o->ctx, r, &r->rows[r->n_rows - 1]);
}

static int do_due(struct load *l, struct mlr_error *err)
{
	expire(l);
	if (l->now >= l->row_end) {
		end_row(l);
		l->row_end += NS * (1 + (l->now - l->row_end) / NS);
	}
	if (l->ended)
		return 0;
	if (is_open_loop(l))
		return begin_due(l, err);
	TRY(add_users(l, err));
	TRY(wake(l, &l->thinking, err));
	return wake(l, &l->refused, err);
}

static uint64_t earlier(uint64_t a, const struct connection_queue *q)
{
	return q->first && q->first->at < a ? q->first->at : a;
}

/* Compute when something is due next. */
static uint64_t next_due(const struct load *l)
{
	uint64_t at = earlier(l->row_end, &l->requests);
	double change;

	if (l->ended)
		return at;
	at = l->end < at ? l->end : at;
	if (is_open_loop(l))
		return l->ready.n + l->rest.n && due_of(l, l->begun) < at ? due_of(l, l->begun)
									  : at;
	at = earlier(earlier(at, &l->thinking), &l->refused);
	change = stages_change(&l->o->stages, (double)(l->now - l->start) * 1e-9);
	return change < load_seconds(l->o) && l->start + ns_of(change) < at
		? l->start + ns_of(change)
		: at;
}

/* --- events ----------------------------------------------------------------------------- */

/*
 * Look for answers for some 10 µs before sleeping: a quick server has them by then and need not
 * wake this process, which costs the server as much as a small file. With slower servers, where
 * that found nothing lately, try it only now and then.
 */
static int spin(struct load *l, struct epoll_event *events)
{
	unsigned tries = l->spins;
	int n;

	if (is_open_loop(l) || !l->on_way)
		return 0;
	if (!tries && ++l->sleeps % SPIN_AGAIN == 0)
		tries = SPINS;
	for (unsigned i = 0; i < tries; i++) {
		n = epoll_wait(l->poll, events, EVENTS, 0);
		if (n) {
			l->spins = SPINS;
			return n;
		}
	}
	l->spins = tries / 2;
	return 0;
}

/*
 * Wait for events until a time. epoll_wait(2) counts milliseconds, which is too coarse for an open
 * loop's requests; ppoll(2) on its descriptor counts nanoseconds.
 */
static int wait_events(struct load *l, struct epoll_event *events, uint64_t until)
{
	uint64_t ns = until > l->now ? until - l->now : 0;
	struct timespec t = { (time_t)(ns / NS), (long)(ns % NS) };
	struct pollfd p = { .fd = l->poll, .events = POLLIN };
	int n = ns ? spin(l, events) : 0;

	if (n)
		return n;
	if (!ns || ns > NS / 50)
		return epoll_wait(l->poll, events, EVENTS, (int)((ns + 999999) / 1000000));
	n = epoll_wait(l->poll, events, EVENTS, 0);
	if (n == 0 && ppoll(&p, 1, &t, NULL) > 0)
		n = epoll_wait(l->poll, events, EVENTS, 0);
	return n;
}

static int take_events(struct load *l, uint64_t until, struct mlr_error *err)
{
	struct epoll_event events[EVENTS];
	struct connection_failure f;
	int n = wait_events(l, events, until);

	if (n < 0 && errno != EINTR)
		return mlr_fail_errno(err, "wait for answers");
	/* Take the time once a batch: an answer must not be charged for the reading of the ones
	 * before it. */
	l->now = clock_ns();
	for (int i = 0; i < n; i++) {
		struct connection *c = events[i].data.ptr;

		happened(l, c, connection_go(c, l->poll, l->now, l->r, &f), &f);
	}
	l->now = clock_ns();
	return 0;
}

/* The server is not there if not one request of some seconds got through to it. */
static int nobody(const struct load *l, struct mlr_error *err)
{
	const struct results *r = l->r;
	enum results_kind k = r->kinds[RESULTS_TLS] ? RESULTS_TLS : RESULTS_CONNECT;
	auto_free char *where = NULL;

	if (!r->kinds[k] || r->kinds[k] != r->requests - r->not_sent || r->connections ||
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

/*
 * In the open loop a request that never got a connection counts as failed, with its waiting time.
 * Otherwise a server that accepts nothing would look quick.
 */
static void count_not_sent(struct load *l)
{
	uint64_t due = is_open_loop(l) && !l->ended ? requests_due(l) : 0;

	if (l->ready.n + l->rest.n)
		return;
	for (; l->begun < due; l->begun++)
		results_not_sent(l->r, us_since(l, due_of(l, l->begun)));
}

/* Begin what was due before the end, and nothing after it. */
static int end_sending(struct load *l, struct mlr_error *err)
{
	int r = is_open_loop(l) ? begin_due(l, err) : 0;

	count_not_sent(l);
	l->ended = 1;
	return r;
}

/* End the run: record unanswered requests with the time waited so far. */
static void give_up(struct load *l)
{
	const struct connection_failure f = { .kind = RESULTS_TIMEOUT,
		.text = "no answer when the run ended" };

	l->r->unfinished = l->on_way;
	while (l->requests.first)
		failed(l, l->requests.first, &f);
}

static int loop(struct load *l, struct mlr_error *err)
{
	uint64_t grace = l->end + ns_of(fmin(l->o->timeout_s, l->o->grace_s));

	for (;;) {
		if (*l->o->stop || l->aborted) {
			count_not_sent(l);
			l->r->unfinished = l->on_way;
			return mlr_fail(err, l->aborted ? ECANCELED : EINTR, "stopped by a %s",
				l->aborted ? "threshold" : "signal");
		}
		if (!l->ended && l->now >= l->end)
			TRY(end_sending(l, err));
		TRY(do_due(l, err));
		TRY(nobody(l, err));
		if (l->ended && (!l->on_way || l->now >= grace)) {
			give_up(l);
			return 0;
		}
		TRY(take_events(l, next_due(l), err));
	}
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
	free(l->ready.v);
	free(l->rest.v);
	fd_close(&l->poll);
}

static int load_init(struct load *l, const struct load_options *o, struct mlr_error *err)
{
	unsigned n = o->stages.n ? stages_most(&o->stages) : o->connections_max;

	TRY(allow_files(n, err));
	l->poll = epoll_create1(EPOLL_CLOEXEC);
	if (l->poll < 0)
		return mlr_fail_errno(err, "make an epoll descriptor");
	l->n = n;
	l->all = xcalloc(l->n, sizeof(*l->all));
	l->ready.v = xcalloc(l->n, sizeof(struct connection *));
	l->rest.v = xcalloc(l->n, sizeof(struct connection *));
	for (unsigned i = 0; i < l->n; i++) {
		connection_init(&l->all[i], o);
		push(&l->rest, &l->all[l->n - 1 - i]);
	}
	return 0;
}

/* Make an open loop's first connections before the clock starts. Those that fail are made when they
 * are needed. */
static int connect_first(struct load *l, struct mlr_error *err)
{
	uint64_t until = l->now + CONNECT_NS;
	unsigned n = l->o->connections < l->n ? l->o->connections : l->n;
	struct connection_failure f;

	for (unsigned i = 0; i < n; i++) {
		struct connection *c = take_free(l);
		enum connection_event e = connection_begin(c, l->poll, l->now, l->r, &f);

		if (e == CONNECTION_FAILED) {
			connection_close(c);
			put_free(l, c);
		}
	}
	while (l->ready.n + l->rest.n < l->n && l->now < until && !*l->o->stop)
		TRY(take_events(l, until, err));
	return 0;
}

/*
 * Measure until the planned end or the last request, whichever is later. Timeouts do not count: one
 * request that hangs would lower the rate of all others.
 */
static double seconds_of(const struct load *l)
{
	uint64_t planned = l->now < l->end ? l->now : l->end;

	return (double)((l->last > planned ? l->last : planned) - l->start) * 1e-9;
}

int load_run(const struct load_options *o, struct results *ret, struct mlr_error *err)
{
	auto_call(load_done) struct load l = { .o = o, .r = ret, .poll = -1 };
	double cpu = cpu_seconds();
	int r;

	TRY(load_init(&l, o, err));
	/* Otherwise the kernel wakes this thread up to 50 µs late. */
	prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul);
	l.now = clock_ns();
	TRY(connect_first(&l, err));
	l.start = l.now = clock_ns();
	l.end = l.start + ns_of(load_seconds(o));
	l.row_end = l.start + NS;
	r = loop(&l, err);
	end_row(&l);
	ret->seconds = seconds_of(&l);
	ret->cpu_seconds = cpu_seconds() - cpu;
	return r;
}
