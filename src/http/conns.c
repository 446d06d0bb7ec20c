/*
 * The time limits of connections. A connection may wait for its next request, send a body and take
 * an answer, each for so long; what is being computed, or sleeps, has no limit here. A thread looks
 * at all of them a few times a second and shuts down those that are late; with no connection it
 * sleeps.
 */
#include "http/inside.h"

#include <sys/socket.h>

#define LOOK_MS 250

struct http_conns {
	int64_t idle_ms, request_ms;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t change; /* the first connection, or the end */
	int closing;
	struct http_conn *first;
};

static int is_late(const struct http_conns *c, const struct http_conn *conn, int64_t now_ms)
{
	int64_t limit_ms = conn->phase == HTTP_WAITS ? c->idle_ms : c->request_ms;

	return conn->phase <= HTTP_TAKES && now_ms - conn->since_ms > limit_ms;
}

/* The server sees the end of the connection and closes it. */
static void *look(void *arg)
{
	struct http_conns *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->closing) {
		int64_t now_ms = mlr_now_ms();

		for (struct http_conn *conn = c->first; conn; conn = conn->next)
			if (is_late(c, conn, now_ms))
				shutdown(conn->fd, SHUT_RDWR);
		if (c->first)
			mlr_cond_wait_ms(&c->change, &c->lock, LOOK_MS);
		else
			pthread_cond_wait(&c->change, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int http_conns_open(
	int64_t idle_ms, int64_t request_ms, struct http_conns **ret, struct mlr_error *err)
{
	struct http_conns *c = xcalloc(1, sizeof(*c));
	int r;

	c->idle_ms = idle_ms;
	c->request_ms = request_ms;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->change, NULL);
	r = pthread_create(&c->thread, NULL, look, c);
	if (r != 0) {
		free(c);
		return mlr_result(err, -r, "start a thread for time limits");
	}
	*ret = c;
	return 0;
}

void http_conns_close(struct http_conns **conns)
{
	struct http_conns *c = *conns;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = 1;
	pthread_cond_signal(&c->change);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->change);
	pthread_mutex_destroy(&c->lock);
	free(c);
	*conns = NULL;
}

struct http_conn *http_conns_add(struct http_conns *c, struct MHD_Connection *mhd)
{
	struct http_conn *conn = xcalloc(1, sizeof(*conn));

	conn->mhd = mhd;
	conn->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
	conn->since_ms = mlr_now_ms();
	pthread_mutex_lock(&c->lock);
	conn->next = c->first;
	conn->at = &c->first;
	if (c->first)
		c->first->at = &conn->next;
	else
		pthread_cond_signal(&c->change);
	c->first = conn;
	pthread_mutex_unlock(&c->lock);
	return conn;
}

void http_conns_remove(struct http_conns *c, struct http_conn *conn)
{
	pthread_mutex_lock(&c->lock);
	*conn->at = conn->next;
	if (conn->next)
		conn->next->at = conn->at;
	pthread_mutex_unlock(&c->lock);
	free(conn);
}

void http_conns_enter(struct http_conns *c, struct http_conn *conn, enum http_phase phase)
{
	pthread_mutex_lock(&c->lock);
	conn->phase = phase;
	conn->woken = 0;
	conn->since_ms = mlr_now_ms();
	pthread_mutex_unlock(&c->lock);
}

void http_conns_sleep(struct http_conns *c, struct http_conn *conn)
{
	pthread_mutex_lock(&c->lock);
	if (!conn->woken) {
		conn->phase = HTTP_SLEEPS;
		MHD_suspend_connection(conn->mhd);
	}
	pthread_mutex_unlock(&c->lock);
}

static void wake(struct http_conn *conn)
{
	conn->woken = 1;
	if (conn->phase != HTTP_SLEEPS)
		return;
	conn->phase = HTTP_COMPUTES;
	MHD_resume_connection(conn->mhd);
}

void http_conns_wake(struct http_conns *c, struct http_conn *conn)
{
	pthread_mutex_lock(&c->lock);
	wake(conn);
	pthread_mutex_unlock(&c->lock);
}

int http_conns_drain(struct http_conns *c)
{
	int busy = 0;

	pthread_mutex_lock(&c->lock);
	for (struct http_conn *conn = c->first; conn; conn = conn->next)
		if (conn->phase == HTTP_WAITS) {
			shutdown(conn->fd, SHUT_RD);
		} else {
			wake(conn);
			busy++;
		}
	pthread_mutex_unlock(&c->lock);
	return busy;
}
