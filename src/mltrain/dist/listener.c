#include "dist/listener.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define CALLERS    32 /* not yet accepted, at once; of more the oldest is rejected */
#define GUESTS     64
#define TIMEOUT_MS 2000
#define WAITS_MS   3000 /* a waiting owner says so more often */

/* The progress of a caller: each stage ends when `want` bytes have been read. */
enum stage { STAGE_ANSWER, STAGE_HEAD, STAGE_BODY };

struct caller {
	int fd;
	enum stage stage;
	int64_t end_ms;
	uint8_t challenge[SECRET_CHALLENGE];
	uint8_t buf[LISTENER_BODY_MAX];
	size_t have, want;
	struct frame first;
	char from[INET6_ADDRSTRLEN];
};

struct listener {
	int listening, wake, came; /* eventfds: wake ends the thread, came is for the owner */
	struct secret secret;
	pthread_t thread;
	struct caller callers[CALLERS]; /* the thread's */
	int n_callers, reported;
	_Atomic int64_t waited; /* when the owner last said that it waits */
	pthread_mutex_t lock;   /* protects what follows */
	struct guest guests[GUESTS];
	int n_guests;
};

static void drop(struct listener *d, int i)
{
	close(d->callers[i].fd);
	d->n_callers--;
	memmove(&d->callers[i], &d->callers[i + 1],
		(size_t)(d->n_callers - i) * sizeof(d->callers[0]));
}

static void reject(struct listener *d, int i, const char *why)
{
	if (!d->reported++)
		mlr_warning("--elastic: rejected a connection from %s: %s (further ones are not "
			    "reported)",
			d->callers[i].from, why);
	drop(d, i);
}

static void admit(struct listener *d)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	int fd =
		accept4(d->listening, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct in6_addr at;
	struct caller *c;
	int on = 1;

	if (fd < 0)
		return;
	if (d->n_callers == CALLERS)
		reject(d, 0, "too many connections at once");
	c = &d->callers[d->n_callers++];
	*c = (struct caller){
		.fd = fd, .want = SECRET_ANSWER, .end_ms = mlr_now_ms() + TIMEOUT_MS
	};
	if (!lifeline_address((struct sockaddr *)&from, &at) ||
		!inet_ntop(AF_INET6, &at, c->from, sizeof(c->from)))
		strcpy(c->from, "?");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* The buffer of a new socket holds it. */
	if (secret_challenge(c->challenge) < 0 ||
		send(fd, c->challenge, sizeof(c->challenge), MSG_NOSIGNAL) != sizeof(c->challenge))
		drop(d, d->n_callers - 1);
}

static void accept_caller(struct listener *d, int i)
{
	struct caller *c = &d->callers[i];
	uint64_t one = 1;

	pthread_mutex_lock(&d->lock);
	if (d->n_guests < GUESTS) {
		struct guest *g = &d->guests[d->n_guests++];

		lifeline_keep(c->fd);
		*g = (struct guest){ .fd = take_fd(&c->fd), .first = c->first };
		memcpy(g->body, c->buf, c->first.size);
	}
	pthread_mutex_unlock(&d->lock);
	if (write(d->came, &one, sizeof(one)) < 0)
		one = 0; /* the owner looks now and then */
	drop(d, i);
}

static void answer(struct listener *d, int i)
{
	uint8_t waits = mlr_now_ms() - atomic_load(&d->waited) < WAITS_MS;

	send(d->callers[i].fd, &waits, sizeof(waits), MSG_NOSIGNAL);
	drop(d, i);
}

/* Go on to the next stage: this one's bytes are complete. */
static void step(struct listener *d, int i)
{
	struct caller *c = &d->callers[i];
	uint8_t proof[SECRET_SIZE];
	struct mlr_error err;

	c->have = 0;
	switch (c->stage) {
	case STAGE_ANSWER:
		if (!secret_check(&d->secret, c->challenge, c->buf, proof)) {
			reject(d, i, "it does not know this run's secret");
		} else if (send(c->fd, proof, sizeof(proof), MSG_NOSIGNAL) != sizeof(proof)) {
			drop(d, i);
		} else {
			c->stage = STAGE_HEAD;
			c->want = FRAME_HEAD;
		}
		return;
	case STAGE_HEAD:
		if (frame_parse_head(c->buf, LISTENER_BODY_MAX, &c->first, &err) < 0) {
			reject(d, i, "it proved the secret and then sent no valid frame");
			return;
		}
		if (c->first.kind == FRAME_ASK) {
			answer(d, i);
			return;
		}
		c->stage = STAGE_BODY;
		c->want = c->first.size;
		if (c->want)
			return;
		break;
	case STAGE_BODY:
		break;
	}
	accept_caller(d, i);
}

