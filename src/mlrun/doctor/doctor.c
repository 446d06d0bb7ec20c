/*
 * Runs the checks in parallel, each in a child that sends its findings through a pipe:
 *
 *   'P' | 'N' | 'W' | 'F', '-' | 'y' | 'a', check NUL what NUL cause NUL fix NUL    a finding
 *   'E'                                                                         the end
 *
 * A child that hangs in the kernel cannot be killed, so the parent waits for none.
 */
#include "doctor/doctor.h"

#include "base/json.h"
#include "doctor/check.h"

#include <poll.h>

#define ANSWER_MAX 65536 /* bytes of one check's findings */

static const char verdicts[] = "PNWF", whos[] = "-ya";

static const struct {
	const char *name;
	doctor_check look;
} checks[] = {
	{ "kernel", check_kernel },
	{ "namespaces", check_namespaces },
	{ "fuse", check_fuse },
	{ "installation", check_installation },
	{ "configuration", check_configuration },
	{ "store", check_store },
	{ "memory", check_memory },
	{ "clock", check_clock },
	{ "credentials", check_credentials },
	{ "gpu", check_gpu },
	{ "mpi", check_mpi },
	{ "slurm", check_slurm },
};

struct child {
	pid_t pid;
	int fd; /* of the pipe; -1 once ended */
	char answer[ANSWER_MAX];
	size_t len;
};

static void send_string(int fd, const char *s)
{
	(void)!file_write_all(fd, s ? s : "", s ? strlen(s) + 1 : 1);
}

static void send_report(int fd, const struct doctor_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct doctor_finding *f = &r->v[i];
		const char head[2] = { verdicts[f->verdict], whos[f->who] };

		(void)!file_write_all(fd, head, sizeof(head));
		send_string(fd, f->check);
		send_string(fd, f->what);
		send_string(fd, f->cause);
		send_string(fd, f->fix);
	}
	(void)!file_write_all(fd, "E", 1);
}

static void start(const struct doctor_machine *m, doctor_check look, struct child *c)
{
	struct doctor_report r = { 0 };
	int fds[2];

	c->fd = -1;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	c->pid = fork();
	if (c->pid == 0) {
		setpgid(0, 0); /* so that its children are killed with it */
		if (mlr_log_level < MLR_DEBUG)
			mlr_log_level = MLR_ERROR; /* no warnings: they become findings */
		look(m, &r);
		send_report(fds[1], &r);
		_exit(0);
	}
	close(fds[1]);
	if (c->pid < 0)
		close(fds[0]);
	else
		c->fd = fds[0];
}

static void take_bytes(struct child *c)
{
	ssize_t n = read(c->fd, c->answer + c->len, ANSWER_MAX - c->len);

	if (n > 0) {
		c->len += (size_t)n;
		return;
	}
	if (n < 0 && errno == EINTR)
		return;
	close(c->fd);
	c->fd = -1;
	waitpid(c->pid, NULL, WNOHANG);
}

/* Read until all have ended or time runs out. */
static void listen_to(struct child *v, size_t n, long end)
{
	for (;;) {
		struct pollfd p[ARRAY_LEN(checks)];
		long left = end - mlr_now_ms();
		int open = 0;

		for (size_t i = 0; i < n; i++) {
			p[i] = (struct pollfd){ .fd = v[i].fd, .events = POLLIN };
			open |= v[i].fd >= 0;
		}
		if (!open || left <= 0 || (poll(p, n, (int)left) < 0 && errno != EINTR))
			return;
		for (size_t i = 0; i < n; i++)
			if (v[i].fd >= 0 && p[i].revents)
				take_bytes(&v[i]);
	}
}

/* Take the string at *s, to free(), NULL if it is empty; *s moves past it. -1 if it is
 * unterminated. */
static int take_string(const char **s, const char *end, char **ret)
{
	size_t n = strnlen(*s, (size_t)(end - *s));

	if (*s + n == end)
		return -1;
	*ret = n ? xstrndup(*s, n) : NULL;
	*s += n + 1;
	return 0;
}

