#include "trainer_test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "dist/listener.h"
#include "dist/elastic.h"
#include "dist/group.h"
#include "dist/sums.h"
#include "dist/elastic_run.h"
#include "dist/frame.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* --- the secret ---------------------------------------------------------------------------- */

static void hmac_is_that_of_rfc_4231(void **state)
{
	/* Test cases 1 and 2; a key is filled with zeroes to the block's size. */
	static const struct {
		const char *key, *data, *mac;
	} cases[] = { { "\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b"
			"\x0b\x0b",
			      "Hi There",
			      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ "Jefe", "what do ya want for nothing?",
			"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct secret key = { { 0 } }, mac;
		const struct iovec parts[] = { { (void *)cases[i].data, 3 },
			{ (void *)(cases[i].data + 3), strlen(cases[i].data) - 3 } };
		char hex[SECRET_HEX_SIZE];

		memcpy(key.bytes, cases[i].key, strlen(cases[i].key));
		secret_hmac(&key, parts, ARRAY_LEN(parts), mac.bytes);
		secret_hex(&mac, hex);
		assert_string_equal(hex, cases[i].mac);
	}
}

static void a_secret_is_read_back_and_a_damaged_or_short_one_refused(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct secret a, b;
	char hex[SECRET_HEX_SIZE];

	assert_int_equal(secret_make(&a, &err), 0);
	secret_hex(&a, hex);
	assert_int_equal(secret_parse(hex, &b, &err), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	hex[5] = 'g';
	assert_int_equal(secret_parse(hex, &b, &err), -EPROTO);
	assert_int_equal(secret_parse("00", &b, &err), -EPROTO);
	assert_int_equal(secret_of_text("too short", &b, &err), -EINVAL);
	assert_int_equal(secret_of_text("long enough for me", &b, &err), 0);
}

/* --- the listener --------------------------------------------------------------------------  */

static struct listener *listener;
static struct lifeline_offer offer;
static const struct secret right = { "the right secret of this run..." };

static int open_listener(void **state)
{
	return listener_open(0, &right, &listener, &offer, NULL);
}

static int close_listener(void **state)
{
	listener_close(&listener);
	return 0;
}

static int call(void)
{
	static const struct in6_addr loopback = { .s6_addr = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };
	int fd = lifeline_connect(&loopback, offer.port);

	assert_true(fd >= 0);
	return fd;
}

static int comes_in(struct guest *g)
{
	for (int i = 0; i < 200; i++) {
		if (listener_take(listener, FRAME_JOIN, g))
			return 1;
		poll(NULL, 0, 10);
	}
	return 0;
}

/* Does the listener hang up, within this time? */
static int is_closed(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char c;

	return poll(&p, 1, ms) == 1 && recv(fd, &c, 1, 0) <= 0;
}

static void come_in_with_the_secret(void)
{
	struct guest g;
	int fd = call();

	assert_int_equal(secret_call(fd, &right, 5000, NULL), 0);
	assert_int_equal(frame_send(fd, FRAME_JOIN, 7, "hello", 5, 5000, NULL), 0);
	assert_int_equal(comes_in(&g), 1);
	assert_int_equal(g.first.generation, 7);
	assert_int_equal(g.first.size, 5);
	assert_memory_equal(g.body, "hello", 5);
	close(g.fd);
	close(fd);
}

static void who_has_the_secret_comes_in(void **state)
{
	come_in_with_the_secret();
}

static void who_has_another_secret_stays_out(void **state)
{
	const struct secret wrong = { "another secret, of another run." };
	int fd = call();

	assert_int_equal(secret_call(fd, &wrong, 5000, NULL), -EACCES);
	close(fd);
	come_in_with_the_secret();
}

/* A listener without the secret. It has a challenge of its own, or passes on that of the run's
 * listener, and gives the caller's own proof back. */
struct mirror {
	int fd;
	uint8_t challenge[SECRET_CHALLENGE], answer[SECRET_ANSWER];
};

static void *reflect(void *ctx)
{
	struct mirror *m = ctx;

	frame_send_bytes(m->fd, m->challenge, sizeof(m->challenge), 1000, NULL);
	if (frame_recv_bytes(m->fd, m->answer, sizeof(m->answer), 1000, NULL) == 0)
		frame_send_bytes(m->fd, m->answer + SECRET_SIZE, SECRET_SIZE, 1000, NULL);
	return NULL;
}

static void who_does_not_have_it_cannot_play_the_listener(void **state)
{
	const struct secret wrong = { "another secret, of another run." };
	uint8_t proof[SECRET_SIZE];
	struct mirror m;
	pthread_t thread;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	m.fd = pair[1];
	assert_int_equal(secret_challenge(m.challenge), 0);
	assert_int_equal(pthread_create(&thread, NULL, reflect, &m), 0);
	assert_int_equal(secret_call(pair[0], &right, 1000, NULL), -EACCES);
	pthread_join(thread, NULL);
	/* What was reflected is the right answer, and not the right proof. */
	assert_int_equal(secret_check(&wrong, m.challenge, m.answer, proof), 0);
	assert_int_equal(secret_check(&right, m.challenge, m.answer, proof), 1);
	assert_memory_not_equal(m.answer + SECRET_SIZE, proof, SECRET_SIZE);
	close(pair[0]);
	close(pair[1]);
}

static void who_has_another_byte_order_is_told_so(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	uint8_t challenge[SECRET_CHALLENGE];
	int pair[2];

	assert_int_equal(secret_challenge(challenge), 0);
	challenge[15] = challenge[15] == 'B' ? '2' : 'B';
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	assert_int_equal(write(pair[1], challenge, sizeof(challenge)), sizeof(challenge));
	assert_int_equal(secret_call(pair[0], &right, 1000, &err), -EPROTO);
	assert_non_null(strstr(err.text, "ranks need the same byte order"));
	close(pair[0]);
	close(pair[1]);
}

static void a_recorded_conversation_is_worth_nothing(void **state)
{
	uint8_t challenge[SECRET_CHALLENGE], answer[SECRET_ANSWER], proof[SECRET_SIZE];
	int fd = call(), pair[2];

	/* Answer one challenge rightly, then send the same answer to another. */
	assert_int_equal(frame_recv_bytes(fd, challenge, sizeof(challenge), 5000, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(write(pair[1], challenge, sizeof(challenge)), sizeof(challenge));
	shutdown(pair[1], SHUT_WR);
	assert_true(secret_call(pair[0], &right, 1000, NULL) < 0);
	assert_int_equal(read(pair[1], answer, sizeof(answer)), sizeof(answer));
	assert_int_equal(secret_check(&right, challenge, answer, proof), 1);
	close(fd);
	fd = call();
	assert_int_equal(frame_recv_bytes(fd, challenge, sizeof(challenge), 5000, NULL), 0);
	assert_int_equal(frame_send_bytes(fd, answer, sizeof(answer), 5000, NULL), 0);
	assert_true(is_closed(fd, 1500));
	close(fd);
	close(pair[0]);
	close(pair[1]);
	come_in_with_the_secret();
}

static void silence_garbage_and_half_a_frame_end_within_seconds(void **state)
{
	uint8_t challenge[SECRET_CHALLENGE], garbage[4096], head[FRAME_HEAD];
	const struct frame too_large = { FRAME_JOIN, LISTENER_BODY_MAX + 1, 0 };
	const struct frame half = { FRAME_JOIN, 100, 0 };
	int silent = call(), noisy = call(), large = call(), cut = call();
	int64_t t = mlr_now_ms();

	memset(garbage, 'x', sizeof(garbage));
	assert_int_equal(frame_recv_bytes(noisy, challenge, sizeof(challenge), 5000, NULL), 0);
	assert_true(write(noisy, garbage, sizeof(garbage)) > 0);
	assert_int_equal(secret_call(large, &right, 5000, NULL), 0);
	frame_write_head(&too_large, head);
	assert_int_equal(frame_send_bytes(large, head, sizeof(head), 1000, NULL), 0);
	assert_int_equal(secret_call(cut, &right, 5000, NULL), 0);
	frame_write_head(&half, head);
	assert_int_equal(frame_send_bytes(cut, head, sizeof(head), 1000, NULL), 0);
	come_in_with_the_secret();
	assert_true(is_closed(noisy, 1000));
	assert_true(is_closed(large, 1000));
	assert_true(is_closed(cut, 4000));
	assert_int_equal(frame_recv_bytes(silent, challenge, sizeof(challenge), 5000, NULL), 0);
	assert_true(is_closed(silent, 4000));
	assert_true(mlr_now_ms() - t < 5000);
	close(silent);
	close(noisy);
	close(large);
	close(cut);
}

static void a_crowd_of_strangers_does_not_lock_ranks_out(void **state)
{
	int fd[200];

	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		fd[i] = call();
	come_in_with_the_secret();
	for (size_t i = 0; i < ARRAY_LEN(fd); i++)
		close(fd[i]);
}

/* --- groups -------------------------------------------------------------------------------- */

static struct group group_of(int n)
{
	struct group g = { .generation = 4, .next_id = 1, .n = (uint32_t)n };

	for (int i = 0; i < n; i++) {
		g.member[i] = (struct member){ .id = g.next_id++, .pid = 100 + i };
		g.member[i].offer.port = 1;
	}
	g.source = 1;
	return g;
}

static struct group_report report(uint64_t id, uint64_t step, int leaves)
{
	return (struct group_report){
		.id = id, .at = { 1, 0, step }, .leaves = leaves, .generation = 4
	};
}

static void the_next_group_has_who_stays_and_who_finds_a_place(void **state)
{
	struct group old = group_of(4), next;
	struct member joiners[3] = { { .pid = 7 }, { .pid = 8 }, { .pid = 9 } };
	struct group_report reports[GROUP_MAX] = { report(1, 9, 0), report(2, 9, 1), { 0 },
		report(4, 9, 0) };

	assert_int_equal(group_next(&old, reports, joiners, 3, 4, &next), 2);
	assert_int_equal(next.generation, 5);
	assert_int_equal(next.n, 4);
	assert_int_equal(next.member[0].id, 1);
	assert_int_equal(next.member[1].id, 4);
	assert_int_equal(next.member[2].pid, 7);
	assert_int_equal(next.member[2].id, 5);
	assert_int_equal(next.member[3].id, 6);
	assert_int_equal(next.next_id, 7);
	assert_int_equal(next.source, 1);
	assert_false(next.member[0].needs || next.member[1].needs);
	assert_true(next.member[2].needs && next.member[3].needs);
}

static void the_weights_are_those_of_the_rank_that_has_come_farthest(void **state)
{
	struct group old = group_of(3), next;
	struct group_report reports[GROUP_MAX] = { { 0 }, report(2, 9, 0), report(3, 10, 0) };

	/* The coordinator died; one rank has made the step, the other has not. */
	assert_int_equal(group_next(&old, reports, NULL, 0, 4, &next), 0);
	assert_int_equal(next.n, 2);
	assert_int_equal(next.member[0].id, 2);
	assert_int_equal(next.source, 3);
	assert_true(next.member[0].needs);
	assert_false(next.member[1].needs);
	/* At one step an epoch's end counts; a leaver's weights do not. */
	reports[1].at = (struct group_progress){ 1, 1, 10 };
	group_next(&old, reports, NULL, 0, 4, &next);
	assert_int_equal(next.source, 2);
	reports[1].leaves = 1;
	group_next(&old, reports, NULL, 0, 4, &next);
	assert_int_equal(next.source, 3);
	/* Generations only grow, though a rank may know more of them. */
	reports[2].generation = 11;
	group_next(&old, reports, NULL, 0, 4, &next);
	assert_int_equal(next.generation, 12);
}

static void shares_of_a_batch_are_whole_and_differ_by_one_row(void **state)
{
	for (int batch = 1; batch < 300; batch += 7)
		for (int ranks = 1; ranks <= batch && ranks <= 64; ranks++) {
			assert_int_equal(group_first_row(batch, 0, ranks), 0);
			assert_int_equal(group_first_row(batch, ranks, ranks), batch);
			for (int r = 0; r < ranks; r++) {
				int rows = group_first_row(batch, r + 1, ranks) -
					group_first_row(batch, r, ranks);

				assert_true(rows == batch / ranks || rows == batch / ranks + 1);
			}
		}
}

static void a_list_of_ranks_is_read_back_and_a_damaged_one_refused(void **state)
{
	struct group g = group_of(3), got, bad;

	assert_int_equal(group_parse(&g, group_size(&g), &got, NULL), 0);
	assert_memory_equal(&g, &got, group_size(&g));
	assert_int_equal(group_parse(&g, group_size(&g) - 1, &got, NULL), -EPROTO);
	assert_int_equal(group_parse(&g, 3, &got, NULL), -EPROTO);
#define REFUSED(change) \
	bad = g;        \
	change;         \
	assert_int_equal(group_parse(&bad, group_size(&g), &got, NULL), -EPROTO)
	REFUSED(bad.n = 4);
	REFUSED(bad.n = 0);
	REFUSED(bad.source = 9);
	REFUSED(bad.member[1].id = 1);
	REFUSED(bad.member[2].id = 4);
	REFUSED(bad.member[2].offer.port = 65536);
	REFUSED(bad.member[2].offer.addresses = LIFELINE_ADDRESSES + 1);
	REFUSED(memset(bad.member[1].host, 'x', sizeof(bad.member[1].host)));
	REFUSED(strcpy(bad.segment, "/etc/passwd"));
}

/* --- sums ---------------------------------------------------------------------------------- */

#define RANKS_MAX 5

static const size_t lengths[] = { 1, 0, 3, 7, 1000, 65537, 4, 250001, 2 };

struct summing {
	int rank, ranks;
	struct ring_sums *ring;
	struct node_sums *node;
	float *x[ARRAY_LEN(lengths)];
};

static float value(int rank, size_t piece, size_t i)
{
	return (float)((rank + 1) * (int)(i % 1021 + piece + 1));
}

static void *sum_in_thread(void *ctx)
{
	struct summing *s = ctx;
	int r = 0;

	for (int round = 0; round < 2 && r >= 0; round++) {
		for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
			for (size_t i = 0; i < lengths[k]; i++)
				s->x[k][i] = value(s->rank, k, i);
			if (s->ring)
				ring_sums_add(s->ring, s->x[k], lengths[k], NULL);
			else
				node_sums_add(s->node, s->x[k], lengths[k], NULL);
		}
		do {
			r = s->ring ? ring_sums_advance(s->ring, NULL)
				    : node_sums_advance(s->node, NULL);
			if (s->ring)
				ring_sums_sleep(s->ring, 1);
			else
				sched_yield();
		} while (r == 0);
	}
	return r == 1 ? s : NULL;
}

static void sum_and_check(struct summing *s, int ranks)
{
	pthread_t thread[RANKS_MAX];
	void *ok;

	for (int r = 0; r < ranks; r++)
		for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
			s[r].x[k] = xcalloc(lengths[k] + 1, sizeof(float));
	for (int r = 0; r < ranks; r++)
		assert_int_equal(pthread_create(&thread[r], NULL, sum_in_thread, &s[r]), 0);
	for (int r = 0; r < ranks; r++) {
		pthread_join(thread[r], &ok);
		assert_non_null(ok);
	}
	for (int r = 0; r < ranks; r++)
		for (size_t k = 0; k < ARRAY_LEN(lengths); k++) {
			for (size_t i = 0; i < lengths[k]; i++) {
				float sum = 0;

				for (int q = 0; q < ranks; q++)
					sum += value(q, k, i);
				assert_true(s[r].x[k][i] == sum);
			}
			assert_true(s[r].x[k][lengths[k]] == 0);
			free(s[r].x[k]);
		}
}

static void a_ring_gives_the_plain_sums_for_two_to_five_ranks(void **state)
{
	for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
		struct summing s[RANKS_MAX] = { { 0 } };
		int pair[RANKS_MAX][2];

		for (int r = 0; r < ranks; r++)
			assert_int_equal(
				socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair[r]), 0);
		for (int r = 0; r < ranks; r++)
			s[r] = (struct summing){ .rank = r,
				.ranks = ranks,
				.ring = ring_sums_new(
					pair[r][0], pair[(r + ranks - 1) % ranks][1], r, ranks) };
		sum_and_check(s, ranks);
		for (int r = 0; r < ranks; r++)
			ring_sums_free(&s[r].ring);
	}
}

static void shared_memory_gives_the_plain_sums_for_one_to_five_ranks(void **state)
{
	for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
		char path[NODE_SUMS_PATH_MAX];
		auto_close int fd = node_sums_segment(path, node_sums_size(ranks));
		struct summing s[RANKS_MAX] = { { 0 } };
		struct stat st;

		assert_true(fd >= 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		unlink(path);
		for (int r = 0; r < ranks; r++) {
			s[r] = (struct summing){
				.rank = r, .ranks = ranks, .node = node_sums_new(fd, r, ranks, NULL)
			};
			assert_non_null(s[r].node);
		}
		sum_and_check(s, ranks);
		for (int r = 0; r < ranks; r++)
			node_sums_free(&s[r].node);
	}
}

/* The process ends by SIGKILL when it calls one of these functions. */
static enum { NEVER, AT_LINK, AT_UNLINK } killed;

int __real_linkat(int a, const char *from, int b, const char *to, int flags);
int __wrap_linkat(int a, const char *from, int b, const char *to, int flags);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);

