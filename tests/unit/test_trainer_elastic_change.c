/* How one rank of an elastic run takes the ends and returns of others: the other ranks are this
 * program's, over TCP, and say what no real one would be caught saying. */
#include "trainer_test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "dist/elastic_run.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#define BUSY 20 /* callers that a crowded rank hangs up on: more than one call has addresses */

static const struct secret right = { "the right secret of this run..." };

/* What the rank under test meets, and what it has said. */
struct stage {
	char dir[32], *meet;       /* the rendezvous file */
	struct listener *listener; /* of the coordinator, which has id 1 */
	struct member coordinator, second;
	int listening; /* of the second member, a socket; -1: there is none */
	pthread_t thread;
	struct dist *d;
	void (*meanwhile)(struct stage *s); /* before the coordinator's end is seen */
	enum frame_kind called;             /* what the second member has got */
};

static void write_meet(const struct stage *s, const struct member *coordinator, uint32_t generation,
	const struct secret *secret)
{
	const struct rendezvous r = {
		.coordinator = *coordinator, .secret = *secret, .generation = generation
	};

	assert_int_equal(rendezvous_replace(s->meet, &r, NULL), 0);
}

static int set_up(void **state)
{
	struct stage *s = xcalloc(1, sizeof(*s));

	strcpy(s->dir, "/tmp/elastic.XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	s->meet = xasprintf("%s/meet", s->dir);
	s->listening = -1;
	group_describe_self(&s->coordinator);
	s->second = s->coordinator;
	s->coordinator.id = 1;
	s->second.id = 2;
	s->second.offer.port = 1;
	assert_int_equal(listener_open(0, &right, &s->listener, &s->coordinator.offer, NULL), 0);
	write_meet(s, &s->coordinator, 0, &right);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct stage *s = *state;

	dist_close(&s->d);
	listener_close(&s->listener);
	if (s->listening >= 0)
		close(s->listening);
	unlink(s->meet);
	assert_int_equal(rmdir(s->dir), 0);
	free(s->meet);
	free(s);
	return 0;
}

static void open_rank(struct stage *s)
{
	const struct elastic_options o = { .where = s->meet, .min = 1, .max = 4 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (elastic_open(&o, &s->d, &err) < 0)
		fail_msg("%s", err.text);
	elastic_say_options(s->d, NULL, "data");
}

/* The second member hangs up on some callers, then lets one in and refuses it. */
static void answer_late(struct stage *s)
{
	uint8_t challenge[SECRET_CHALLENGE], answer[SECRET_ANSWER], proof[SECRET_SIZE];
	char body[LISTENER_BODY_MAX];
	struct frame f = { 0 };
	int fd = -1;

	for (int i = 0; i <= BUSY; i++) {
		struct pollfd p = { .fd = s->listening, .events = POLLIN };

		if (poll(&p, 1, 5000) != 1) /* nobody calls */
			return;
		fd = accept4(s->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (i < BUSY)
			close(fd);
	}
	secret_challenge(challenge);
	frame_send_bytes(fd, challenge, sizeof(challenge), 5000, NULL);
	if (frame_recv_bytes(fd, answer, sizeof(answer), 5000, NULL) == 0 &&
		secret_check(&right, challenge, answer, proof) &&
		frame_send_bytes(fd, proof, sizeof(proof), 5000, NULL) == 0 &&
		frame_recv_head(fd, sizeof(body), &f, 5000, NULL) == 0)
		frame_recv_bytes(fd, body, f.size, 5000, NULL);
	s->called = f.kind;
	frame_send(fd, FRAME_REFUSED, 0, "because", 7, 5000, NULL);
	close(fd);
}

/* Let a newcomer in, tell it a group, and end as by kill -9. */
static void *lead_and_die(void *ctx)
{
	struct stage *s = ctx;
	struct group g = { .generation = 1, .n = 1, .next_id = 5, .source = 1 };
	struct group_join j;
	struct guest guest;

	while (!listener_take(s->listener, FRAME_JOIN, &guest))
		poll(NULL, 0, 5);
	assert_int_equal(group_parse_join(guest.body, guest.first.size, &j, NULL), 0);
	g.member[0] = s->coordinator;
	j.self.id = 3;
	if (s->listening >= 0 && s->second.id < j.self.id)
		g.member[g.n++] = s->second;
	g.member[g.n++] = j.self;
	if (s->listening >= 0 && s->second.id > j.self.id)
		g.member[g.n++] = s->second;
	frame_send(guest.fd, FRAME_GROUP, 1, &g, group_size(&g), 1000, NULL);
	listener_close(&s->listener);
	if (s->meanwhile)
		s->meanwhile(s);
	close(guest.fd);
	if (s->listening >= 0)
		answer_late(s);
	return NULL;
}

/* The rank joins, loses the coordinator at once, and goes on as it does. Returns
 * elastic_regroup()'s value. */
static int join_and_lose(struct stage *s, struct mlr_error *err)
{
	const struct group_progress at = { 0 };
	enum elastic_outcome outcome;
	int r;

	open_rank(s);
	assert_int_equal(pthread_create(&s->thread, NULL, lead_and_die, s), 0);
	r = elastic_regroup(s->d, &at, 0, &outcome, err);
	pthread_join(s->thread, NULL);
	if (r == 0)
		assert_int_equal(outcome, ELASTIC_MEMBER);
	return r;
}

static void a_coordinator_that_dies_while_ranks_connect_counts_as_lost(void **state)
{
	struct stage *s = *state;
	struct mlr_error err = MLR_ERROR_INIT;
	struct rendezvous now;

	assert_int_equal(join_and_lose(s, &err), 0);
	assert_int_equal(s->d->ranks, 1);
	assert_int_equal(elastic_latest(s->d).lost, 1);
	assert_int_equal(elastic_latest(s->d).left, 0);
	/* The coordinator finds the new generation, should it come back. */
	assert_int_equal(rendezvous_read(s->meet, &now, NULL), 0);
	assert_int_equal(now.coordinator.id, 3);
	assert_int_equal(now.generation, 2);
}

static void a_rank_that_does_not_answer_at_once_is_not_taken_for_dead(void **state)
{
	struct stage *s = *state;
	struct mlr_error err = MLR_ERROR_INIT;

	s->listening = lifeline_listen(0, &s->second.offer);
	assert_true(s->listening >= 0);
	assert_int_equal(join_and_lose(s, &err), -ESTALE);
	assert_int_equal(s->called, FRAME_REJOIN);
	assert_non_null(strstr(err.text, "this rank was refused: because"));
}

static void a_rank_that_leads_hears_from_a_younger_one_that_it_was_left_out(void **state)
{
	struct stage *s = *state;
	struct mlr_error err = MLR_ERROR_INIT;

	s->second.id = 4;
	s->listening = lifeline_listen(0, &s->second.offer);
	assert_true(s->listening >= 0);
	assert_int_equal(join_and_lose(s, &err), -ESTALE);
	assert_int_equal(s->called, FRAME_WATCH);
	assert_non_null(strstr(err.text, "this rank was refused: because"));
}

static void remove_meet(struct stage *s)
{
	unlink(s->meet);
}

static void who_is_left_out_of_a_run_that_has_ended_ends(void **state)
{
	struct stage *s = *state;
	struct mlr_error err = MLR_ERROR_INIT;

	s->meanwhile = remove_meet;
	assert_int_equal(join_and_lose(s, &err), -ESTALE);
	assert_non_null(strstr(err.text, "the run has ended without this rank"));
}

static void go_on(struct stage *s)
{
	write_meet(s, &s->coordinator, 5, &right);
}

static void who_is_left_out_of_a_run_that_goes_on_ends_and_says_who_leads(void **state)
{
	struct stage *s = *state;
	struct mlr_error err = MLR_ERROR_INIT;
	struct rendezvous now;

	s->meanwhile = go_on;
	assert_int_equal(join_and_lose(s, &err), -ESTALE);
	assert_non_null(strstr(err.text, "the run goes on without this rank, led by process"));
	/* Its file is as it was. */
	assert_int_equal(rendezvous_read(s->meet, &now, NULL), 0);
	assert_int_equal(now.generation, 5);
	assert_int_equal(now.coordinator.id, 1);
}

static void begin_another(struct stage *s)
{
	const struct secret other = { "the secret of another run......" };

	write_meet(s, &s->coordinator, 0, &other);
}

static void who_finds_another_run_in_its_place_ends(void **state)
{
	struct stage *s = *state;
	struct mlr_error err = MLR_ERROR_INIT;

	s->meanwhile = begin_another;
	assert_int_equal(join_and_lose(s, &err), -ESTALE);
	assert_non_null(strstr(err.text, "another one has begun"));
}

static void a_coordinator_that_others_have_replaced_ends(void **state)
{
	struct stage *s = *state;
	struct elastic *e;
	const struct group_progress at = { 1, 0, 9 };
	struct mlr_error err = MLR_ERROR_INIT;
	enum elastic_outcome outcome;

	/* It has begun the run, and slept while its only member took it for dead. */
	unlink(s->meet);
	open_rank(s);
	e = (struct elastic *)s->d;
	e->group.member[e->group.n++] = s->second;
	e->group.next_id = 3;
	s->d->ranks = 2;
	e->broken = 1;
	e->fd[1] = -1;
	write_meet(s, &s->second, 0, &e->secret);
	e->fd[1] = open("/dev/null", O_RDONLY | O_CLOEXEC); /* the connection has ended */
	assert_int_equal(elastic_regroup(s->d, &at, 0, &outcome, &err), -ESTALE);
	assert_non_null(strstr(err.text, "the run goes on without this rank"));
}

static void at_an_address_who_was_silent_for_long_does_not_go_on_alone(void **state)
{
	struct elastic e = { .o = { .where = "localhost:4000" } };
	struct mlr_error err = MLR_ERROR_INIT;
	struct timespec t;
	int64_t now;

	clock_gettime(CLOCK_BOOTTIME, &t);
	now = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
	e.heard_ms[0] = now - 1000;
	assert_int_equal(elastic_check_run(&e, 1, &err), 0);
	e.heard_ms[1] = now - 1000 - LIFELINE_SILENCE_MS - 5000;
	assert_int_equal(elastic_check_run(&e, 0, &err), 0);
	assert_int_equal(elastic_check_run(&e, 1, &err), -ESTALE);
	assert_non_null(strstr(err.text, "no other rank of the run is left"));
}

/* --- a run that goes on answers whom it has left out ---------------------------------------- */

/* Call the rank under test as a member with this id. */
static int call_as(struct stage *s, enum frame_kind kind, uint64_t id)
{
	struct elastic *e = (struct elastic *)s->d;
	const struct group_report r = { .id = id, .generation = 1 };
	int fd = elastic_call(e, &e->self, ELASTIC_CALL_MS, NULL);

	assert_true(fd >= 0);
	assert_int_equal(frame_send(fd, kind, 1, &r, sizeof(r), 1000, NULL), 0);
	return fd;
}

/* The kind of the frame that comes, while the rank trains; 0: none within a second. */
static enum frame_kind hears(struct stage *s, int fd, int (*step)(struct dist *d))
{
	struct frame f = { 0 };

	for (int i = 0; i < 100 && frame_peek(fd, &f) == 0; i++) {
		if (step)
			step(s->d);
		poll(NULL, 0, 10);
	}
	return f.kind;
}

static void a_member_that_was_left_out_is_told_at_the_next_step(void **state)
{
	static const enum frame_kind kinds[] = { FRAME_REJOIN, FRAME_WATCH };
	struct stage *s = *state;

	unlink(s->meet);
	open_rank(s);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		int fd = call_as(s, kinds[i], 77);

		assert_int_equal(hears(s, fd, elastic_wants_change), FRAME_REFUSED);
		close(fd);
	}
}

static void a_member_that_was_left_out_is_told_of_the_end(void **state)
{
	struct stage *s = *state;
	struct elastic *e;
	int rejoins, watches;

	unlink(s->meet);
	open_rank(s);
	e = (struct elastic *)s->d;
	rejoins = call_as(s, FRAME_REJOIN, 77);
	watches = call_as(s, FRAME_WATCH, 78);
	while (!listener_has(e->listener, FRAME_REJOIN) || !listener_has(e->listener, FRAME_WATCH))
		poll(NULL, 0, 5);
	assert_int_equal(elastic_finish(s->d, NULL), 0);
	assert_int_equal(hears(s, rejoins, NULL), FRAME_END);
	assert_int_equal(hears(s, watches, NULL), FRAME_END);
	close(rejoins);
	close(watches);
}

static void who_asks_hears_whether_a_rank_waits_itself(void **state)
{
	struct stage *s = *state;
	struct elastic *e;

	unlink(s->meet);
	open_rank(s);
	e = (struct elastic *)s->d;
	for (int waits = 0; waits < 2; waits++) {
		int fd = elastic_call(e, &e->self, ELASTIC_CALL_MS, NULL);
		uint8_t answer = 2;

		if (waits)
			elastic_late(e, mlr_now_ms());
		assert_int_equal(elastic_tell(e, fd, FRAME_ASK, 1000), 0);
		assert_int_equal(frame_recv_bytes(fd, &answer, 1, 1000, NULL), 0);
		assert_int_equal(answer, waits);
		close(fd);
	}
}

static void a_rank_counts_as_suspended_only_if_it_does_not_answer(void **state)
{
	struct stage *s = *state;
	auto_free char *left = xasprintf("%s.left-w1", s->meet);
	struct member silent = { .worker = "w1" };
	struct elastic *e;

	unlink(s->meet);
	open_rank(s);
	e = (struct elastic *)s->d;
	s->listening = lifeline_listen(0, &silent.offer);
	assert_false(elastic_is_suspended(e, &silent));
	close(open(left, O_WRONLY | O_CREAT, 0600));
	assert_true(elastic_is_suspended(e, &silent));
	silent.offer = e->self.offer;
	assert_false(elastic_is_suspended(e, &silent));
	unlink(left);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGED(a_coordinator_that_dies_while_ranks_connect_counts_as_lost),
		STAGED(a_rank_that_does_not_answer_at_once_is_not_taken_for_dead),
		STAGED(a_rank_that_leads_hears_from_a_younger_one_that_it_was_left_out),
		STAGED(who_is_left_out_of_a_run_that_has_ended_ends),
		STAGED(who_is_left_out_of_a_run_that_goes_on_ends_and_says_who_leads),
		STAGED(who_finds_another_run_in_its_place_ends),
		STAGED(a_coordinator_that_others_have_replaced_ends),
		cmocka_unit_test(at_an_address_who_was_silent_for_long_does_not_go_on_alone),
		STAGED(a_member_that_was_left_out_is_told_at_the_next_step),
		STAGED(a_member_that_was_left_out_is_told_of_the_end),
		STAGED(who_asks_hears_whether_a_rank_waits_itself),
		STAGED(a_rank_counts_as_suspended_only_if_it_does_not_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
