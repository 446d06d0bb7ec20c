#include "trainer_test.h"

#include "dist/peers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

/* Two ranks, one of them a child, which meet as those of an MPI program do and watch each other. */
struct pair {
	pid_t child;
	struct peers *peers; /* the parent's */
};

static struct peers *meet(int sock, int rank, const char *pid_namespace)
{
	struct peer self, other, all[2];
	int offered;

	self = peer_self(rank, &offered);
	if (pid_namespace)
		strcpy(self.pid_namespace, pid_namespace);
	if (write(sock, &self, sizeof(self)) != sizeof(self) ||
		read(sock, &other, sizeof(other)) != sizeof(other))
		abort();
	all[rank] = self;
	all[!rank] = other;
	return peers_new(all, 2, &self, offered);
}

/* What the child does, once it is known. */
enum doing { SLEEPS, YIELDS, COMPUTES };

__attribute__((noreturn)) static void *compute(void *unused)
{
	volatile unsigned int n = 0;

	for (;;)
		n = n * 5 + 1;
}

/* Compute: in a thread, for which the first one waits. */
__attribute__((noreturn)) static void live(enum doing doing)
{
	pthread_t thread;

	if (doing == COMPUTES && pthread_create(&thread, NULL, compute, NULL) != 0)
		_exit(1);
	for (;;)
		if (doing == YIELDS)
			sched_yield();
		else
			pause();
}

/* Without names of PID namespaces they are in the same one. */
static struct pair start_child(const char *parents, const char *childs, enum doing doing)
{
	struct pair p;
	char alive = 0;
	int sock[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	p.child = fork();
	assert_true(p.child >= 0);
	if (p.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves none behind */
		/* The child says when it has seen the parent alive, and lives on. */
		struct peers *peers = meet(sock[1], 1, childs);

		alive = peers_look(peers, NULL) == 0;
		if (write(sock[1], &alive, 1) != 1)
			_exit(1);
		live(doing);
	}
	p.peers = meet(sock[0], 0, parents);
	assert_int_equal(read(sock[0], &alive, 1), 1);
	assert_true(alive);
	close(sock[0]);
	close(sock[1]);
	return p;
}

static struct pair start(const char *parents, const char *childs)
{
	return start_child(parents, childs, SLEEPS);
}

static void kill_and_look(struct pair *p)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char expected[64];
	int r = 0;

	assert_int_equal(peers_look(p->peers, &err), 0);
	assert_int_equal(kill(p->child, SIGKILL), 0);
	for (int i = 0; i < 12000 && r == 0; i++) {
		usleep(10000);
		r = peers_look(p->peers, &err);
	}
	waitpid(p->child, NULL, 0);
	snprintf(expected, sizeof(expected), "(process %d) has ended", (int)p->child);
	assert_int_equal(r, -EIO);
	assert_int_equal(strncmp(err.text, "rank 1 on '", 11), 0);
	assert_non_null(strstr(err.text, expected));
	assert_non_null(strstr(err.text, "\nhint: "));
	peers_free(&p->peers);
}

static void a_rank_that_is_stopped_is_named_once_and_one_that_runs_is_not(void **state)
{
	struct pair p = start(NULL, NULL);
	char words[PEERS_WORDS] = "", expected[64];
	int status;

	assert_int_equal(kill(p.child, SIGSTOP), 0);
	assert_int_equal(waitpid(p.child, &status, WUNTRACED), p.child);
	/* It may have been stopped just now. */
	assert_int_equal(peers_late(p.peers, 1000, words), 0);
	assert_int_equal(peers_late(p.peers, 2000, words), 0);
	assert_int_equal(peers_late(p.peers, 3000, words), 1);
	snprintf(expected, sizeof(expected), "(process %d), which is stopped", (int)p.child);
	assert_int_equal(strncmp(words, "waiting for rank 1 on '", 23), 0);
	assert_non_null(strstr(words, expected));
	assert_int_equal(peers_late(p.peers, 9000, words), 0);
	kill_and_look(&p);

	/* Yielding the CPU, as waiting ranks do, is running. */
	p = start_child(NULL, NULL, YIELDS);
	for (int64_t t = 1000; t < 9000; t += 1000)
		assert_int_equal(peers_late(p.peers, t, words), 0);
	kill_and_look(&p);
}

/* Until a process has had so much CPU time more. */
static void wait_for_cpu(pid_t pid, long ms)
{
	struct timespec t;
	clockid_t clock;
	long from, now;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &t), 0);
	from = t.tv_sec * 1000 + t.tv_nsec / 1000000;
	do {
		usleep(10000);
		assert_int_equal(clock_gettime(clock, &t), 0);
		now = t.tv_sec * 1000 + t.tv_nsec / 1000000;
	} while (now - from < ms);
}

