#include "trainer/dist/peers.h"

#include "base/cleanup.h"
#include "base/memory.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct peers {
	nfds_t n;
	struct peer *peer;
	/* A pidfd is readable once its process has ended (pidfd_open(2)), a lifeline once it is
	 * broken. */
	struct pollfd *fd;
};

struct peer peer_self(int rank, int *offered)
{
	struct peer p = { .rank = rank, .pid = getpid() };
	ssize_t n = readlink("/proc/self/ns/pid", p.pid_namespace, sizeof(p.pid_namespace) - 1);

	p.pid_namespace[n > 0 ? n : 0] = '\0';
	gethostname(p.host, sizeof(p.host) - 1);
	*offered = lifeline_offer(&p.offer);
	return p;
}

static int same_host(const struct peer *p, const struct peer *self)
{
	return strcmp(p->host, self->host) == 0;
}

static int is_neighbour(const struct peer *p, const struct peer *self)
{
	return *self->pid_namespace && same_host(p, self) &&
		strcmp(p->pid_namespace, self->pid_namespace) == 0;
}

static void watch(struct peers *p, const struct peer *peer, int fd)
{
	if (fd < 0)
		return; /* left to the launcher */
	p->peer[p->n] = *peer;
	p->fd[p->n++] = (struct pollfd){ .fd = fd, .events = POLLIN | POLLRDHUP };
}

struct peers *peers_new(const struct peer *all, int n, const struct peer *self, int offered)
{
	const struct peer *next = &all[(self->rank + 1) % n], *last;
	struct peers *p = xcalloc(1, sizeof(*p));

	last = &all[(self->rank + n - 1) % n];
	p->peer = xcalloc((size_t)n + 2, sizeof(*p->peer));
	p->fd = xcalloc((size_t)n + 2, sizeof(*p->fd));
	for (int i = 0; i < n; i++)
		if (i != self->rank && is_neighbour(&all[i], self))
			watch(p, &all[i], (int)syscall(SYS_pidfd_open, all[i].pid, 0));
	if (!is_neighbour(next, self))
		watch(p, next,
			lifeline_take(&next->offer, same_host(next, self) ? NULL : &self->offer));
	if (!is_neighbour(last, self) && offered >= 0)
		watch(p, last, lifeline_give(offered, &self->offer));
	if (offered >= 0)
		close(offered);
	return p;
}

void peers_free(struct peers **p)
{
	if (!*p)
		return;
	for (nfds_t i = 0; i < (*p)->n; i++)
		close((*p)->fd[i].fd);
	free((*p)->peer);
	free((*p)->fd);
	free(*p);
	*p = NULL;
}

int peers_look(struct peers *p, struct mlr_error *err)
{
	if (poll(p->fd, p->n, 0) <= 0)
		return 0;
	for (nfds_t i = 0; i < p->n; i++) {
		if (!p->fd[i].revents)
			continue;
		mlr_fail(err, EIO, "rank %d on '%s' (process %d) has ended", p->peer[i].rank,
			p->peer[i].host, (int)p->peer[i].pid);
		return mlr_hint(err, "its own last words, or the launcher's, tell why");
	}
	return 0;
}
