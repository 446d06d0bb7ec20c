#include "model/state_dict.h"

#include "base/json.h"
#include "model/checkpoint.h"

/* --- the map ------------------------------------------------------------------- */

/* Find the module that the map sends to a layer; NULL: none. */
static const char *module_of(const json_t *map, const char *layer)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)map, key, value)
		if (json_is_string(value) && strcmp(json_string_value(value), layer) == 0)
			return key;
	return NULL;
}

static int check_map(const json_t *map, struct mlr_error *err)
{
	json_auto_t *sent = json_object(); /* from layers to modules */
	const char *key, *first;
	json_t *value;

	if (!json_is_object(map))
		return mlr_fail(err, EPROTO, "not an object");
	if (json_object_size(map) > STATE_DICT_MAP_ENTRIES_MAX)
		return mlr_fail(err, EPROTO, "%zu entries; %d are the limit", json_object_size(map),
			STATE_DICT_MAP_ENTRIES_MAX);
	json_object_foreach((json_t *)map, key, value) {
		if (!json_is_string(value) && !json_is_null(value))
			return mlr_fail(
				err, EPROTO, "'%s' has neither the name of a layer nor null", key);
		if (json_is_null(value))
			continue;
		first = json_string_value(json_object_get(sent, json_string_value(value)));
		if (first)
			return mlr_fail(err, EPROTO, "'%s' and '%s' are both sent to layer '%s'",
				first, key, json_string_value(value));
		json_object_set_new(sent, json_string_value(value), json_string(key));
	}
	return 0;
}

int state_dict_map_read(const char *path, json_t **ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	json_auto_t *map = NULL;
	json_error_t why;
	size_t len;

	if (file_read(AT_FDCWD, path, STATE_DICT_MAP_MAX, &text, &len, err) < 0)
		return mlr_wrap(err, "map");
	map = mlr_json_load(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!map)
		return mlr_fail(
			err, EPROTO, "map '%s': line %d: not JSON: %s", path, why.line, why.text);
	if (check_map(map, err) < 0)
		return mlr_wrap(err, "map '%s'", path);
	*ret = json_incref(map);
	return 0;
}

/* Does the map leave a module or a tensor out, by its name or that of a module around it? */
static int is_left_out(const json_t *map, const char *name)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)map, key, value) {
		size_t len = strlen(key);

		if (json_is_null(value) && strncmp(name, key, len) == 0 &&
			(name[len] == '\0' || name[len] == '.'))
			return 1;
	}
	return 0;
}

