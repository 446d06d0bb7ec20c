/* Where the ranks of a run meet: at a rendezvous file or an address. */
#include "dist/elastic_run.h"

#include <netdb.h>
#include <poll.h>

#define MEET_MS 60000 /* for the first rank at HOST:PORT */

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

int elastic_check_run(struct elastic *e, int is_alone, struct mlr_error *err)
{
	const char *where = e->o.where;
	struct rendezvous now;
	int r;

	if (elastic_is_address(where)) {
		if (!is_alone || elastic_silence_ms(e) < LIFELINE_SILENCE_MS)
			return 0;
		mlr_fail(err, ESTALE,
			"--elastic %s: no other rank of the run is left, and this rank has heard "
			"nothing of it for %d seconds",
			where, LIFELINE_SILENCE_MS / 1000);
		return mlr_hint(err, "if it has not ended, start again with --resume");
	}
	r = rendezvous_read(where, &now, err);
	if (r == -ENOENT)
		return mlr_fail(err, ESTALE,
			"--elastic %s: the run has ended without this rank: the file is gone",
			where);
	if (r < 0)
		return r;
	if (memcmp(&now.secret, &e->secret, sizeof(now.secret)) != 0)
		return mlr_fail(err, ESTALE,
			"--elastic %s: the run has ended without this rank, and another one has "
			"begun",
			where);
	/* A younger one leads if it has taken this one for lost. */
	if (now.generation > e->group.generation || now.coordinator.id > e->self.id) {
		mlr_fail(err, ESTALE,
			"--elastic %s: the run goes on without this rank, led by process %d on "
			"'%s'",
			where, (int)now.coordinator.pid, now.coordinator.host);
		return mlr_hint(err, "start it again to join the run");
	}
	return 0;
}

int elastic_is_address(const char *where)
{
	const char *colon = strrchr(where, ':');

	return colon && colon > where && !strchr(where, '/') && colon[1] &&
		strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

static int begin(struct elastic *e, int port, struct mlr_error *err)
{
	TRY(listener_open(port, &e->secret, &e->listener, &e->self.offer, err));
	e->self.id = 1;
	e->group = (struct group){ .n = 1, .next_id = 2, .source = 1 };
	e->group.member[0] = e->self;
	return 0;
}

/* Listen as a newcomer too: for the ring, and because it may be the next coordinator. */
static int come(struct elastic *e, struct mlr_error *err)
{
	e->dist.rank = 1;
	return listener_open(0, &e->secret, &e->listener, &e->self.offer, err);
}

/* Does the coordinator that the file names answer? Returns 1, 0 if it is dead, or -errno. */
static int answers(struct elastic *e, struct mlr_error *err)
{
	auto_close int fd = -1;

	e->secret = e->file.secret;
	fd = elastic_call(e, &e->file.coordinator, ELASTIC_CALL_MS, err);
	if (fd >= 0)
		return 1;
	if (fd == -EHOSTUNREACH)
		return 0;
	mlr_wrap(err, "the run of '%s'", e->o.where);
	if (fd == -EACCES || fd == -EPROTO)
		return fd;
	return mlr_hint(err,
		"it is led by process %d on '%s', which may be stopped or suspended; if that run is "
		"over, remove the file",
		(int)e->file.coordinator.pid, e->file.coordinator.host);
}

/* Join the run of the file, or begin one. The file of a dead run is removed. */
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
			if (r == -EACCES || r == -EPROTO || (r < 0 && tries >= 4))
				return r;
			if (tries < 4) {
				poll(NULL, 0, 500);
				continue;
			}
			rendezvous_remove(e->o.where, &e->file);
		}
		TRY(secret_make(&e->secret, err));
		TRY(begin(e, 0, err));
		e->file = (struct rendezvous){ .coordinator = e->self, .secret = e->secret };
		r = rendezvous_create(e->o.where, &e->file, err);
		e->has_file = r == 0;
		if (r != -EEXIST)
			return r;
		listener_close(&e->listener);
		e->self.id = 0;
		e->group = (struct group){ .n = 0 };
	}
	return mlr_fail(
		err, EAGAIN, "rendezvous file '%s' keeps appearing and disappearing", e->o.where);
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
		i = i->ai_next)
		m->offer.addresses += (uint32_t)lifeline_address(
			i->ai_addr, &m->offer.address[m->offer.addresses]);
	freeaddrinfo(list);
	return 0;
}

/* bind(2) takes only this machine's addresses. */
static int is_here(const struct lifeline_offer *o)
{
	for (uint32_t i = 0; i < o->addresses; i++) {
		struct sockaddr_storage at;
		socklen_t len = lifeline_sockaddr(&o->address[i], 0, &at);
		auto_close int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0)
			return 1;
	}
	return 0;
}

/* Join or begin a run: the process that can bind the address starts it, the others connect to it.
 */
static int open_address(struct elastic *e, struct mlr_error *err)
{
	struct mlr_error ignored = MLR_ERROR_INIT;
	auto_close int fd = -1;
	int port = 0, begins, told = 0;
	int64_t begin_ms = mlr_now_ms(), waited = 0;

	TRY(read_secret(e, err));
	TRY(resolve(e, &port, err));
	begins = is_here(&e->file.coordinator.offer);
	for (; waited < (begins ? 10000 : MEET_MS); waited = mlr_now_ms() - begin_ms) {
		fd = elastic_call(e, &e->file.coordinator, ELASTIC_CALL_MS, err);
		if (fd >= 0)
			return come(e, err);
		if (fd == -EACCES || fd == -EPROTO)
			return mlr_wrap(err, "--elastic %s", e->o.where);
		if (begins && begin(e, port, &ignored) == 0)
			return 0;
		if (waited > LATE_MS && !told++)
			mlr_warning(
				"--elastic: waiting for rank 0 at '%s': %.*s; calling for %d more "
				"seconds",
				e->o.where, MLR_SENTENCE(err), (int)(MEET_MS - waited) / 1000);
		poll(NULL, 0, 250);
	}
	mlr_wrap(err, "--elastic %s", e->o.where);
	return mlr_hint(err, "the first rank must run on that host, with that port free");
}

int elastic_meet(struct elastic *e, struct mlr_error *err)
{
	return elastic_is_address(e->o.where) ? open_address(e, err) : open_file(e, err);
}
