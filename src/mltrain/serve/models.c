#include "serve/models.h"

#include "model/net_file.h"

#include <assert.h>

struct entry {
	char name[SERVE_NAME_MAX];
	char *path;
	struct serve_model *now; /* under the lock */
};

struct serve_models {
	struct predictor_options use;
	pthread_mutex_t lock;
	struct entry *v; /* [n] */
	size_t n;
};

/* Is this a name for a model: 1 to 63 letters, digits and "_-."? */
static int is_name(const char *name)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
	size_t n = strlen(name);

	return n > 0 && n < SERVE_NAME_MAX && strspn(name, letters) == n;
}

static void model_free(struct serve_model *model)
{
	for (int i = 0; i < model->n_engines; i++) {
		struct engine *e = atomic_load(&model->engines[i]);

		engine_close(&e);
	}
	predictor_done(&model->predictor);
	free(model);
}

void serve_model_drop(struct serve_model **model)
{
	if (*model && atomic_fetch_sub(&(*model)->users, 1) == 1)
		model_free(*model);
	*model = NULL;
}

/* 1, 8, 64, … below the largest batch, then that. */
static void choose_sizes(struct serve_model *model, int most)
{
	for (int size = 1; size < most && model->n_engines < SERVE_ENGINES_MAX - 1; size *= 8)
		model->sizes[model->n_engines++] = size;
	model->sizes[model->n_engines++] = most;
}

static int open_engine(const struct serve_models *m, const char *path, struct serve_model *model,
	int which, struct mlr_error *err)
{
	struct predictor_options use = m->use;
	struct engine *e = NULL;

	use.checkpoint = path;
	use.batch = model->sizes[which];
	TRY(predictor_engine(&use, &model->predictor, &e, err));
	atomic_store(&model->engines[which], e);
	return 0;
}

/* The weights' digest covers floats and their names alone. */
static void make_key(const struct checkpoint *c, char key[HASH_HEX_SIZE])
{
	size_t channels = (size_t)c->net->input.dim[0];
	auto_free char *net = net_text(c->net);
	auto_hash struct hash *h = hash_new();

	hash_update(h, c->weights, strlen(c->weights) + 1);
	hash_update(h, net, strlen(net) + 1);
	hash_update(h, c->norm.mean, channels * sizeof(c->norm.mean[0]));
	hash_update(h, c->norm.scale, channels * sizeof(c->norm.scale[0]));
	hash_final(h, key);
}

static int open_model(const struct serve_models *m, const struct entry *entry, int version,
	struct serve_model **ret, struct mlr_error *err)
{
	auto_call(serve_model_drop) struct serve_model *model = xcalloc(1, sizeof(*model));
	const struct net *net;

	atomic_init(&model->users, 1);
	memcpy(model->name, entry->name, sizeof(model->name));
	model->version = version;
	snprintf(model->version_text, sizeof(model->version_text), "%d", version);
	TRY(checkpoint_read(entry->path, &model->predictor.from, err));
	net = model->predictor.from.net;
	model->input = (struct image_size){ (uint32_t)net->input.dim[0],
		(uint32_t)net->input.dim[1], (uint32_t)net->input.dim[2] };
	model->pixels = shape_count(&net->input);
	model->classes = net->classes;
	make_key(&model->predictor.from, model->key);
	choose_sizes(model, m->use.batch);
	if (open_engine(m, entry->path, model, model->n_engines - 1, err) < 0)
		return mlr_wrap(err, "'%s'", entry->path);
	*ret = take_ptr(&model);
	return 0;
}

struct serve_models *serve_models_new(const struct predictor_options *use)
{
	struct serve_models *m = xcalloc(1, sizeof(*m));