/* Return the index of the layer with parameters of that name, or -1. */
static int find_layer(const struct net *net, const char *name)
{
	for (size_t i = 0; i < net->n; i++)
		if (layer_has_params(&net->layers[i]) && strcmp(net->layers[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* --- modules ------------------------------------------------------------------- */

enum { UNMATCHED = -1, LEFT_OUT = -2, AMBIGUOUS = -3 };

struct module {
	char *name; /* owned */
	const struct tensor *parts[PARTS_OF_WEIGHTS];
	int layer; /* index of the layer that takes it, or one of the above */
};

struct taking {
	const struct net *net;
	const json_t *map;
	struct module *modules; /* [n], owned, in the natural order of their names */
	size_t n;
	struct module **of; /* [net->n] the module that a layer takes, or NULL; owned */
	struct state_dict_words *words;
};

static void taking_done(struct taking *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->modules[i].name);
	free(t->modules);
	free(t->of);
}

static int by_name(const void *a, const void *b)
{
	return strverscmp(((const struct module *)a)->name, ((const struct module *)b)->name);
}

/* Give a module the part that another of its name has. */
static void join(struct taking *t, struct module *to, struct module *m)
{
	for (int k = 0; k < PARTS_OF_WEIGHTS; k++) {
		if (m->parts[k] && to->parts[k])
			strv_addf(&t->words->problems, "tensors '%s' and '%s' are the same part",
				to->parts[k]->name, m->parts[k]->name);
		else if (m->parts[k])
			to->parts[k] = m->parts[k];
	}
	free(m->name);
}

/* Make one module of those with equal names, which stand side by side. */
static void join_equal(struct taking *t)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct module *m = &t->modules[i];

		if (kept && strcmp(t->modules[kept - 1].name, m->name) == 0) {
			join(t, &t->modules[kept - 1], m);
		} else {
			t->modules[kept++] = *m;
		}
	}
	t->n = kept;
}

/* "a.b.weight" is the part "weight" of the module "a.b". */
static void add_tensor(struct taking *t, const struct tensor *tensor)
{
	const char *dot = strrchr(tensor->name, '.'), *word = dot ? dot + 1 : tensor->name;
	auto_free char *name = xstrndup(tensor->name, dot ? (size_t)(dot - tensor->name) : 0);
	struct module m = { .layer = is_left_out(t->map, name) ? LEFT_OUT : UNMATCHED };
	int part = 0;

	if (strcmp(word, "num_batches_tracked") == 0 ||
		(m.layer == UNMATCHED && is_left_out(t->map, tensor->name)))
		return;
	while (part < PARTS_OF_WEIGHTS && strcmp(part_words[part], word) != 0)
		part++;
	if (part < PARTS_OF_WEIGHTS)
		m.parts[part] = tensor;
	else if (m.layer == UNMATCHED)
		strv_addf(&t->words->problems, "tensor '%s' is of no kind that layers have",
			tensor->name);
	m.name = take_ptr(&name);
	t->modules[t->n++] = m;
}

static void read_modules(struct taking *t, const struct safetensors *st)
{
	t->modules = xcalloc(st->n + 1, sizeof(*t->modules));
	for (size_t i = 0; i < st->n; i++)
		add_tensor(t, &st->tensors[i]);
	qsort(t->modules, t->n, sizeof(*t->modules), by_name);
	join_equal(t);
}

static int is_free(const struct module *m)
{
	return m->layer == UNMATCHED || m->layer == AMBIGUOUS;
}

static void match(struct taking *t, struct module *m, int layer)
{
	m->layer = layer;
	t->of[layer] = m;
}

/* --- matching ------------------------------------------------------------------ */

static int has_name(const struct taking *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->modules[i].name, name) == 0)
			return 1;
	return 0;
}

/* Has the file the module, or one within it? */
static int has_within(const struct safetensors *st, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < st->n; i++)
		if (strncmp(st->tensors[i].name, name, len) == 0 &&
			(st->tensors[i].name[len] == '.' || st->tensors[i].name[len] == '\0'))
			return 1;
	return 0;
}

static void match_by_map(struct taking *t, const struct safetensors *st)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)t->map, key, value) {
		const char *layer = json_string_value(value);
		int at = layer ? find_layer(t->net, layer) : -1;

		if (layer ? !has_name(t, key) : !has_within(st, key))
			strv_addf(&t->words->problems, "the map's '%s' is not in the file", key);
		if (layer && at < 0)
			strv_addf(&t->words->problems,
				"the map sends '%s' to '%s', which is no layer with weights", key,
				layer);
		for (size_t i = 0; at >= 0 && i < t->n; i++)
			if (strcmp(t->modules[i].name, key) == 0)
				match(t, &t->modules[i], at);
	}
}

static void match_by_name(struct taking *t)
{
	for (size_t i = 0; i < t->n; i++) {
		int at = find_layer(t->net, t->modules[i].name);

		if (at >= 0 && is_free(&t->modules[i]) && !t->of[at])
			match(t, &t->modules[i], at);
	}
}

static int same_shape(const struct shape *a, const struct shape *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* The tensors of a module that a layer needs. */
struct needs {
	int is[PARTS_OF_WEIGHTS];
	struct shape shape[PARTS_OF_WEIGHTS];
};

static struct needs needs_of(const struct layer *l)
{
	float *none[BLOCKS] = { NULL };
	struct needs needs = { 0 };
	char name[PART_NAME_SIZE];
	struct tensor want;

	for (int k = 0; k < PARTS_OF_WEIGHTS; k++) {
		needs.is[k] = part_of(l, k, 0, none, name, &want);
		if (needs.is[k])
			needs.shape[k] = want.shape;
	}
	return needs;
}

/* Are the module's tensors exactly these? */
static int fits(const struct module *m, const struct needs *needs)
{
	for (int k = 0; k < PARTS_OF_WEIGHTS; k++)
		if (needs->is[k] != (m->parts[k] != NULL) ||
			(needs->is[k] && !same_shape(&needs->shape[k], &m->parts[k]->shape)))
			return 0;
	return 1;
}

static int need_the_same(const struct layer *a, const struct layer *b)
{
	struct shape of_a = layer_weight_shape(a), of_b = layer_weight_shape(b);

	return same_shape(&of_a, &of_b) && a->biases == b->biases && a->states == b->states;
}

/* Are two names equal but for the numbers in them? */
static int same_but_numbers(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			a += strspn(a, "0123456789");
			b += strspn(b, "0123456789");
		} else if (*a++ != *b++) {
			return 0;
		}
	}
	return *a == *b;
}

