#include "dist/elastic_run.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SPINS      1000  /* turns of waiting before the CPU is yielded */
#define RING_SPINS 4     /* the same for a ring, whose turns are system calls */
#define LOOK_MASK  0x3fu /* turns between looks at the star, then */
#define CALL_MS    5000
#define PIECE      ((size_t)4 << 20) /* bytes of one frame of weights */
#define BODY_MAX   ((size_t)64 << 20)
#define LATE_MS    10000

static struct elastic *own(struct dist *d)
{
	return (struct elastic *)d;
}

static const struct elastic *own_const(const struct dist *d)
{
	return (const struct elastic *)d;
}

static int ranks_of(const struct elastic *e)
{
	return e->dist.ranks;
}

int elastic_break(struct elastic *e, struct mlr_error *err)
{
	e->broken = 1;
	return mlr_fail(err, EIO, "a rank of generation %u was lost", e->group.generation);
}

/* --- the star ------------------------------------------------------------------------------ */

/* A faster rank may have sent what this one will ask for. All else tells of a loss. */
static int is_expected(const struct elastic *e, const struct frame *f)
{
	return f->generation == e->group.generation &&
		(f->kind == FRAME_SUM || f->kind == FRAME_BYTES);
}

static int is_lost(const struct elastic *e, int rank)
{
	struct frame f;
	int r = frame_peek(e->fd[rank], &f);

	return r < 0 || (r > 0 && !is_expected(e, &f));
}

int elastic_look(struct elastic *e, struct mlr_error *err)
{
	int n = e->dist.rank == 0 ? ranks_of(e) : 1;

	for (int i = e->dist.rank == 0; i < n; i++)
		if (is_lost(e, i))
			return elastic_break(e, err);
	return 0;
}

/* Name the rank that is waited for, once. */
static void tell_late(const struct elastic *e, int rank)
{
	const struct member *m = &e->group.member[rank];

	mlr_warning("waiting for rank %d on '%s' (process %d)", rank, m->host, (int)m->pid);
}

/*
 * Rank 0: receive the next frame of each other rank, of one kind and size.
 *
 *   to   [ranks][size]
 */
static int receive_all(
	struct elastic *e, enum frame_kind kind, void *to, size_t size, struct mlr_error *err)
{
	int n = ranks_of(e), left = n - 1, told = 0;
	char has[GROUP_MAX] = { 1 };
	int64_t late = mlr_now_ms() + LATE_MS;

	while (left > 0) {
		struct pollfd p[GROUP_MAX];

		for (int i = 0; i < n; i++)
			p[i] = (struct pollfd){ .fd = i ? e->fd[i] : -1, .events = POLLIN };
		if (poll(p, (nfds_t)n, 1000) < 0 && errno != EINTR)
			return mlr_fail_errno(err, "wait for the other ranks");
		for (int i = 1; i < n; i++) {
			struct frame f = { 0 };
			int r;

			if (!p[i].revents)
				continue;
			r = has[i] ? -EPROTO : frame_peek(e->fd[i], &f);
			if (r == 0)
				continue;
			if (r < 0 || f.kind != kind || f.size != size ||
				f.generation != e->group.generation ||
				frame_recv_head(e->fd[i], size, &f, -1, NULL) < 0 ||
				frame_recv_bytes(e->fd[i], (char *)to + (size_t)i * size, size, -1,
					NULL) < 0)
				return elastic_break(e, err);
			has[i] = 1;
			left--;
		}
		for (int i = 1; i < n && !told && mlr_now_ms() > late; i++)
			if (!has[i]) {
				tell_late(e, i);
				told = 1;
			}
	}
	return 0;
}

static int send_all(struct elastic *e, enum frame_kind kind, const void *from, size_t size,
	struct mlr_error *err)
{
	for (int i = 1; i < ranks_of(e); i++)
		if (frame_send(e->fd[i], kind, e->group.generation, from, size, -1, NULL) < 0)
			return elastic_break(e, err);
	return 0;
}

