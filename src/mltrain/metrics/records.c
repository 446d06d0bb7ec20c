#include "metrics/records.h"

#include "base/json.h"
#include "config.h"
#include "model/recipe.h"
#include "optimiser/optimiser.h"

static json_t *share(double v)
{
	return v >= 0 ? mlr_json_real(v) : json_null();
}

static json_t *text(const char *s)
{
	return mlr_json_text(s && *s ? s : NULL);
}

static json_t *integer(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static void set_machine(json_t *r, const struct train_state *s)
{
	char when[MLR_TIME_SIZE], host[256] = "";

	mlr_time_utc(time(NULL), when);
	gethostname(host, sizeof(host) - 1);
	json_object_set_new(r, "event", json_string("run"));
	json_object_set_new(r, "time", json_string(when));
	json_object_set_new(r, "version", json_string(PACKAGE_VERSION));
	json_object_set_new(r, "host", text(host));
	json_object_set_new(r, "backend", text(s->engine->backend->name));
	json_object_set_new(r, "device", text(s->engine->device));
	json_object_set_new(r, "dtype", json_string(dtype_name(s->engine->dtype)));
	if (s->engine->isa)
		json_object_set_new(r, "isa", json_string(s->engine->isa));
	json_object_set_new(r, "threads", json_integer(s->engine->threads));
	json_object_set_new(r, "memory_bytes", integer(s->engine->memory));
}

static void set_data(json_t *r, const struct train_state *s, const struct dataset *d)
{
	char input[SHAPE_TEXT_MAX];

	json_object_set_new(r, "net", text(s->net->name));
	json_object_set_new(r, "input", json_string(shape_text(&s->net->input, input)));
	json_object_set_new(r, "parameters", integer(s->net->params));
	json_object_set_new(r, "data", text(d->dir));
	json_object_set_new(r, "train_images", integer(s->train_images));
	json_object_set_new(r, "validation_images", integer(s->validation_images));
	json_object_set_new(r, "test_images", integer(s->test_images));
}

static void set_recipe(json_t *r, const struct train_state *s, const struct train_options *o)
{
	json_object_set_new(r, "seed", integer(o->seed));
	json_object_set_new(r, "epochs", json_integer(o->recipe.epochs));
	json_object_set_new(r, "batch", json_integer(o->recipe.batch));
	json_object_set_new(r, "steps", integer(s->steps));
	json_object_set_new(r, "steps_per_epoch", integer(s->epoch_steps));
	json_object_set_new(r, "lr", mlr_json_real(o->recipe.lr));
	json_object_set_new(r, "optimiser", text(optimisers[o->recipe.optimiser].name));
	json_object_set_new(r, "momentum", mlr_json_real(o->recipe.momentum));
	json_object_set_new(r, "l2", mlr_json_real(o->recipe.l2));
	json_object_set_new(r, "recipe", recipe_json(&o->recipe));
	json_object_set_new(r, "ranks", json_integer(s->ranks));
	json_object_set_new(r, "checkpoint", text(o->checkpoint));
}

json_t *record_run(
	const struct train_state *s, const struct train_options *o, const struct dataset *data)
{
	json_t *r = json_object();

	set_machine(r, s);
	set_data(r, s, data);
	set_recipe(r, s, o);
	json_object_set_new(r, "step", integer(s->step));
	return r;
}

json_t *record_ranks(const struct train_state *s)
{
	return json_pack("{s:s, s:o, s:i, s:o, s:i, s:i, s:i, s:i, s:o, s:o}", "event", "ranks",
		"step", integer(s->step), "epoch", s->epoch, "generation", integer(s->generation),
		"ranks", s->ranks, "joined", s->joined, "left", s->left, "lost", s->lost,
		"pause_seconds", mlr_json_real(s->pause_seconds), "clock",
		mlr_json_real(mlr_epoch()));
}

/* Add how many images the epoch's steps have used so far, and their digest. */
static void set_samples(json_t *r, const struct train_state *s)
{
	char digest[17];

	snprintf(digest, sizeof(digest), "%016" PRIx64, s->epoch_indices);
	json_object_set_new(r, "samples", integer(s->epoch_samples));
	json_object_set_new(r, "samples_digest", json_string(digest));
}

json_t *record_state(const char *event, const struct train_state *s, double rate)
{
	double right = s->test_error < 0 ? NAN : 1 - s->test_error;
	json_t *r = json_pack(
		"{s:s, s:o, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"event", event, "step", integer(s->step), "epoch", s->epoch, "epochs_done",
		s->epochs_done, "lr", mlr_json_real(s->lr), "loss", mlr_json_real(s->loss),
		"cross_entropy", mlr_json_real(s->cross_entropy), "batch_error",
		share(s->batch_error), "validation_error", share(s->validation_error), "test_error",
		share(s->test_error), "test_accuracy", mlr_json_real(right), "test_wrong",
		s->test_wrong < 0 ? json_null() : json_integer(s->test_wrong), "train_seconds",
		mlr_json_real(s->step_seconds), "evaluate_seconds",
		mlr_json_real(s->evaluate_seconds), "checkpoint_seconds",
		mlr_json_real(s->checkpoint_seconds), "images_per_second", mlr_json_real(rate));

	set_samples(r, s);
	json_object_set_new(r, "ranks", json_integer(s->ranks));
	json_object_set_new(r, "generation", s->generation ? integer(s->generation) : json_null());
	return r;
}

static json_t *gpu(const struct usage_gpu *g)
{
	return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "index", g->index, "name",
		text(g->name), "percent", share(g->percent), "memory_bytes",
		g->memory ? integer(g->memory) : json_null(), "memory_total_bytes",
		g->memory_total ? integer(g->memory_total) : json_null(), "power_watts",
		share(g->power_watts), "temperature_celsius", share(g->temperature));
}

json_t *record_load(const struct usage *l, uint64_t step)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "event", "load", "step", integer(step),
		"cpu_process_percent", share(l->cpu_process_percent), "cpu_node_percent",
		share(l->cpu_node_percent), "rss_bytes", l->rss ? integer(l->rss) : json_null(),
		"gpus", MLR_JSON_LIST(i, l->gpus, gpu(&l->gpu[i])));
}