int __wrap_linkat(int a, const char *from, int b, const char *to, int flags)
{
	if (killed == AT_LINK)
		raise(SIGKILL);
	return __real_linkat(a, from, b, to, flags);
}

int __wrap_unlink(const char *path)
{
	if (killed == AT_UNLINK)
		raise(SIGKILL);
	return __real_unlink(path);
}

/* Wait for a child's end by SIGKILL. */
static void await_kill(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void memory_of_a_process_that_was_killed_is_removed_and_no_other(void **state)
{
	char mine[NODE_SUMS_PATH_MAX], next[NODE_SUMS_PATH_MAX], *dead;
	int fd = node_sums_segment(mine, node_sums_size(2)), other;
	pid_t pid;

	assert_true(fd >= 0);
	dead = mmap(NULL, NODE_SUMS_PATH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	assert_true(dead != MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		node_sums_segment(dead, node_sums_size(2));
		raise(SIGKILL);
	}
	await_kill(pid);
	assert_int_equal(access(dead, F_OK), 0);
	other = node_sums_segment(next, node_sums_size(2));
	assert_true(other >= 0);
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(access(mine, F_OK), 0);
	close(fd);
	close(other);
	unlink(mine);
	unlink(next);
	munmap(dead, NODE_SUMS_PATH_MAX);
}

static void a_ring_whose_neighbour_is_gone_says_so(void **state)
{
	float x[100] = { 0 };
	int to[2], from[2], r;
	struct ring_sums *ring;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, to), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, from), 0);
	ring = ring_sums_new(to[0], from[0], 0, 2);
	ring_sums_add(ring, x, ARRAY_LEN(x), NULL);
	assert_int_equal(ring_sums_advance(ring, NULL), 0);
	close(from[1]);
	r = ring_sums_advance(ring, NULL);
	assert_true(r == -ECONNRESET || r == -EPIPE);
	ring_sums_free(&ring);
	close(to[1]);
}