static int send_up(struct elastic *e, enum frame_kind kind, const void *from, size_t size,
	struct mlr_error *err)
{
	if (frame_send(e->fd[0], kind, e->group.generation, from, size, -1, NULL) < 0)
		return elastic_break(e, err);
	return 0;
}

/* Receive one frame of rank 0's. */
static int receive_down(
	struct elastic *e, enum frame_kind kind, void *to, size_t size, struct mlr_error *err)
{
	struct frame f;

	if (frame_recv_head(e->fd[0], BODY_MAX, &f, -1, NULL) < 0)
		return elastic_break(e, err);
	if (f.kind != kind || f.size != size || f.generation != e->group.generation ||
		frame_recv_bytes(e->fd[0], to, size, -1, NULL) < 0)
		return elastic_break(e, err);
	return 0;
}

int elastic_sum(void *ctx, double *x, size_t n, struct mlr_error *err)
{
	struct elastic *e = ctx;
	size_t size = n * sizeof(*x);
	auto_free double *all = NULL;
	int r;

	if (ranks_of(e) == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, err);
	if (e->dist.rank != 0) {
		r = send_up(e, FRAME_SUM, x, size, err);
		return r < 0 ? r : receive_down(e, FRAME_SUM, x, size, err);
	}
	all = xcalloc((size_t)ranks_of(e), size);
	r = receive_all(e, FRAME_SUM, all, size, err);
	if (r < 0)
		return r;
	for (int k = 1; k < ranks_of(e); k++)
		for (size_t i = 0; i < n; i++)
			x[i] += all[(size_t)k * n + i];
	return send_all(e, FRAME_SUM, x, size, err);
}

static int broadcast(void *ctx, void *x, size_t bytes, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (ranks_of(e) == 1)
		return 0;
	if (e->broken)
		return elastic_break(e, err);
	return e->dist.rank == 0 ? send_all(e, FRAME_BYTES, x, bytes, err)
				 : receive_down(e, FRAME_BYTES, x, bytes, err);
}

static int gather(struct dist *d, const void *from, size_t bytes, void *to, struct mlr_error *err)
{
	struct elastic *e = own(d);

	if (e->broken)
		return elastic_break(e, err);
	if (d->rank != 0)
		return send_up(e, FRAME_BYTES, from, bytes, err);
	memcpy(to, from, bytes);
	return receive_all(e, FRAME_BYTES, to, bytes, err);
}

static int barrier(struct dist *d, struct mlr_error *err)
{
	double nothing = 0;

	return elastic_sum(d, &nothing, 1, err);
}

/* --- gradients ----------------------------------------------------------------------------- */

static void ready(void *ctx, float *part, size_t count)
{
	struct elastic *e = ctx;

	if (e->sums)
		sums_ready(e->sums, part, count);
}

static void poll_sums(void *ctx)
{
	struct elastic *e = ctx;

	if (e->sums)
		sums_poll(e->sums);
}

static int wait_sums(void *ctx, struct mlr_error *err)
{
	struct elastic *e = ctx;
	struct mlr_error why = MLR_ERROR_INIT;

	if (!e->sums || (!e->broken && sums_wait(e->sums, &why) == 0))
		return 0;
	return elastic_break(e, err);
}

int elastic_idle(void *ctx, unsigned *turns, struct mlr_error *err)
{
	struct elastic *e = ctx;

	if (e->ring && ++*turns > RING_SPINS)
		ring_sums_sleep(e->ring, 1);
	else if (!e->ring && ++*turns > SPINS)
		sched_yield();
	else
		return 0;
	return *turns & LOOK_MASK ? 0 : elastic_look(e, err);
}

void elastic_drop_sums(struct elastic *e)
{
	sums_free(&e->sums);
	node_sums_free(&e->node);
	ring_sums_free(&e->ring);
}

/* --- calling ------------------------------------------------------------------------------- */

static int call_at(
	struct elastic *e, const struct in6_addr *at, uint32_t port, struct mlr_error *err)
{
	auto_close int fd = lifeline_connect(at, port);
	int r;