static void a_rank_whose_threads_compute_while_the_first_one_sleeps_is_not_named(void **state)
{
	struct pair p = start_child(NULL, NULL, COMPUTES);
	char words[PEERS_WORDS] = "";

	for (int64_t t = 1000; t < 9000; t += 1000) {
		assert_int_equal(peers_late(p.peers, t, words), 0);
		wait_for_cpu(p.child, 50);
	}
	kill_and_look(&p);
}

static void a_rank_that_sleeps_is_named(void **state)
{
	struct pair p = start(NULL, NULL);
	char words[PEERS_WORDS] = "";

	usleep(100000); /* until it does */
	assert_int_equal(peers_late(p.peers, 1000, words), 0);
	assert_int_equal(peers_late(p.peers, 2000, words), 0);
	assert_int_equal(peers_late(p.peers, 3000, words), 1);
	assert_non_null(strstr(words, ", which sleeps"));
	kill_and_look(&p);
}

static void a_rank_elsewhere_is_named_where_it_can_be_no_other(void **state)
{
	struct pair p = start("pid:[1]", "pid:[2]");
	char words[PEERS_WORDS] = "", expected[64];

	assert_int_equal(peers_late(p.peers, 1000, words), 1);
	snprintf(expected, sizeof(expected), "(process %d)", (int)p.child);
	assert_int_equal(strncmp(words, "waiting for rank 1 on '", 23), 0);
	assert_non_null(strstr(words, expected));
	assert_int_equal(peers_late(p.peers, 9000, words), 0);
	kill_and_look(&p);
}

static void a_rank_of_this_node_that_is_killed_is_seen(void **state)
{
	struct pair p = start(NULL, NULL);

	kill_and_look(&p);
}

static void a_rank_in_another_pid_namespace_that_is_killed_is_seen(void **state)
{
	struct pair p = start("pid:[1]", "pid:[2]");

	kill_and_look(&p);
}

static void ranks_that_know_no_pid_namespace_are_seen_too(void **state)
{
	struct pair p = start("", "");

	kill_and_look(&p);
}

/* A scanner of ports must not be taken for the rank that is awaited. */
static void a_stranger_who_connects_is_not_taken_for_a_rank(void **state)
{
	struct lifeline_offer offer, wrong;
	int offered = lifeline_listen(0, &offer), stranger, friend, got;

	assert_true(offered >= 0 && offer.port > 0);
	if (!offer.addresses) {
		close(offered); /* a machine without a network has no other nodes */
		return;
	}
	wrong = offer;
	wrong.token++;
	stranger = lifeline_take(&wrong, NULL);
	assert_true(stranger >= 0);
	friend = lifeline_take(&offer, NULL);
	assert_true(friend >= 0);
	got = lifeline_give(offered, &offer);
	assert_true(got >= 0);
	/* What the friend ends, and not what the stranger does, is seen. */
	close(stranger);
	assert_int_equal(recv(got, (char[1]){ 0 }, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(friend);
	assert_int_equal(recv(got, (char[1]){ 0 }, 1, 0), 0);
	close(got);
	close(offered);
}

/* Every node has a 172.17.0.1 where Docker is: who is there is not the rank that is meant. */
static void an_address_of_ones_own_is_not_another_nodes(void **state)
{
	struct lifeline_offer offer;
	int offered = lifeline_listen(0, &offer);

	assert_true(offered >= 0);
	assert_int_equal(lifeline_take(&offer, &offer), -1);
	close(offered);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rank_that_is_stopped_is_named_once_and_one_that_runs_is_not),
		cmocka_unit_test(
			a_rank_whose_threads_compute_while_the_first_one_sleeps_is_not_named),
		cmocka_unit_test(a_rank_that_sleeps_is_named),
		cmocka_unit_test(a_rank_elsewhere_is_named_where_it_can_be_no_other),
		cmocka_unit_test(a_rank_of_this_node_that_is_killed_is_seen),
		cmocka_unit_test(a_rank_in_another_pid_namespace_that_is_killed_is_seen),
		cmocka_unit_test(ranks_that_know_no_pid_namespace_are_seen_too),
		cmocka_unit_test(a_stranger_who_connects_is_not_taken_for_a_rank),
		cmocka_unit_test(an_address_of_ones_own_is_not_another_nodes),
	};

	return cmocka_run_group_tests_name("trainer_peers", tests, NULL, NULL);
}
