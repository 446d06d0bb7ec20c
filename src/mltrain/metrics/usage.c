#include "metrics/usage.h"

#define SHORT_S 0.05 /* a last sample over less says nothing */
#define HANG_S  1

struct usage_sampler {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	double every;
	int with_gpus, stop, abandoned;
	usage_tell tell;
	void *ctx;
};

/* proc(5), /proc/stat: "cpu  user nice system idle iowait irq softirq steal guest guest_nice". */
static int node_times(const char *root, unsigned long long *busy, unsigned long long *all)
{
	auto_free char *path = xasprintf("%s/proc/stat", root), *text = NULL;
	unsigned long long v[8] = { 0 };

	if (file_read(AT_FDCWD, path, 1 << 22, &text, NULL, NULL) < 0 ||
		sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
			&v[3], &v[4], &v[5], &v[6], &v[7]) < 4)
		return -1;
	*all = 0;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) /* user includes guest */
		*all += v[i];
	*busy = *all - v[3] - v[4];
	return 0;
}

static uint64_t resident(const char *root)
{
	auto_free char *path = xasprintf("%s/proc/self/statm", root), *text = NULL;
	unsigned long long size, pages;

	if (file_read(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0 ||
		sscanf(text, "%llu %llu", &size, &pages) != 2)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void usage_read(const char *root, struct usage_before *before, struct usage *ret)
{
	struct usage_before now = { .seconds = mlr_now(),
		.process = (double)clock() / CLOCKS_PER_SEC };
	double spent = now.seconds - before->seconds;

	*ret = (struct usage){ .cpu_process_percent = -1, .cpu_node_percent = -1 };
	if (before->seconds > 0 && spent > 0)
		ret->cpu_process_percent = 100 * (now.process - before->process) / spent;
	if (node_times(root, &now.busy, &now.all) == 0 && before->all && now.all > before->all &&
		now.busy >= before->busy)
		ret->cpu_node_percent =
			100 * (double)(now.busy - before->busy) / (double)(now.all - before->all);
	ret->rss = resident(root);
	*before = now;
}

/* Wait for the next sample or the end. Returns nonzero at the end. */
static int wait_stop(struct usage_sampler *s)
{
	double at = mlr_now() + s->every;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	while (!s->stop && r != ETIMEDOUT)
		r = mlr_cond_wait_until(&s->wake, &s->lock, at);
	r = s->stop;
	pthread_mutex_unlock(&s->lock);
	return r;
}

static void take(
	struct usage_sampler *s, const struct nvml_watch *nvml, struct usage_before *before)
{
	struct usage load;

	usage_read("", before, &load);
	load.gpus = nvml_read(nvml, load.gpu, USAGE_GPUS_MAX);
	pthread_mutex_lock(&s->lock);
	if (!s->abandoned)
		s->tell(s->ctx, &load);
	pthread_mutex_unlock(&s->lock);
}

static void *sample(void *arg)
{
	struct usage_sampler *s = arg;
	struct usage_before before = { 0 };
	struct nvml_watch *nvml = NULL;
	struct usage first;

	usage_read("", &before, &first);
	if (s->with_gpus)
		nvml = nvml_open();
	while (!wait_stop(s))
		take(s, nvml, &before);
	if (mlr_now() - before.seconds >= SHORT_S)
		take(s, nvml, &before);
	nvml_close(&nvml);
	return NULL;
}

struct usage_sampler *usage_start(double every, int with_gpus, usage_tell tell, void *ctx)
{
	struct usage_sampler *s = xcalloc(1, sizeof(*s));
	sigset_t all, was;
	int r;

	*s = (struct usage_sampler){
		.every = every, .with_gpus = with_gpus, .tell = tell, .ctx = ctx
	};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &was);
	r = pthread_create(&s->thread, NULL, sample, s);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (r == 0)
		return s;
	mlr_debug("the load is not sampled: %s", strerror(r));
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

void usage_stop(struct usage_sampler **sampler)
{
	struct usage_sampler *s = take_ptr(sampler);
	struct timespec until;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = 1;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HANG_S;
	if (pthread_timedjoin_np(s->thread, NULL, &until) != 0) {
		pthread_mutex_lock(&s->lock);
		s->abandoned = 1; /* the thread may still use s, so it is not freed */
		pthread_mutex_unlock(&s->lock);
		pthread_detach(s->thread);
		return;
	}
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
