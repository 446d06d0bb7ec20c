/* Who is waited for. In a wait that takes long a rank asks others whether they wait, too: their
 * listeners answer, even in a long computation. Who does not wait, or does not answer, is named. */
#include "dist/elastic_run.h"

#define LOOK_MS 1000
#define ASK_MS  1000

/* Returns 1 if the rank waits, or cannot be asked; 0 if it does not, -EHOSTUNREACH if it has ended;
 * or another -errno: it is there, and does not answer. */
static int ask(struct elastic *e, const struct member *m)
{
	auto_close int fd = elastic_call(e, m, ASK_MS, NULL);
	uint8_t waits;

	/* Several that do not answer take longer than a wait counts as one. */
	listener_waits(e->listener, mlr_now_ms());
	if (fd < 0)
		return elastic_is_local_failure(-fd) ? 1 : fd;
	TRY(elastic_tell(e, fd, FRAME_ASK, ASK_MS));
	TRY(frame_recv_bytes(fd, &waits, sizeof(waits), ASK_MS, NULL));
	return waits;
}

int elastic_is_suspended(struct elastic *e, const struct member *m)
{
	auto_free char *path = xasprintf("%s.left-%s", e->o.where, m->worker);
	int r;

	if (!m->worker[0] || access(path, F_OK) < 0)
		return 0;
	r = ask(e, m);
	return r < 0 && r != -EHOSTUNREACH;
}

/* --- what is told --------------------------------------------------------------------------- */

void elastic_note(struct elastic *e, const char *text)
{
	auto_free char *path = xasprintf("%s.waits", e->o.where);

	if (!elastic_is_address(e->o.where) &&
		file_replace(AT_FDCWD, path, text, strlen(text), 0600, NULL) == 0)
		e->has_note = 1;
}

void elastic_late_done(struct elastic *e)
{
	auto_free char *path = e->has_note ? xasprintf("%s.waits", e->o.where) : NULL;

	if (path)
		unlink(path);
	e->has_note = 0;
}

/* Why a rank is waited for that answers so. */
static const char *why(const struct elastic *e, int answer)
{
	if (answer < 0)
		return "does not answer: it is stopped, or its job or node is suspended";
	return e->group.n == 0 ? "lets ranks in after a step, up to its --max-ranks"
			       : "has not come as far: it computes, or waits for data";
}

/* --- looking -------------------------------------------------------------------------------- */

/* Return member i if this rank sees to it, a newcomer's coordinator being its only one; or NULL,
 * also if it is lost already. */
static const struct member *seen_to(const struct elastic *e, int i)
{
	int me = group_find(&e->group, e->self.id);

	if (e->group.n == 0)
		return &e->file.coordinator;
	return !e->lost[i] && (me == e->leader ? i != me : i == e->leader) ? &e->group.member[i]
									   : NULL;
}

static void tell(struct elastic *e)
{
	auto_strv struct strv late = STRV_INIT;
	auto_free char *all = NULL;
	int n = e->group.n ? (int)e->group.n : 1;

	for (int i = 0; i < n; i++) {
		const struct member *m = seen_to(e, i);
		int answer = m ? ask(e, m) : 1;

		if ((answer > 0 && e->group.n) || answer == -EHOSTUNREACH)
			continue;
		strv_addf(&late, "rank %d on '%s' (process %d), which %s", i, m->host, (int)m->pid,
			why(e, answer));
		if (!e->named[i])
			mlr_warning("--elastic: waiting for %s", late.v[late.n - 1]);
		e->named[i] = 1;
	}
	all = strv_join(&late, late.n, "; ");
	if (late.n > 0 && e->group.n)
		elastic_note(e, all);
}

/* Does the run have another coordinator than the one that a newcomer waits for? */
static int has_moved(const struct elastic *e)
{
	struct rendezvous now;

	return !elastic_is_address(e->o.where) && rendezvous_read(e->o.where, &now, NULL) == 0 &&
		!group_is_same(&now.coordinator, &e->file.coordinator);
}

static int find_suspended(struct elastic *e)
{
	if (e->group.n == 0)
		return has_moved(e) ? 0 : -1;
	for (int i = 0; i < (int)e->group.n; i++) {
		const struct member *m = seen_to(e, i);

		if (!m || !elastic_is_suspended(e, m))
			continue;
		if (!e->said[i])
			mlr_warning("--elastic: rank %d on '%s' (process %d) counts as lost: its "
				    "job is suspended",
				i, m->host, (int)m->pid);
		e->said[i] = 1;
		return i;
	}
	return -1;
}

int elastic_late(struct elastic *e, int64_t since)
{
	int64_t now = mlr_now_ms();

	listener_waits(e->listener, now);
	if (now - since < LOOK_MS || now - e->looked < LOOK_MS)
		return -1;
	e->looked = now;
	if (e->late_since != since)
		memset(e->named, 0, sizeof(e->named));
	e->late_since = since;
	if (now - since >= LATE_MS && now - e->asked >= LATE_MS) {
		e->asked = now;
		tell(e);
	}
	return find_suspended(e);
}

int elastic_turn(void *ctx, int64_t since, struct mlr_error *err)
{
	int rank = elastic_late(ctx, since);

	return rank < 0 ? 0 : elastic_break(ctx, rank, err);
}
