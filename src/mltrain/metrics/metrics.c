#include "metrics/metrics.h"

#include "base/json.h"
#include "metrics/live.h"
#include "metrics/records.h"
#include "metrics/tfevents.h"

struct metrics {
	const struct metrics_options *o;
	int64_t began_ms;
	struct live live;
	struct tflog tflog;
	struct jsonl *log, *out; /* the file and stdout; each may be NULL */
	struct usage_sampler *sampler;
	struct rate rate;
	struct tfevents *events; /* may be NULL */
	/* The sampler's thread reports the load, the training thread the rest. */
	pthread_mutex_t lock;
	uint64_t step;
};

int metrics_open(const struct metrics_options *o, struct metrics **ret, struct mlr_error *err)
{
	struct metrics *m = xcalloc(1, sizeof(*m));
	struct mlr_error ignored;
	int r = 0;

	m->o = o;
	m->began_ms = mlr_now_ms();
	m->tflog.to = stdout;
	pthread_mutex_init(&m->lock, NULL);
	live_init(&m->live);
	if (o->log)
		r = jsonl_open(o->log, &m->log, err);
	if (r == 0 && o->format == METRICS_JSON)
		r = jsonl_open(NULL, &m->out, err);
	if (r == 0 && o->tensorboard)
		r = tfevents_open(o->tensorboard, &m->events, err);
	if (r < 0) {
		metrics_close(&m, &ignored);
		return r;
	}
	*ret = m;
	return 0;
}

static double seconds(const struct metrics *m)
{
	return 1e-3 * (double)(mlr_now_ms() - m->began_ms);
}

/* Add the time to a record and write it; takes the record. The caller holds the lock. */
static void put(struct metrics *m, json_t *record)
{
	if (record)
		json_object_set_new(record, "seconds", json_real(seconds(m)));
	if (m->out)
		jsonl_put(m->out, json_incref(record));
	if (m->log)
		jsonl_put(m->log, json_incref(record));
	json_decref(record);
}

static void tell_load(void *ctx, const struct usage *load)
{
	struct metrics *m = ctx;

	pthread_mutex_lock(&m->lock);
	put(m, record_load(load, m->step));
	if (m->events)
		tfevents_load(m->events, load, m->step);
	pthread_mutex_unlock(&m->lock);
}

static int is_due(const struct metrics *m, const struct train_state *s)
{
	return s->step == 1 || s->step % m->o->log_every == 0 || s->step == s->steps;
}

/* The events of moments whose records are the run's state. */
static const char *const events[TRAIN_TESTED + 1] = { [TRAIN_STEPPED] = "step",
	[TRAIN_VALIDATED] = "validated",
	[TRAIN_EPOCH_ENDED] = "epoch",
	[TRAIN_SAVED] = "saved",
	[TRAIN_INTERRUPTED] = "interrupted",
	[TRAIN_TESTED] = "end" };

static void tell_records(struct metrics *m, const struct train_state *s,
	const struct train_options *o, const struct dataset *data)
{
	if (s->moment == TRAIN_STARTED)
		put(m, record_run(s, o, data));
	else if (s->moment == TRAIN_REGROUPED)
		put(m, record_ranks(s));
	else if (events[s->moment] && (s->moment != TRAIN_STEPPED || is_due(m, s)))
		put(m, record_state(events[s->moment], s, rate_mean(&m->rate, s, o->recipe.batch)));
}

static void tell_events(struct metrics *m, const struct train_state *s,
	const struct train_options *o, const struct dataset *data)
{
	if (s->moment == TRAIN_STARTED) {
		json_t *run = record_run(s, o, data);

		tfevents_start(m->events, run, s, data);
		json_decref(run);
	} else if (s->moment != TRAIN_STEPPED || is_due(m, s)) {
		tfevents_tell(m->events, s, data, rate_smooth(&m->rate));
	}
}

void metrics_tell(struct metrics *m, const struct train_state *s, const struct train_options *o,
	const struct dataset *data)
{
	int images = o->recipe.batch; /* of one step, on all ranks */
	int ends = s->moment == TRAIN_INTERRUPTED || s->moment == TRAIN_TESTED;

	if (ends) /* before the last record is written */
		usage_stop(&m->sampler);
	pthread_mutex_lock(&m->lock);
	m->step = s->step;
	if (s->moment == TRAIN_STARTED)
		rate_start(&m->rate, s);
	else if (s->moment == TRAIN_STEPPED)
		rate_step(&m->rate, s, images);
	if (m->log || m->out)
		tell_records(m, s, o, data);
	if (m->events)
		tell_events(m, s, o, data);
	pthread_mutex_unlock(&m->lock);

	if (m->o->format == METRICS_TF)
		tflog_tell(&m->tflog, s, images);
	else if (!m->o->quiet)
		live_tell(&m->live, s, images);
	if (s->moment == TRAIN_STARTED && m->o->load_every > 0 && (m->log || m->out || m->events))
		m->sampler =
			usage_start(m->o->load_every, s->engine->device[0] != '\0', tell_load, m);
}

void metrics_put(struct metrics *m, json_t *record)
{
	pthread_mutex_lock(&m->lock);
	put(m, record);
	pthread_mutex_unlock(&m->lock);
}

void metrics_fail(struct metrics *m, const struct mlr_error *why)
{
	usage_stop(&m->sampler);
	live_clear(&m->live);
	metrics_put(
		m, json_pack("{s:s, s:o}", "event", "failed", "error", mlr_json_text(why->text)));
}

int metrics_close(struct metrics **metrics, struct mlr_error *err)
{
	struct metrics *m = take_ptr(metrics);
	struct mlr_error others = MLR_ERROR_INIT;
	int r = 0;

	if (!m)
		return 0;
	usage_stop(&m->sampler);
	live_clear(&m->live);
	r = jsonl_close(&m->log, err);
	r = r < 0 ? (jsonl_close(&m->out, &others), r) : jsonl_close(&m->out, err);
	r = r < 0 ? (tfevents_close(&m->events, &others), r) : tfevents_close(&m->events, err);
	pthread_mutex_destroy(&m->lock);
	free(m);
	return r;
}