	if (fd < 0)
		return mlr_fail(err, EHOSTUNREACH, "connect: %s", strerror(errno));
	lifeline_keep(fd);
	r = secret_call(fd, &e->secret, CALL_MS, err);
	return r < 0 ? r : take_fd(&fd);
}

/* A machine's own loopback comes first: it needs no network. Addresses that both machines have,
 * such as a bridge's, lead back here. */
int elastic_call(struct elastic *e, const struct member *to, struct mlr_error *err)
{
	static const struct in6_addr loopback = { .s6_addr = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	int is_here = to->boot[0] && strcmp(to->boot, e->self.boot) == 0;
	int r = mlr_fail(err, EHOSTUNREACH, "'%s' has no address", to->host);

	if (is_here) {
		r = call_at(e, &loopback, to->offer.port, err);
		if (r >= 0 || r == -EACCES)
			return r;
	}
	for (uint32_t i = 0; i < to->offer.addresses; i++) {
		if (!is_here && to->boot[0] &&
			lifeline_is_own(&to->offer.address[i], &e->self.offer))
			continue;
		r = call_at(e, &to->offer.address[i], to->offer.port, err);
		if (r >= 0)
			return r;
	}
	return r;
}

/* --- newcomers ----------------------------------------------------------------------------- */

static void refuse(struct guest *g, const char *why)
{
	frame_send(g->fd, FRAME_REFUSED, 0, why, strlen(why), 1000, NULL);
	close(g->fd);
}

/* Why a newcomer can't be a rank; NULL if it can. */
static const char *flaw_of(const struct elastic *e, const struct guest *g)
{
	struct group_join j;

	if (group_parse_join(g->body, g->first.size, &j, NULL) < 0 ||
		strcmp(j.version, PACKAGE_VERSION) != 0)
		return "it is of another version of mltrain than the run";
	if (strcmp(j.options, e->options) != 0)
		return "its options differ from the run's";
	if (strcmp(j.data, e->data) != 0)
		return "its data set differs from the run's";
	return NULL;
}

void elastic_receive_newcomers(struct elastic *e)
{
	struct guest g;
	struct frame f;

	for (int i = e->n_waiting; i-- > 0;) {
		if (frame_peek(e->waiting[i].fd, &f) == 0)
			continue;
		close(e->waiting[i].fd); /* gone, or it says what nobody asked for */
		e->n_waiting--;
		memmove(&e->waiting[i], &e->waiting[i + 1], (size_t)(e->n_waiting - i) * sizeof(g));
	}
	while (e->n_waiting < ELASTIC_WAITING && door_take(e->door, FRAME_JOIN, &g)) {
		const char *flaw = flaw_of(e, &g);

		if (flaw) {
			mlr_warning("--elastic: a newcomer was refused: %s", flaw);
			refuse(&g, flaw);
		} else {
			e->waiting[e->n_waiting++] = g;
		}
	}
}

int elastic_wants_change(struct dist *d)
{
	struct elastic *e = own(d);

	if (d->rank != 0)
		return 0;
	if (door_has(e->door, FRAME_JOIN) || e->n_waiting)
		elastic_receive_newcomers(e);
	return e->n_waiting > 0 && d->ranks < e->o.max;
}

/* --- the rendezvous ------------------------------------------------------------------------ */

void elastic_publish(struct elastic *e)
{
	struct rendezvous now = {
		.coordinator = e->self, .secret = e->secret, .generation = e->group.generation
	};
	struct mlr_error err = MLR_ERROR_INIT;

	if (elastic_is_address(e->o.where))
		return;
	if (rendezvous_replace(e->o.where, &now, &err) < 0) {
		mlr_log_failure(MLR_WARNING, &err, "; training goes on, but nobody can join");
		return;
	}
	e->file = now;
	e->has_file = 1;
}

int elastic_is_address(const char *where)
{
	const char *colon = strrchr(where, ':');

	return colon && colon > where && !strchr(where, '/') && colon[1] &&
		strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

static int begin(struct elastic *e, int port, struct mlr_error *err)
{
	int r = door_open(port, &e->secret, &e->door, &e->self.offer, err);

	if (r < 0)
		return r;
	e->self.id = 1;
	e->group = (struct group){ .n = 1, .next_id = 2, .source = 1 };
	e->group.member[0] = e->self;
	return 0;
}

/* A newcomer has a door as well, for the ring, and because it may be the next coordinator. */
static int come(struct elastic *e, struct mlr_error *err)
{
	e->dist.rank = 1;
	return door_open(0, &e->secret, &e->door, &e->self.offer, err);
}

/* Does the coordinator that the file names answer? Returns 1, 0 if it is dead, or -errno. */
static int answers(struct elastic *e, struct mlr_error *err)
{
	auto_close int fd = -1;

	e->secret = e->file.secret;
	fd = elastic_call(e, &e->file.coordinator, err);
	if (fd >= 0)
		return 1;
	if (fd == -EHOSTUNREACH)
		return 0;
	mlr_wrap(err, "the run of '%s'", e->o.where);
	if (fd == -EACCES)
		return fd;
	return mlr_hint(err,
		"a process answers there, but not as a run does: if that run is "
		"over, remove the file");
}

/* The file of a run that is dead is removed, and this process begins anew. */
static int open_file(struct elastic *e, struct mlr_error *err)
{
	for (int tries = 0; tries < 20; tries++) {
		int r = rendezvous_read(e->o.where, &e->file, err);

		if (r < 0 && r != -ENOENT)
			return r;
		if (r == 0) {
			r = answers(e, err);
			if (r > 0)
				return come(e, err);
			/* A busy coordinator may have no time for a caller, and another rank may be
			 * about to take a dead one's place. */
			if (r == -EACCES || (r < 0 && tries >= 4))
				return r;
			if (tries < 4) {
				poll(NULL, 0, 500);
				continue;
			}
			rendezvous_remove(e->o.where, &e->file);
		}
		if ((r = secret_make(&e->secret, err)) < 0 || (r = begin(e, 0, err)) < 0)
			return r;
		e->file = (struct rendezvous){ .coordinator = e->self, .secret = e->secret };
		r = rendezvous_create(e->o.where, &e->file, err);
		e->has_file = r == 0;
		if (r != -EEXIST)
			return r;
		door_close(&e->door);
		e->self.id = 0;
		e->group = (struct group){ .n = 0 };
	}
	return mlr_fail(err, EAGAIN, "rendezvous file '%s' comes and goes", e->o.where);
}

static int read_secret(struct elastic *e, struct mlr_error *err)
{
	const char *path = e->o.secret_file, *text = getenv("MLTRAIN_ELASTIC_SECRET");
	auto_free char *read = NULL;
	struct stat st;
	int r;

	if (!path && !text) {
		mlr_fail(err, EINVAL, "--elastic %s: no secret is given", e->o.where);
		return mlr_hint(err,
			"put one into a file of mode 0600 for --elastic-secret, or into "
			"MLTRAIN_ELASTIC_SECRET");
	}
	if (path) {
		r = file_read(AT_FDCWD, path, SECRET_TEXT_MAX, &read, NULL, err);
		if (r < 0)
			return mlr_wrap(err, "--elastic-secret");
		if (stat(path, &st) == 0 && st.st_mode & (S_IRWXG | S_IRWXO)) {
			mlr_fail(err, EACCES, "--elastic-secret '%s': others may read or write it",
				path);
			return mlr_hint(err, "chmod 600 '%s'", path);
		}
		read[strcspn(read, "\n")] = '\0';
		text = read;
	}
	r = secret_of_text(text, &e->secret, err);
	return r < 0 ? mlr_wrap(err, "%s", path ? "--elastic-secret" : "MLTRAIN_ELASTIC_SECRET")
		     : 0;
}

/* Set e->file.coordinator's addresses to those of HOST:PORT. */
static int resolve(struct elastic *e, int *port, struct mlr_error *err)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC };
	const char *colon = strrchr(e->o.where, ':');
	auto_free char *host = xstrndup(e->o.where, (size_t)(colon - e->o.where));
	struct member *m = &e->file.coordinator;
	struct addrinfo *list = NULL;
	int r;

	*port = atoi(colon + 1);
	if (*port < 1 || *port > 65535)
		return mlr_fail(err, EINVAL, "--elastic %s: no such port", e->o.where);
	r = getaddrinfo(host, NULL, &hints, &list);
	if (r != 0)
		return mlr_fail(err, ENOENT, "--elastic: host '%s': %s", host, gai_strerror(r));
	snprintf(m->host, sizeof(m->host), "%s", host);
	m->offer.port = (uint32_t)*port;
	for (struct addrinfo *i = list; i && m->offer.addresses < LIFELINE_ADDRESSES;
		i = i->ai_next) {
		struct in6_addr *to = &m->offer.address[m->offer.addresses];

		*to = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
		if (i->ai_family == AF_INET)
			memcpy(to->s6_addr + 12, &((struct sockaddr_in *)i->ai_addr)->sin_addr, 4);
		else if (i->ai_family == AF_INET6)
			*to = ((struct sockaddr_in6 *)i->ai_addr)->sin6_addr;
		else
			continue;
		m->offer.addresses++;
	}
	freeaddrinfo(list);
	return 0;
}

