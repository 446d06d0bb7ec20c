#include "dist/frame.h"

#include <endian.h>
#include <poll.h>
#include <sys/socket.h>

#define BODY_MAX UINT32_MAX

static const uint8_t magic[4] = { 'm', 'l', 't', '1' };

void frame_write_head(const struct frame *f, uint8_t head[FRAME_HEAD])
{
	uint32_t size = htole32(f->size), generation = htole32(f->generation);

	memset(head, 0, FRAME_HEAD);
	memcpy(head, magic, sizeof(magic));
	head[4] = (uint8_t)f->kind;
	memcpy(head + 8, &size, sizeof(size));
	memcpy(head + 12, &generation, sizeof(generation));
}

int frame_parse_head(
	const uint8_t head[FRAME_HEAD], size_t limit, struct frame *ret, struct mlr_error *err)
{
	uint32_t size, generation;

	if (memcmp(head, magic, sizeof(magic)) != 0 || head[5] || head[6] || head[7] ||
		head[4] == 0 || head[4] >= FRAME_KINDS)
		return mlr_fail(err, EPROTO, "a frame begins with bytes that are no head");
	memcpy(&size, head + 8, sizeof(size));
	memcpy(&generation, head + 12, sizeof(generation));
	if (le32toh(size) > limit)
		return mlr_fail(
			err, EMSGSIZE, "a frame of %u bytes, more than %zu", le32toh(size), limit);
	*ret = (struct frame){ (enum frame_kind)head[4], le32toh(size), le32toh(generation) };
	return 0;
}

/* A process has one run. */
static struct {
	int (*turn)(void *ctx, int64_t since, struct mlr_error *err);
	void *ctx;
} waits;

void frame_wait_by(int (*turn)(void *ctx, int64_t since, struct mlr_error *err), void *ctx)
{
	waits.turn = turn;
	waits.ctx = ctx;
}

/* Wait for a socket. Signals do not end the wait: callers look at them between frames. */
static int wait_for(int fd, short events, int64_t end_ms, struct mlr_error *err)
{
	struct pollfd p = { .fd = fd, .events = events };
	int64_t begin = mlr_now_ms();

	for (;;) {
		int64_t left = end_ms < 0 ? 1000 : end_ms - mlr_now_ms();
		int r;

		if (left <= 0)
			return mlr_fail(err, ETIMEDOUT, "the other end does not answer");
		r = poll(&p, 1, left > 1000 ? 1000 : (int)left);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return mlr_fail_errno(err, "wait for a connection");
		if (end_ms < 0 && waits.turn)
			TRY(waits.turn(waits.ctx, begin, err));
	}
}

static int is_later(int code)
{
	return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

/* Send (POLLOUT) or receive (POLLIN) n bytes. */
static int transfer(int fd, short way, char *at, size_t n, int timeout_ms, struct mlr_error *err)
{
	int64_t end = timeout_ms < 0 ? -1 : mlr_now_ms() + timeout_ms;

	while (n > 0) {
		ssize_t some = way == POLLOUT ? send(fd, at, n, MSG_NOSIGNAL) : recv(fd, at, n, 0);

		if (some == 0 && way == POLLIN)
			return mlr_fail(err, ECONNRESET, "the other end has closed the connection");
		if (some < 0 && !is_later(errno))
			return mlr_fail_errno(err, way == POLLOUT ? "send" : "receive");
		if (some > 0) {
			at += some;
			n -= (size_t)some;
			continue;
		}
		TRY(wait_for(fd, way, end, err));
	}
	return 0;
}

int frame_send_bytes(int fd, const void *bytes, size_t n, int timeout_ms, struct mlr_error *err)
{
	return transfer(fd, POLLOUT, (char *)bytes, n, timeout_ms, err);
}

int frame_recv_bytes(int fd, void *bytes, size_t n, int timeout_ms, struct mlr_error *err)
{
	return transfer(fd, POLLIN, bytes, n, timeout_ms, err);
}

int frame_send(int fd, enum frame_kind kind, uint32_t generation, const void *body, size_t size,
	int timeout_ms, struct mlr_error *err)
{
	const struct frame f = { kind, (uint32_t)size, generation };
	uint8_t head[FRAME_HEAD];

	if (size > BODY_MAX)
		return mlr_fail(err, EMSGSIZE, "%zu bytes are too many for a frame", size);
	frame_write_head(&f, head);
	TRY(frame_send_bytes(fd, head, sizeof(head), timeout_ms, err));
	return frame_send_bytes(fd, body, size, timeout_ms, err);
}

int frame_recv_head(int fd, size_t limit, struct frame *ret, int timeout_ms, struct mlr_error *err)
{
	uint8_t head[FRAME_HEAD];

	TRY(frame_recv_bytes(fd, head, sizeof(head), timeout_ms, err));
	return frame_parse_head(head, limit, ret, err);
}

int frame_skip(int fd, size_t size, struct mlr_error *err)
{
	char some[4096];

	while (size > 0) {
		size_t n = size < sizeof(some) ? size : sizeof(some);

		TRY(frame_recv_bytes(fd, some, n, -1, err));
		size -= n;
	}
	return 0;
}

int frame_peek(int fd, struct frame *ret)
{
	struct mlr_error ignored;
	uint8_t head[FRAME_HEAD];
	ssize_t got = recv(fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);

	if (got < 0 && is_later(errno))
		return 0;
	if (got <= 0)
		return -ECONNRESET;
	if (got < (ssize_t)sizeof(head))
		return 0;
	return frame_parse_head(head, BODY_MAX, ret, &ignored) < 0 ? -EPROTO : 1;
}