/* The modules that may be a layer's by their shapes. */
struct candidates {
	struct module *first;
	size_t n;
	int in_order; /* their names differ in numbers alone */
	struct strv names;
};

static struct candidates candidates_for(const struct taking *t, const struct needs *needs)
{
	struct candidates c = { .in_order = 1 };

	for (size_t i = 0; i < t->n; i++) {
		struct module *m = &t->modules[i];

		if (!is_free(m) || !fits(m, needs))
			continue;
		c.first = c.n++ ? c.first : m;
		c.in_order = c.in_order && same_but_numbers(c.first->name, m->name);
		strv_addf(&c.names, "'%s'", m->name);
	}
	return c;
}

static void tell_missing(struct taking *t, const struct layer *l)
{
	struct shape shape = layer_weight_shape(l);
	char text[SHAPE_TEXT_MAX];

	strv_addf(&t->words->problems,
		"layer '%s' needs a weight of %s %s bias%s: no module has them", l->name,
		shape_text(&shape, text), l->biases ? "and a" : "without",
		l->states ? " and statistics" : "");
}

static void tell_ambiguous(struct taking *t, const struct layer *l, const struct needs *needs,
	const struct candidates *c)
{
	auto_free char *names = strv_join_within(&c->names, 300, ", ");

	strv_addf(&t->words->problems,
		"layer '%s': %zu modules have its shapes, and their names do not tell: %s", l->name,
		c->n, names);
	for (size_t i = 0; i < t->n; i++)
		if (t->modules[i].layer == UNMATCHED && fits(&t->modules[i], needs))
			t->modules[i].layer = AMBIGUOUS;
}

static void match_by_shape(struct taking *t)
{
	for (size_t i = 0; i < t->net->n; i++) {
		const struct layer *l = &t->net->layers[i];
		struct needs needs;
		struct candidates c;
		size_t alike = 0;

		if (!layer_has_params(l) || t->of[i])
			continue;
		for (size_t k = 0; k < t->net->n; k++)
			alike += layer_has_params(&t->net->layers[k]) && !t->of[k] &&
				need_the_same(l, &t->net->layers[k]);
		needs = needs_of(l);
		c = candidates_for(t, &needs);
		if (c.n == 0)
			tell_missing(t, l);
		else if (c.n == alike && c.in_order && c.first->layer == UNMATCHED)
			match(t, c.first, (int)i);
		else
			tell_ambiguous(t, l, &needs, &c);
		strv_done(&c.names);
	}
}

/* --- taking -------------------------------------------------------------------- */

static void take_part(struct taking *t, const struct layer *l, const struct module *m, int part,
	float *const blocks[BLOCKS])
{
	const struct tensor *got = m->parts[part];
	struct mlr_error why = MLR_ERROR_INIT;
	char name[PART_NAME_SIZE], a[SHAPE_TEXT_MAX], b[SHAPE_TEXT_MAX];
	struct strv *problems = &t->words->problems;
	struct tensor want;

	if (!part_of(l, part, 0, blocks, name, &want)) {
		if (got)
			strv_addf(problems, "tensor '%s': layer '%s' has no %s", got->name, l->name,
				part_words[part]);
		return;
	}
	if (!got) {
		strv_addf(problems, "module '%s' has no %s, which layer '%s' needs", m->name,
			part_words[part], l->name);
		return;
	}
	if (!same_shape(&got->shape, &want.shape)) {
		strv_addf(problems, "tensor '%s' is %s where layer '%s' needs %s", got->name,
			shape_text(&got->shape, a), l->name, shape_text(&want.shape, b));
		return;
	}
	want.name = got->name;
	if (tensor_floats(got, (float *)want.data, &why) < 0 || part_check(&want, part, &why) < 0)
		strv_add(problems, why.text);
}