/* --- the rendezvous ------------------------------------------------------------------------ */

static void a_rendezvous_file_is_private_and_only_its_own_is_removed(void **state)
{
	char dir[] = "/tmp/elastic.XXXXXX";
	auto_free char *path = NULL;
	struct rendezvous a = { .secret = right, .generation = 3 }, b, got;
	struct mlr_error err = MLR_ERROR_INIT;
	struct stat st;

	assert_non_null(mkdtemp(dir));
	path = xasprintf("%s/file", dir);
	group_describe_self(&a.coordinator);
	a.coordinator.id = 2;
	a.coordinator.offer = (struct lifeline_offer){ .port = 4242, .addresses = 1 };
	assert_int_equal(inet_pton(AF_INET6, "::ffff:10.1.2.3", a.coordinator.offer.address), 1);
	assert_int_equal(rendezvous_read(path, &got, &err), -ENOENT);
	assert_int_equal(rendezvous_create(path, &a, &err), 0);
	assert_int_equal(rendezvous_create(path, &a, &err), -EEXIST);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(rendezvous_read(path, &got, &err), 0);
	assert_memory_equal(&got, &a, sizeof(a));
	b = a;
	b.generation++;
	assert_int_equal(rendezvous_replace(path, &b, &err), 0);
	rendezvous_remove(path, &a); /* it is b now */
	assert_int_equal(rendezvous_read(path, &got, &err), 0);
	assert_int_equal(got.generation, 4);
	chmod(path, 0640);
	assert_int_equal(rendezvous_read(path, &got, &err), -EACCES);
	assert_non_null(strstr(err.text, "others may read"));
	chmod(path, 0600);
	rendezvous_remove(path, &b);
	assert_int_equal(rendezvous_read(path, &got, &err), -ENOENT);
	assert_int_equal(rmdir(dir), 0);
}