/* bind(2) takes this machine's addresses alone. */
static int is_here(const struct lifeline_offer *o)
{
	for (uint32_t i = 0; i < o->addresses; i++) {
		int is_four = IN6_IS_ADDR_V4MAPPED(&o->address[i]);
		struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = o->address[i] };
		struct sockaddr_in four = { .sin_family = AF_INET };
		auto_close int fd =
			socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

		memcpy(&four.sin_addr, o->address[i].s6_addr + 12, 4);
		if (fd >= 0 &&
			bind(fd, is_four ? (void *)&four : (void *)&six,
				is_four ? sizeof(four) : sizeof(six)) == 0)
			return 1;
	}
	return 0;
}

/* Who can listen there begins the run; who can't calls there. */
static int open_address(struct elastic *e, struct mlr_error *err)
{
	struct mlr_error ignored = MLR_ERROR_INIT;
	auto_close int fd = -1;
	int port = 0, begins, r = read_secret(e, err);

	if (r == 0)
		r = resolve(e, &port, err);
	if (r < 0)
		return r;
	begins = is_here(&e->file.coordinator.offer);
	for (int tries = 0; tries < (begins ? 40 : 240); tries++) {
		fd = elastic_call(e, &e->file.coordinator, err);
		if (fd >= 0)
			return come(e, err);
		if (fd == -EACCES)
			return mlr_wrap(err, "--elastic %s", e->o.where);
		if (begins && begin(e, port, &ignored) == 0)
			return 0;
		poll(NULL, 0, 250);
	}
	mlr_wrap(err, "--elastic %s", e->o.where);
	return mlr_hint(err, "the first rank must run on that host, with that port free");
}