/* Returns 0 if the answer is complete. Keeps the findings before a break. */
static int take_answer(const struct child *c, struct doctor_report *r)
{
	const char *s = c->answer, *end = s + c->len;

	while (end - s > 2 && *s != 'E') {
		const char *verdict = strchr(verdicts, s[0]), *who = strchr(whos, s[1]);
		struct doctor_finding f = { 0 };

		if (!s[0] || !s[1] || !verdict || !who)
			return -1;
		f.verdict = (enum doctor_verdict)(verdict - verdicts);
		f.who = (enum doctor_who)(who - whos);
		s += 2;
		if (take_string(&s, end, &f.check) < 0 || take_string(&s, end, &f.what) < 0 ||
			take_string(&s, end, &f.cause) < 0 || take_string(&s, end, &f.fix) < 0 ||
			!f.check || !f.what) {
			free(f.check);
			free(f.what);
			free(f.cause);
			free(f.fix);
			return -1;
		}
		*xadd(r->v, r->n) = f;
	}
	return s < end && *s == 'E' ? 0 : -1;
}

static void conclude(
	const struct doctor_machine *m, const char *name, struct child *c, struct doctor_report *r)
{
	int late = c->fd >= 0;

	if (late) {
		kill(-c->pid, SIGKILL);
		kill(c->pid, SIGKILL);
		close(c->fd);
	}
	if (take_answer(c, r) == 0)
		return;
	if (late) {
		doctor_add(r, name, DOCTOR_FAILURE, "no answer within %.1f seconds",
			m->timeout_ms / 1000.0);
		doctor_because(r, "probably a file system whose server does not answer");
		doctor_mend(
			r, DOCTOR_ADMINISTRATOR, "df -l; mount | grep -E 'nfs|lustre|beegfs|fuse'");
		return;
	}
	doctor_add(r, name, DOCTOR_FAILURE, "the look at it broke off");
	doctor_because(r,
		"no process could be made for it, or it was killed: a limit on processes or memory");
	doctor_mend(r, DOCTOR_YOU, "ulimit -u; ulimit -v");
}

void doctor_look(const struct doctor_machine *m, struct doctor_report *ret)
{
	struct child *v = xcalloc(ARRAY_LEN(checks), sizeof(*v));
	long end = mlr_now_ms() + m->timeout_ms;

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		start(m, checks[i].look, &v[i]);
	listen_to(v, ARRAY_LEN(checks), end);
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		conclude(m, checks[i].name, &v[i], ret);
	free(v);
}

size_t doctor_count(const struct doctor_report *r, enum doctor_verdict verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += r->v[i].verdict == verdict;
	return n;
}

enum doctor_verdict doctor_worst(const struct doctor_report *r)
{
	enum doctor_verdict worst = DOCTOR_PASS;

	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].verdict > worst)
			worst = r->v[i].verdict;
	return worst;
}

void doctor_report_done(struct doctor_report *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->v[i].check);
		free(r->v[i].what);
		free(r->v[i].cause);
		free(r->v[i].fix);
	}
	free(r->v);
	*r = (struct doctor_report){ 0 };
}

const char *doctor_verdict_word(enum doctor_verdict v)
{
	static const char *const words[] = { [DOCTOR_PASS] = "pass",
		[DOCTOR_NOT_NEEDED] = "not needed",
		[DOCTOR_WARNING] = "warning",
		[DOCTOR_FAILURE] = "failure" };

	return words[v];
}

static json_t *finding_json(const struct doctor_finding *f)
{
	static const char *const who_words[] = { [DOCTOR_NOBODY] = NULL,
		[DOCTOR_YOU] = "you",
		[DOCTOR_ADMINISTRATOR] = "administrator" };

	return json_pack("{s:s, s:s, s:o, s:o, s:s?, s:o}", "check", f->check, "verdict",
		doctor_verdict_word(f->verdict), "what", mlr_json_text(f->what), "cause",
		mlr_json_text(f->cause), "who", who_words[f->who], "fix", mlr_json_text(f->fix));
}

json_t *doctor_to_json(const struct doctor_report *r)
{
	return json_pack("{s:b, s:I, s:I, s:I, s:o}", "ok", doctor_count(r, DOCTOR_FAILURE) == 0,
		"passes", (json_int_t)doctor_count(r, DOCTOR_PASS), "warnings",
		(json_int_t)doctor_count(r, DOCTOR_WARNING), "failures",
		(json_int_t)doctor_count(r, DOCTOR_FAILURE), "findings",
		MLR_JSON_LIST(i, r->n, finding_json(&r->v[i])));
}