static void what_a_kill_left_of_a_secret_is_removed(void **state)
{
	char dir[] = "/tmp/elastic.XXXXXX";
	auto_free char *path = NULL;
	struct rendezvous a = { .secret = right };

	assert_non_null(mkdtemp(dir));
	path = xasprintf("%s/file", dir);
	group_describe_self(&a.coordinator);
	a.coordinator.offer.port = 4242;
	for (int when = AT_LINK; when <= AT_UNLINK; when++) {
		struct strv names = STRV_INIT;
		pid_t pid = fork();

		if (pid == 0) {
			killed = (int)when;
			rendezvous_create(path, &a, NULL);
			rendezvous_remove(path, &a);
			_exit(0);
		}
		await_kill(pid);
		assert_int_equal(file_list(AT_FDCWD, dir, 0, &names), 0);
		assert_int_equal(names.n, 1); /* under another name */
		assert_int_equal(access(path, F_OK), -1);
		strv_done(&names);
		assert_int_equal(rendezvous_create(path, &a, NULL), 0);
		assert_int_equal(file_list(AT_FDCWD, dir, 0, &names), 0);
		assert_int_equal(names.n, 1);
		strv_done(&names);
		rendezvous_remove(path, &a);
	}
	assert_int_equal(rmdir(dir), 0);
}