/* --- opening and closing ------------------------------------------------------------------- */

static void close_elastic(struct dist *d)
{
	struct elastic *e = own(d);

	elastic_drop_sums(e);
	for (int i = 0; i < GROUP_MAX; i++)
		if (e->fd[i] >= 0)
			close(e->fd[i]);
	for (int i = 0; i < e->n_waiting; i++)
		close(e->waiting[i].fd);
	door_close(&e->door);
	if (e->has_file && d->ranks == 1)
		rendezvous_remove(e->o.where, &e->file);
	free(e);
}

/* The other ranks go on. */
static void abort_elastic(struct dist *d, int status)
{
	(void)d;
	(void)status;
}

static const struct dist_ops ops = { gather, barrier, close_elastic, abort_elastic };

int elastic_open(const struct elastic_options *o, struct dist **ret, struct mlr_error *err)
{
	struct elastic *e = xcalloc(1, sizeof(*e));
	int r;

	e->o = *o;
	e->dist = (struct dist){ .name = "elastic",
		.ranks = 1,
		.local_ranks = 1,
		.elastic = 1,
		.ops = &ops,
		.exchange = { .ranks = 1,
			.ctx = e,
			.ready = ready,
			.poll = poll_sums,
			.wait = wait_sums,
			.sum = elastic_sum,
			.broadcast = broadcast,
			.idle = elastic_idle,
			.local_ranks = 1 } };
	for (int i = 0; i < GROUP_MAX; i++)
		e->fd[i] = -1;
	group_describe_self(&e->self);
	r = elastic_is_address(o->where) ? open_address(e, err) : open_file(e, err);
	if (r < 0) {
		e->has_file = 0;
		close_elastic(&e->dist);
		return r;
	}
	*ret = &e->dist;
	return 0;
}

