/*
 * The time limits of connections. A connection may wait for its next request, send a body and take
 * an answer, each for so long; what is being computed has no limit here. A thread looks at all of
 * them a few times a second and shuts down those that are late.
 */
#include "serve/server.h"

#include <sys/socket.h>

#define LOOK_MS 250

struct serve_conns {
	int64_t idle_ms, request_ms;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t end;
	int closing;
	struct serve_conn *first;
};

static int is_late(const struct serve_conns *c, const struct serve_conn *conn, int64_t now_ms)
{
	int64_t limit_ms = conn->phase == SERVE_WAITS ? c->idle_ms : c->request_ms;

	return conn->phase != SERVE_COMPUTES && now_ms - conn->since_ms > limit_ms;
}

/* The server sees the end of the connection and closes it. */
static void *look(void *arg)
{
	struct serve_conns *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->closing) {
		int64_t now_ms = mlr_now_ms();

		for (struct serve_conn *conn = c->first; conn; conn = conn->next)
			if (is_late(c, conn, now_ms))
				shutdown(conn->fd, SHUT_RDWR);
		mlr_cond_wait_ms(&c->end, &c->lock, LOOK_MS);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int serve_conns_open(
	int64_t idle_ms, int64_t request_ms, struct serve_conns **ret, struct mlr_error *err)
{
	struct serve_conns *c = xcalloc(1, sizeof(*c));
	int r;

	c->idle_ms = idle_ms;
	c->request_ms = request_ms;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->end, NULL);
	r = pthread_create(&c->thread, NULL, look, c);
	if (r != 0) {
		free(c);
		return mlr_result(err, -r, "start a thread for time limits");
	}
	*ret = c;
	return 0;
}

void serve_conns_close(struct serve_conns **conns)
{
	struct serve_conns *c = *conns;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = 1;
	pthread_cond_signal(&c->end);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->end);
	pthread_mutex_destroy(&c->lock);
	free(c);
	*conns = NULL;
}

struct serve_conn *serve_conns_add(struct serve_conns *c, int fd)
{
	struct serve_conn *conn = xcalloc(1, sizeof(*conn));

	conn->fd = fd;
	conn->since_ms = mlr_now_ms();
	pthread_mutex_lock(&c->lock);
	conn->next = c->first;
	conn->at = &c->first;
	if (c->first)
		c->first->at = &conn->next;
	c->first = conn;
	pthread_mutex_unlock(&c->lock);
	return conn;
}

void serve_conns_remove(struct serve_conns *c, struct serve_conn *conn)
{
	pthread_mutex_lock(&c->lock);
	*conn->at = conn->next;
	if (conn->next)
		conn->next->at = conn->at;
	pthread_mutex_unlock(&c->lock);
	free(conn);
}

void serve_conns_enter(struct serve_conns *c, struct serve_conn *conn, enum serve_phase phase)
{
	pthread_mutex_lock(&c->lock);
	conn->phase = phase;
	conn->since_ms = mlr_now_ms();
	pthread_mutex_unlock(&c->lock);
}

int serve_conns_drain(struct serve_conns *c)
{
	int busy = 0;

	pthread_mutex_lock(&c->lock);
	for (struct serve_conn *conn = c->first; conn; conn = conn->next)
		if (conn->phase == SERVE_WAITS)
			shutdown(conn->fd, SHUT_RD);
		else
			busy++;
	pthread_mutex_unlock(&c->lock);
	return busy;
}
