/* A service's checks: a command in its container now and then, as Docker's HEALTHCHECK. */
#include "work/child.h"
#include "work/service_parts.h"

#include "base/base.h"

void service_probe_reset(struct service_probe *p, struct service *s)
{
	service_probe_kill(p);
	s->health = s->check.test.n > 0 ? SERVICE_NOT_YET : SERVICE_UNCHECKED;
	s->failures = 0;
	p->due = 0;
}

static int is_early(const struct service *s, int64_t up_ms)
{
	return s->health == SERVICE_NOT_YET && mlr_now_ms() - up_ms < s->check.start_period;
}

static int spawn(
	struct service_probe *p, const struct service *s, const char *program, const char *store)
{
	auto_strv struct strv argv = STRV_INIT;
	int pair[2], r;

	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	strv_add(&argv, "mlrun");
	strv_add(&argv, "exec");
	strv_addf(&argv, "--store=%s", store);
	strv_addf(&argv, "--join=%s", s->name);
	strv_add(&argv, "--"); /* the words are the image's: none is an option of mlrun's */
	for (size_t i = 0; i < s->check.test.n; i++)
		strv_add(&argv, s->check.test.v[i]);
	r = child_start(program, &argv, -1, pair[1], pair[1], &p->pid);
	close(pair[1]);
	p->out = pair[0];
	if (r == 0)
		return 0;
	p->pid = 0;
	close(take_fd(&p->out));
	return r;
}

static int64_t interval(const struct service *s, int64_t up_ms)
{
	return is_early(s, up_ms) && s->check.start_interval < s->check.interval
		? s->check.start_interval
		: s->check.interval;
}

int64_t service_probe_run(struct service_probe *p, const struct service *s, const char *program,
	const char *store, int64_t up_ms)
{
	int64_t now = mlr_now_ms();

	if (s->check.test.n == 0 || s->status != SERVICE_RUNNING)
		return -1;
	if (p->pid > 0 && now >= p->end && !p->killed) {
		kill(-p->pid, SIGKILL);
		p->killed = 1;
	}
	if (p->pid > 0)
		return p->killed ? -1 : p->end - now;
	if (p->due == 0) /* Docker waits before the first, too */
		p->due = now + interval(s, up_ms);
	if (now < p->due)
		return p->due - now;
	p->n = 0;
	p->killed = 0;
	p->end = now + s->check.timeout;
	if (spawn(p, s, program, store) < 0)
		p->due = now + interval(s, up_ms);
	return p->pid > 0 ? s->check.timeout : interval(s, up_ms);
}

void service_probe_read(struct service_probe *p)
{
	char rest[4096];
	ssize_t n = 1;

	while (p->out >= 0 && n > 0) {
		size_t room = sizeof(p->said) - 1 - p->n;

		n = room > 0 ? read(p->out, p->said + p->n, room)
			     : read(p->out, rest, sizeof(rest));
		if (n > 0 && room > 0)
			p->n += (size_t)n;
	}
	if (p->out >= 0 && n == 0)
		close(take_fd(&p->out));
}

int service_probe_ended(struct service_probe *p, struct service *s, int status, int64_t up_ms)
{
	enum service_health was = s->health;

	service_probe_read(p);
	mlr_cleanup_close(&p->out);
	p->out = -1;
	p->pid = 0;
	if (s->status != SERVICE_RUNNING)
		return 0;
	if (status == 0) {
		int changed = s->failures > 0 || was != SERVICE_HEALTHY;

		s->health = SERVICE_HEALTHY;
		s->failures = 0;
		p->due = mlr_now_ms() + interval(s, up_ms);
		return changed;
	}
	p->said[p->n] = '\0';
	free(s->said);
	s->said = p->killed ? xasprintf("it took longer than %lld ms", (long long)s->check.timeout)
			    : xstrdup(p->said);
	if (!is_early(s, up_ms) && ++s->failures >= s->check.retries)
		s->health = SERVICE_UNHEALTHY;
	p->due = mlr_now_ms() + interval(s, up_ms);
	return 1;
}

void service_probe_kill(struct service_probe *p)
{
	if (p->pid > 0)
		kill(-p->pid, SIGKILL);
}