int elastic_is_newcomer(const struct dist *d)
{
	return d && d->elastic && own_const(d)->group.n == 0;
}

int elastic_most(const struct dist *d)
{
	return own_const(d)->o.max;
}

void elastic_say_options(struct dist *d, const char *options, const char *data)
{
	struct elastic *e = own(d);

	snprintf(e->options, sizeof(e->options), "%s", options);
	snprintf(e->data, sizeof(e->data), "%s", data);
}

int elastic_is_broken(const struct dist *d)
{
	return d && d->elastic && own_const(d)->broken;
}

struct elastic_change elastic_latest(const struct dist *d)
{
	return own_const(d)->change;
}

/* --- weights ------------------------------------------------------------------------------- */

int elastic_must_share(const struct dist *d)
{
	const struct group *g = &own_const(d)->group;

	for (uint32_t i = 0; i < g->n; i++)
		if (g->member[i].needs)
			return 1;
	return 0;
}

int elastic_needs(const struct dist *d)
{
	return own_const(d)->group.member[d->rank].needs;
}

/* From the source to rank 0, if that is another, then to whoever needs it. */
static int share_piece(struct elastic *e, void *at, size_t n, struct mlr_error *err)
{
	const struct group *g = &e->group;
	int source = group_find(g, g->source), rank = e->dist.rank;
	struct frame f;

	if (rank == source && rank != 0)
		return send_up(e, FRAME_BYTES, at, n, err);
	if (rank != 0)
		return g->member[rank].needs ? receive_down(e, FRAME_BYTES, at, n, err) : 0;
	if (source != 0 &&
		(frame_recv_head(e->fd[source], n, &f, -1, NULL) < 0 || f.kind != FRAME_BYTES ||
			f.size != n || frame_recv_bytes(e->fd[source], at, n, -1, NULL) < 0))
		return elastic_break(e, err);
	for (int i = 1; i < ranks_of(e); i++)
		if (g->member[i].needs &&
			frame_send(e->fd[i], FRAME_BYTES, g->generation, at, n, -1, NULL) < 0)
			return elastic_break(e, err);
	return 0;
}

int elastic_share(struct dist *d, void *bytes, size_t size, struct mlr_error *err)
{
	int r = 0;

	for (size_t at = 0; at < size && r == 0; at += PIECE)
		r = share_piece(
			own(d), (char *)bytes + at, size - at < PIECE ? size - at : PIECE, err);
	return r;
}

/* --- the end ------------------------------------------------------------------------------- */

int elastic_finish(struct dist *d, struct mlr_error *err)
{
	struct elastic *e = own(d);
	struct frame f;

	if (d->rank != 0) {
		if (frame_recv_head(e->fd[0], BODY_MAX, &f, -1, NULL) == 0 && f.kind == FRAME_END)
			return 0;
		return elastic_break(e, err);
	}
	for (int i = 1; i < d->ranks; i++)
		frame_send(e->fd[i], FRAME_END, e->group.generation, NULL, 0, 1000, NULL);
	elastic_receive_newcomers(e);
	for (int i = 0; i < e->n_waiting; i++)
		frame_send(e->waiting[i].fd, FRAME_END, e->group.generation, NULL, 0, 1000, NULL);
	if (e->has_file)
		rendezvous_remove(e->o.where, &e->file);
	e->has_file = 0;
	return 0;
}