static void hear(struct listener *d, int i)
{
	struct caller *c = &d->callers[i];
	ssize_t got = recv(c->fd, c->buf + c->have, c->want - c->have, 0);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0 && c->stage == STAGE_ANSWER) {
		reject(d, i, "it hung up before it proved to know the secret");
		return;
	}
	if (got <= 0) { /* a rank that only checked whether this one is there */
		drop(d, i);
		return;
	}
	c->have += (size_t)got;
	if (c->have == c->want)
		step(d, i);
}

static void *serve(void *ctx)
{
	struct listener *d = ctx;

	for (;;) {
		struct pollfd p[CALLERS + 2] = { { .fd = d->wake, .events = POLLIN },
			{ .fd = d->listening, .events = POLLIN } };
		int n = d->n_callers;

		for (int i = 0; i < n; i++)
			p[i + 2] = (struct pollfd){ .fd = d->callers[i].fd, .events = POLLIN };
		if (poll(p, (nfds_t)n + 2, n ? 100 : -1) < 0 && errno != EINTR)
			return NULL;
		if (p[0].revents)
			return NULL;
		for (int i = n; i-- > 0;)
			if (p[i + 2].revents)
				hear(d, i);
		if (p[1].revents)
			admit(d);
		for (int i = d->n_callers; i-- > 0;)
			if (mlr_now_ms() >= d->callers[i].end_ms)
				reject(d, i, "it sent nothing, or not enough, for two seconds");
	}
}

/* Signals are for the training thread. */
static int start_thread(struct listener *d)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&d->thread, NULL, serve, d);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static void free_listener(struct listener *d)
{
	for (int i = 0; i < d->n_callers; i++)
		close(d->callers[i].fd);
	for (int i = 0; i < d->n_guests; i++)
		close(d->guests[i].fd);
	fd_close(&d->listening);
	fd_close(&d->wake);
	fd_close(&d->came);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

int listener_open(uint32_t port, const struct secret *secret, struct listener **ret,
	struct lifeline_offer *offer, struct mlr_error *err)
{
	struct listener *d = xcalloc(1, sizeof(*d));
	int r = 0;

	pthread_mutex_init(&d->lock, NULL);
	d->secret = *secret;
	d->listening = lifeline_listen(port, offer);
	if (d->listening < 0)
		r = mlr_fail_errno(err, "listen on port %u", port);
	d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	d->came = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r == 0 && (d->wake < 0 || d->came < 0))
		r = mlr_fail_errno(err, "eventfd");
	if (r == 0 && start_thread(d) != 0)
		r = mlr_fail(err, EAGAIN, "start a thread that listens");
	if (r < 0) {
		free_listener(d);
		return r;
	}
	*ret = d;
	return 0;
}

void listener_close(struct listener **d)
{
	uint64_t one = 1;

	if (!*d)
		return;
	(void)TEMP_FAILURE_RETRY(write((*d)->wake, &one, sizeof(one)));
	pthread_join((*d)->thread, NULL);
	free_listener(*d);
	*d = NULL;
}

int listener_take(struct listener *d, enum frame_kind kind, struct guest *ret)
{
	int i;

	pthread_mutex_lock(&d->lock);
	for (i = 0; i < d->n_guests && d->guests[i].first.kind != kind; i++)
		;
	if (i < d->n_guests) {
		*ret = d->guests[i];
		d->n_guests--;
		memmove(&d->guests[i], &d->guests[i + 1],
			(size_t)(d->n_guests - i) * sizeof(d->guests[0]));
		i = -1;
	}
	pthread_mutex_unlock(&d->lock);
	return i < 0;
}

void listener_give(struct listener *d, const struct guest *g)
{
	pthread_mutex_lock(&d->lock);
	if (d->n_guests < GUESTS)
		d->guests[d->n_guests++] = *g;
	else
		close(g->fd);
	pthread_mutex_unlock(&d->lock);
}

int listener_has(struct listener *d, enum frame_kind kind)
{
	int has = 0;

	pthread_mutex_lock(&d->lock);
	for (int i = 0; i < d->n_guests; i++)
		has |= d->guests[i].first.kind == kind;
	pthread_mutex_unlock(&d->lock);
	return has;
}

void listener_waits(struct listener *d, int64_t now)
{
	atomic_store(&d->waited, now);
}

int listener_fd(const struct listener *d)
{
	return d->came;
}

void listener_seen(struct listener *d)
{
	uint64_t n;

	(void)TEMP_FAILURE_RETRY(read(d->came, &n, sizeof(n)));
}