	assert(use->batch > 0);
	m->use = *use;
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

void serve_models_free(struct serve_models **m)
{
	if (!*m)
		return;
	for (size_t i = 0; i < (*m)->n; i++) {
		free((*m)->v[i].path);
		serve_model_drop(&(*m)->v[i].now);
	}
	free((*m)->v);
	pthread_mutex_destroy(&(*m)->lock);
	free(*m);
	*m = NULL;
}

/* The file's name without directory and the last ending. */
static void name_of_path(const char *path, char name[SERVE_NAME_MAX])
{
	const char *base = path_base(path), *dot = strrchr(base, '.');
	size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);

	snprintf(name, SERVE_NAME_MAX, "%.*s", (int)n, base);
}

int serve_models_add(
	struct serve_models *m, const struct serve_model_wish *wish, struct mlr_error *err)
{
	struct entry e = { .path = (char *)wish->path };

	if (wish->name && strlen(wish->name) < SERVE_NAME_MAX)
		memcpy(e.name, wish->name, strlen(wish->name));
	else if (!wish->name)
		name_of_path(wish->path, e.name);
	if (!is_name(e.name)) {
		mlr_fail(err, EINVAL, "'%s' cannot be a model's name",
			wish->name && *wish->name ? wish->name : wish->path);
		return mlr_hint(err,
			"--checkpoint NAME=FILE names it: up to %d letters, digits and '_-.'",
			SERVE_NAME_MAX - 1);
	}
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->v[i].name, e.name) == 0) {
			mlr_fail(err, EEXIST, "two models are called '%s'", e.name);
			return mlr_hint(err, "--checkpoint NAME=FILE gives one another name");
		}
	TRY(open_model(m, &e, 1, &e.now, err));
	e.path = xstrdup(wish->path);
	m->v = xgrow(m->v, m->n, sizeof(*m->v));
	m->v[m->n++] = e;
	return 0;
}

static int complete(const struct serve_models *m, const struct entry *e, struct serve_model *model,
	struct mlr_error *err)
{
	for (int i = 0; i + 1 < model->n_engines; i++) {
		int r = atomic_load(&model->engines[i]) ? 0
							: open_engine(m, e->path, model, i, err);

		if (r < 0)
			return mlr_wrap(err, "'%s'", e->path);
	}
	return 0;
}

int serve_models_complete(struct serve_models *m, struct mlr_error *err)
{
	for (size_t i = 0; i < m->n; i++)
		TRY(complete(m, &m->v[i], m->v[i].now, err));
	return 0;
}

int serve_models_reload(
	struct serve_models *m, void (*tell)(const struct mlr_error *err, const char *name))
{
	int failed = 0;

	for (size_t i = 0; i < m->n; i++) {
		struct entry *e = &m->v[i];
		struct mlr_error err = MLR_ERROR_INIT;
		struct serve_model *old = e->now, *model = NULL;

		if (open_model(m, e, old->version + 1, &model, &err) < 0 ||
			complete(m, e, model, &err) < 0) {
			serve_model_drop(&model);
			failed++;
			tell(&err, e->name);
			continue;
		}
		pthread_mutex_lock(&m->lock);
		e->now = model;
		pthread_mutex_unlock(&m->lock);
		serve_model_drop(&old);
	}
	return failed;
}

struct serve_model *serve_models_take(struct serve_models *m, const char *name, size_t len)
{
	struct serve_model *model = NULL;

	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < m->n && !model; i++)
		if (!name ||
			(strlen(m->v[i].name) == len && memcmp(m->v[i].name, name, len) == 0)) {
			model = m->v[i].now;
			atomic_fetch_add(&model->users, 1);
		}
	pthread_mutex_unlock(&m->lock);
	return model;
}

const char *serve_models_name(const struct serve_models *m, size_t n)
{
	return n < m->n ? m->v[n].name : NULL;
}

struct engine *serve_model_engine(struct serve_model *model, int rows)
{
	for (int i = 0; i + 1 < model->n_engines; i++) {
		struct engine *e = atomic_load(&model->engines[i]);

		if (e && rows <= model->sizes[i])
			return e;
	}
	return atomic_load(&model->engines[model->n_engines - 1]);
}
