/* Calls from one rank to another. */
#include "dist/elastic_run.h"

#include "base/base.h"

#define CALL_MS 5000

/* Failures of socket(2) and connect(2) that this machine causes, whoever is at the other end. */
static int is_here_alone(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM ||
		code == EAGAIN;
}

static int call_at(
	struct elastic *e, const struct in6_addr *at, uint32_t port, struct mlr_error *err)
{
	auto_close int fd = lifeline_connect(at, port);
	int r;

	if (fd < 0)
		return mlr_fail(err, is_here_alone(errno) ? errno : EHOSTUNREACH, "connect: %s",
			strerror(errno));
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
	int r = mlr_fail(err, EHOSTUNREACH, "'%s' has no address", to->host), at;

	if (is_here) {
		r = call_at(e, &loopback, to->offer.port, err);
		if (r >= 0 || r == -EACCES)
			return r;
	}
	for (uint32_t i = 0; i < to->offer.addresses; i++) {
		if (!is_here && to->boot[0] &&
			lifeline_is_own(&to->offer.address[i], &e->self.offer))
			continue;
		at = call_at(
			e, &to->offer.address[i], to->offer.port, r == -EHOSTUNREACH ? err : NULL);
		if (at >= 0)
			return at;
		if (r == -EHOSTUNREACH) /* an address that somebody is at counts for more */
			r = at;
	}
	return r;
}