static void a_host_and_port_are_told_from_a_file(void **state)
{
	assert_true(elastic_is_address("node1:4000"));
	assert_true(elastic_is_address("::1:4000"));
	assert_false(elastic_is_address("run.rendezvous"));
	assert_false(elastic_is_address("./node1:4000"));
	assert_false(elastic_is_address("/shared/a:b"));
	assert_false(elastic_is_address("a:"));
	assert_false(elastic_is_address(":4000"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hmac_is_that_of_rfc_4231),
		cmocka_unit_test(a_secret_is_read_back_and_a_damaged_or_short_one_refused),
		cmocka_unit_test_setup_teardown(
			who_has_the_secret_comes_in, open_listener, close_listener),
		cmocka_unit_test_setup_teardown(
			who_has_another_secret_stays_out, open_listener, close_listener),
		cmocka_unit_test(who_does_not_have_it_cannot_play_the_listener),
		cmocka_unit_test(who_has_another_byte_order_is_told_so),
		cmocka_unit_test_setup_teardown(
			a_recorded_conversation_is_worth_nothing, open_listener, close_listener),
		cmocka_unit_test_setup_teardown(silence_garbage_and_half_a_frame_end_within_seconds,
			open_listener, close_listener),
		cmocka_unit_test_setup_teardown(a_crowd_of_strangers_does_not_lock_ranks_out,
			open_listener, close_listener),
		cmocka_unit_test(the_next_group_has_who_stays_and_who_finds_a_place),
		cmocka_unit_test(the_weights_are_those_of_the_rank_that_has_come_farthest),
		cmocka_unit_test(shares_of_a_batch_are_whole_and_differ_by_one_row),
		cmocka_unit_test(a_list_of_ranks_is_read_back_and_a_damaged_one_refused),
		cmocka_unit_test(a_ring_gives_the_plain_sums_for_two_to_five_ranks),
		cmocka_unit_test(shared_memory_gives_the_plain_sums_for_one_to_five_ranks),
		cmocka_unit_test(memory_of_a_process_that_was_killed_is_removed_and_no_other),
		cmocka_unit_test(a_ring_whose_neighbour_is_gone_says_so),
		cmocka_unit_test(a_rendezvous_file_is_private_and_only_its_own_is_removed),
		cmocka_unit_test(what_a_kill_left_of_a_secret_is_removed),
		cmocka_unit_test(a_host_and_port_are_told_from_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
