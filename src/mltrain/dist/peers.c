#include "dist/peers.h"

#include <poll.h>
#include <sys/syscall.h>

#define STANDS_MS 2000 /* a process that reads a file sleeps for milliseconds */
#define BUSY      100  /* threads that use more than 1/BUSY of the time compute */

/* The state of a rank of this node that others wait for. */
struct stand {
	int is_here;      /* its PID is known: its state can be seen */
	int64_t since_ms; /* 0: it runs */
	int64_t cpu_ms;   /* CPU time used by then */
	int told;
};

struct peers {
	nfds_t n;
	struct peer *peer;
	struct stand *stand;
	int rank, here;    /* here: other ranks of this node that are watched */
	int away;          /* ranks elsewhere */
	struct peer other; /* the first of those */
	int away_told;
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
	*offered = lifeline_listen(0, &p.offer);
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

static void watch(struct peers *p, const struct peer *peer, int is_here, int fd)
{
	if (fd < 0)
		return; /* left to the launcher */
	p->peer[p->n] = *peer;
	p->stand[p->n].is_here = is_here;
	p->here += is_here;
	p->fd[p->n++] = (struct pollfd){ .fd = fd, .events = POLLIN | POLLRDHUP };
}

struct peers *peers_new(const struct peer *all, int n, const struct peer *self, int offered)
{
	const struct peer *next = &all[(self->rank + 1) % n], *last;
	struct peers *p = xcalloc(1, sizeof(*p));

	last = &all[(self->rank + n - 1) % n];
	p->peer = xcalloc((size_t)n + 2, sizeof(*p->peer));
	p->fd = xcalloc((size_t)n + 2, sizeof(*p->fd));
	p->stand = xcalloc((size_t)n + 2, sizeof(*p->stand));
	p->rank = self->rank;
	for (int i = 0; i < n; i++) {
		if (i == self->rank)
			continue;
		if (is_neighbour(&all[i], self))
			watch(p, &all[i], 1, (int)syscall(SYS_pidfd_open, all[i].pid, 0));
		else if (p->away++ == 0)
			p->other = all[i];
	}
	if (!is_neighbour(next, self))
		watch(p, next, 0,
			lifeline_take(&next->offer, same_host(next, self) ? NULL : &self->offer));
	if (!is_neighbour(last, self) && offered >= 0)
		watch(p, last, 0, lifeline_give(offered, &self->offer));
	fd_close(&offered);
	return p;
}

void peers_free(struct peers **p)
{
	if (!*p)
		return;
	for (nfds_t i = 0; i < (*p)->n; i++)
		close((*p)->fd[i].fd);
	free((*p)->peer);
	free((*p)->stand);
	free((*p)->fd);
	free(*p);
	*p = NULL;
}

/* Read the state of a process from proc(5); 'R' if unknown. */
static char state_of(pid_t pid)
{
	auto_free char *path = xasprintf("/proc/%d/stat", (int)pid), *text = NULL;
	const char *behind;

	if (file_read(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0)
		return 'R';
	behind = strrchr(text, ')'); /* its name may contain anything */
	return behind && behind[1] == ' ' && behind[2] ? behind[2] : 'R';
}

/* Return the CPU time of all its threads; 0 if unknown. */
static int64_t cpu_ms_of(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) < 0)
		return 0;
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/*
 * Has a process stood still for long? proc(5) has the state of its first thread only, which also
 * sleeps while it waits for other threads that compute.
 */
static int stands(struct stand *s, pid_t pid, char state, int64_t now_ms)
{
	int64_t cpu_ms = cpu_ms_of(pid);

	if (state == 'R') {
		s->since_ms = 0;
	} else if (!s->since_ms || (cpu_ms - s->cpu_ms) * BUSY > now_ms - s->since_ms) {
		s->since_ms = now_ms;
		s->cpu_ms = cpu_ms;
	}
	return s->since_ms && now_ms - s->since_ms >= STANDS_MS;
}

static const char *why(char state)
{
	switch (state) {
	case 'T':
	case 't':
		return "which is stopped (kill -CONT lets it go on)";
	case 'D':
		return "which a disk, a file system or memory that is swapped out holds up";
	default:
		return "which sleeps";
	}
}

static void name(const struct peer *p, const char *why, char words[PEERS_WORDS])
{
	snprintf(words, PEERS_WORDS, "waiting for rank %d on '%s' (process %d)%s%s", p->rank,
		p->host, (int)p->pid, why ? ", " : "", why ? why : "");
}

/* Report a late rank elsewhere, as this one is alone here. One or two of all ranks do so. */
static int late_elsewhere(struct peers *p, char words[PEERS_WORDS])
{
	if (p->away_told || !p->away || p->rank > 1)
		return 0;
	p->away_told = 1;
	if (p->away == 1)
		name(&p->other, NULL, words);
	else
		snprintf(words, PEERS_WORDS,
			"waiting for one of %d ranks elsewhere, as that on '%s'", p->away,
			p->other.host);
	return 1;
}

int peers_late(struct peers *p, int64_t now_ms, char words[PEERS_WORDS])
{
	int mine = 1; /* of those that wait, the first one speaks */
	nfds_t found = p->n;
	char found_state = 'R';

	if (!p->here)
		return late_elsewhere(p, words);
	for (nfds_t i = 0; i < p->n; i++) {
		struct stand *s = &p->stand[i];
		char state;

		if (!s->is_here)
			continue;
		state = state_of(p->peer[i].pid);
		if (!stands(s, p->peer[i].pid, state, now_ms)) {
			mine &= p->peer[i].rank > p->rank;
		} else if (!s->told && found == p->n) {
			found = i;
			found_state = state;
		}
	}
	if (found == p->n || !mine)
		return 0;
	p->stand[found].told = 1;
	name(&p->peer[found], why(found_state), words);
	return 1;
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
		return mlr_hint(err, "its last messages, or the launcher's, say why");
	}
	return 0;
}