static void take_layer(struct taking *t, size_t i, float *const blocks[BLOCKS])
{
	const struct layer *l = &t->net->layers[i];
	const struct module *m = t->of[i];

	if (!m)
		return;
	strv_addf(&t->words->matches, "%s <- %s", l->name, m->name);
	for (int part = 0; part < PARTS_OF_WEIGHTS; part++)
		take_part(t, l, m, part, blocks);
}

static void tell_unmatched(struct taking *t, const struct module *m)
{
	char text[SHAPE_TEXT_MAX];

	for (int k = 0; k < PARTS_OF_WEIGHTS; k++)
		if (m->parts[k])
			strv_addf(&t->words->problems, "tensor '%s', %s, belongs to no layer",
				m->parts[k]->name, shape_text(&m->parts[k]->shape, text));
}

int state_dict_take(const struct safetensors *st, const struct net *net, const json_t *map,
	float *params, float *states, struct state_dict_words *words, struct mlr_error *err)
{
	auto_call(taking_done) struct taking t = { .net = net, .map = map, .words = words };
	float *blocks[BLOCKS] = { params, states };

	t.of = xcalloc(net->n, sizeof(*t.of));
	read_modules(&t, st);
	match_by_map(&t, st);
	match_by_name(&t);
	match_by_shape(&t);
	for (size_t i = 0; i < net->n; i++)
		take_layer(&t, i, blocks);
	for (size_t i = 0; i < t.n; i++)
		if (t.modules[i].layer == UNMATCHED)
			tell_unmatched(&t, &t.modules[i]);
	if (!words->problems.n)
		return 0;
	return mlr_fail(err, EPROTO, "its tensors are not those of network '%s'", net->name);
}

/* --- writing ------------------------------------------------------------------- */

/* Check that the map sends modules to layers, and gives no layer another's name. */
static int check_names(const struct net *net, const json_t *map, struct mlr_error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)map, key, value) {
		const char *layer = json_string_value(value);
		int other = find_layer(net, key);

		if (layer && find_layer(net, layer) < 0)
			return mlr_fail(err, EINVAL,
				"the map sends '%s' to '%s', which is no layer with weights", key,
				layer);
		if (layer && other >= 0 && !module_of(map, net->layers[other].name))
			return mlr_fail(err, EINVAL,
				"the map gives layer '%s' the name of layer '%s', for which it has "
				"no name",
				layer, key);
	}
	return 0;
}

int state_dict_build(const struct net *net, const json_t *map, float *params, float *states,
	char **ret, size_t *len, struct mlr_error *err)
{
	float *blocks[BLOCKS] = { params, states };
	auto_free struct tensor *tensors = xcalloc(net->n * PARTS_OF_WEIGHTS, sizeof(*tensors));
	auto_strv struct strv names = STRV_INIT;
	char digest[PARTS_DIGEST_SIZE];
	/* Transformers and others look for the first in PyTorch's files. */
	struct metadata meta[] = { { (char *)"format", (char *)"pt" },
		{ (char *)"weights", digest } };
	struct safetensors st = { tensors, 0, meta, ARRAY_LEN(meta) };

	TRY(check_names(net, map, err));
	parts_digest(net, blocks, digest);
	for (size_t i = 0; i < net->n * PARTS_OF_WEIGHTS; i++) {
		const struct layer *l = &net->layers[i % net->n];
		const char *mapped = module_of(map, l->name), *module = mapped ? mapped : l->name;
		int part = (int)(i / net->n);
		char name[PART_NAME_SIZE];

		if (!part_of(l, part, 0, blocks, name, &tensors[st.n]))
			continue;
		/* a model that is one module has "weight" */
		strv_addf(&names, "%s%s%s", module, *module ? "." : "", part_words[part]);
		tensors[st.n++].name = names.v[names.n - 1];
	}
	return safetensors_build(&st, ret, len, err);
}
