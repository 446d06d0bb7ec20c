#include "model/net_file.h"

#include "base/json.h"
#include "base/record.h"
#include "base/spelling.h"

#include <math.h>

/* --- a layer: an element of "layers" ----------------------------------------------------- */

/* The distribution of initial weights. All but INIT_NORMAL depend on the layer's shapes. */
enum layer_init { INIT_NORMAL, INIT_HE, INIT_XAVIER, INIT_ZERO };

/* Counts layers of each kind, to name those without a name: "relu3". */
struct layer_names {
	int used[LAYER_KINDS];
};

/* A layer as its description has it. */
struct described {
	struct layer l; /* outputs, size and pad: UNSAID or SAME until all keys are read */
	enum layer_init init;
	char from[LAYER_NAME_MAX], with[LAYER_NAME_MAX];
};

enum { UNSAID = -1, SAME = -2 };

#define AT(member) RECORD_AT(struct described, member)

/* --- keys with rules of their own ------------------------------------------------- */

static json_t *write_kind(const void *from)
{
	return json_string(layer_kind_name(((const struct described *)from)->l.kind));
}

static int read_outputs(const struct record_reader *r, const json_t *v, void *to)
{
	static const struct record_row row = { "outputs", RECORD_NUMBER, AT(l.outputs) };
	const struct net_wish *wish = r->ctx;
	struct described *d = to;

	if (!json_is_string(v))
		return record_value(r, &row, v, to);
	if (strcmp(json_string_value(v), "classes") != 0)
		return record_expected(r, "a whole number or \"classes\"", v);
	if (wish->classes < 1) {
		record_wrong(r, "it is \"classes\", but how many is not known");
		return mlr_hint(r->err, "give the data set, --classes, or a number in its place");
	}
	d->l.outputs = wish->classes;
	return 0;
}

static json_t *write_outputs(const void *from)
{
	return json_integer(((const struct described *)from)->l.outputs);
}

static const struct record_row bias_row = { "bias", RECORD_REAL, AT(l.bias), .least = -1e6,
	.most = 1e6 };

/* The initial value, or false for no biases. */
static int read_bias(const struct record_reader *r, const json_t *v, void *to)
{
	if (json_is_number(v))
		return record_value(r, &bias_row, v, to);
	if (!json_is_false(v))
		return record_expected(r, "a number, what biases begin as, or false for none", v);
	((struct described *)to)->l.no_bias = 1;
	return 0;
}

static json_t *write_bias(const void *from)
{
	return ((const struct described *)from)->l.no_bias ? json_false()
							   : record_write_value(&bias_row, from);
}

static const struct record_row normal_rows[] = {
	{ "normal", RECORD_REAL, AT(l.sigma), .most = 1e6, .flags = RECORD_MUST },
	{ NULL },
};

static int read_init(const struct record_reader *r, const json_t *v, void *to)
{
	static const char *const words[] = { "he", "xavier", "zero" };
	struct described *d = to;
	int which;

	if (json_is_object(v)) {
		d->init = INIT_NORMAL;
		return record_read(r, normal_rows, v, to);
	}
	which = record_word(r, words, ARRAY_LEN(words), v);
	d->init = which == 0 ? INIT_HE : which == 1 ? INIT_XAVIER : INIT_ZERO;
	return which < 0 ? which : 0;
}

static json_t *write_init(const void *from)
{
	return record_write(normal_rows, from);
}

static int read_pad(const struct record_reader *r, const json_t *v, void *to)
{
	static const struct record_row row = { "pad", RECORD_NUMBER, AT(l.pad) };
	const char *word = json_string_value(v);
	struct described *d = to;

	if (!word)
		return record_value(r, &row, v, to);
	d->l.pad = strcmp(word, "same") == 0 ? SAME : 0;
	return d->l.pad == SAME || strcmp(word, "valid") == 0
		? 0
		: record_expected(r, "a whole number, \"same\" or \"valid\"", v);
}

static json_t *write_pad(const void *from)
{
	return json_integer(((const struct described *)from)->l.pad);
}

/* Batch norm's statistics are those of all ranks, as PyTorch's SyncBatchNorm has them, or else of
 * each rank's rows, as its BatchNorm2d in DistributedDataParallel. */
static int read_sync(const struct record_reader *r, const json_t *v, void *to)
{
	((struct described *)to)->l.own_rows = json_is_false(v);
	return json_is_boolean(v)
		? 0
		: record_expected(r,
			  "true, to normalise over all ranks, or false, over each rank's rows", v);
}

static json_t *write_sync(const void *from)
{
	return ((const struct described *)from)->l.own_rows ? json_false() : NULL;
}

/* --- kinds ------------------------------------------------------------------------ */

#define KIND                RECORD_OWN, .write = write_kind
#define NAME                RECORD_CHARS, AT(l.name)
#define FROM                RECORD_CHARS, AT(from)
#define OUTPUTS             RECORD_OWN, .read = read_outputs, .write = write_outputs
#define WHOLE(member)       RECORD_NUMBER, AT(l.member)
#define REAL(member, limit) RECORD_REAL, AT(l.member), .most = (limit)
#define INIT                RECORD_OWN, .read = read_init, .write = write_init
#define BIAS                RECORD_OWN, .read = read_bias, .write = write_bias

static const struct record_row head_rows[] = { { "name", NAME }, { NULL } };
static const struct record_row plain_rows[] = { { "kind", KIND }, { "name", NAME },
	{ "from", FROM }, { NULL } };
static const struct record_row conv_rows[] = { { "kind", KIND }, { "name", NAME }, { "from", FROM },
	{ "outputs", OUTPUTS }, { "size", WHOLE(size) }, { "stride", WHOLE(stride) },
	{ "pad", RECORD_OWN, .read = read_pad, .write = write_pad }, { "init", INIT },
	{ "bias", BIAS }, { "decay", REAL(decay, 1e6) }, { NULL } };
static const struct record_row dense_rows[] = { { "kind", KIND }, { "name", NAME },
	{ "from", FROM }, { "outputs", OUTPUTS }, { "init", INIT }, { "bias", BIAS },
	{ "decay", REAL(decay, 1e6) }, { NULL } };
static const struct record_row pool_rows[] = { { "kind", KIND }, { "name", NAME }, { "from", FROM },
	{ "size", WHOLE(size) }, { "stride", WHOLE(stride) }, { NULL } };
static const struct record_row dropout_rows[] = { { "kind", KIND }, { "name", NAME },
	{ "from", FROM }, { "rate", REAL(rate, 1) }, { NULL } };
static const struct record_row batchnorm_rows[] = { { "kind", KIND }, { "name", NAME },
	{ "from", FROM }, { "epsilon", REAL(epsilon, 1) }, { "momentum", REAL(momentum, 1) },
	{ "decay", REAL(decay, 1e6) },
	{ "sync", RECORD_OWN, .read = read_sync, .write = write_sync }, { NULL } };
static const struct record_row add_rows[] = { { "kind", KIND }, { "name", NAME }, { "from", FROM },
	{ "with", RECORD_CHARS, AT(with) }, { NULL } };

/* In the order of enum layer_kind. */
static const struct kind {
	const struct record_row *rows;
	struct described defaults;
} kinds[LAYER_KINDS] = {
	[LAYER_CONV] = { conv_rows,
		{ { .outputs = UNSAID, .size = UNSAID, .stride = 1 }, .init = INIT_HE } },
	[LAYER_RELU] = { plain_rows, { .init = INIT_ZERO } },
	[LAYER_MAXPOOL] = { pool_rows,
		{ { .size = UNSAID, .stride = UNSAID }, .init = INIT_ZERO } },
	[LAYER_DENSE] = { dense_rows, { { .outputs = UNSAID }, .init = INIT_HE } },
	[LAYER_DROPOUT] = { dropout_rows, { { .rate = 0.5f }, .init = INIT_ZERO } },
	[LAYER_AVGPOOL] = { pool_rows,
		{ { .size = UNSAID, .stride = UNSAID }, .init = INIT_ZERO } },
	[LAYER_GLOBALPOOL] = { plain_rows, { .init = INIT_ZERO } },
	[LAYER_BATCHNORM] = { batchnorm_rows,
		{ { .epsilon = 1e-5f, .momentum = 0.1f }, .init = INIT_ZERO } },
	[LAYER_ADD] = { add_rows, { .init = INIT_ZERO } },
};

/* --- reading ---------------------------------------------------------------------- */

static int read_kind(const struct record_reader *r, const json_t *object, enum layer_kind *ret)
{
	const char *words[LAYER_KINDS];
	const json_t *v = json_object_get(object, "kind");
	int which;

	for (size_t i = 0; i < LAYER_KINDS; i++)
		words[i] = layer_kind_name((enum layer_kind)i);
	if (!v)
		return record_wrong(r, "kind: missing: conv, relu, maxpool, …");
	which = record_word(r, words, LAYER_KINDS, v);
	if (which < 0)
		return mlr_wrap(r->err, "kind");
	*ret = (enum layer_kind)which;
	return 0;
}

static int is_given(const json_t *array, const char *name)
{
	const json_t *o;
	size_t k;

	json_array_foreach((json_t *)array, k, o) {
		const char *s = json_string_value(json_object_get(o, "name"));

		if (s && strcmp(s, name) == 0)
			return 1;
	}
	return 0;
}

/* Make a name of the kind and the layer's number among its kind, or the next unused number. */
static void make_name(
	const json_t *array, struct layer_names *names, enum layer_kind kind, char *name)
{
	do
		snprintf(name, LAYER_NAME_MAX, "%s%d", layer_kind_name(kind), ++names->used[kind]);
	while (is_given(array, name));
}

/* Find the earlier layer of this name. */
static int find_layer(const struct record_reader *r, const struct layer *layers, size_t n,
	const char *key, const char *name, int *ret)
{
	struct spelling near = spelling_of(name, strlen(name));

	if (strcmp(name, "input") == 0) {
		*ret = LAYER_INPUT;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(layers[i].name, name) == 0) {
			*ret = (int)i;
			return 0;
		}
		spelling_try(&near, layers[i].name);
	}
	record_wrong(r, "'%s' is '%.40s', but no layer before it has that name", key, name);
	return near.near ? mlr_hint(r->err, "is '%s' meant?", near.near) : -EINVAL;
}

/* Settle what depends on several keys, or on earlier layers. */
static int settle(
	const struct record_reader *r, const struct layer *layers, size_t i, struct described *d)
{
	const struct net_wish *wish = r->ctx;
	struct layer *l = &d->l;

	if (l->outputs == UNSAID)
		return record_wrong(r, "'outputs' is missing: how many %s it has",
			l->kind == LAYER_CONV ? "filters" : "units");
	if (l->size == UNSAID)
		return record_wrong(r, "'size' is missing: how many pixels wide and high");
	if (l->pad == SAME && l->size % 2 == 0)
		return record_wrong(
			r, "'pad' is \"same\", which needs an odd 'size', not %d", l->size);
	if (l->pad == SAME)
		l->pad = (l->size - 1) / 2;
	if (l->stride == UNSAID)
		l->stride = l->size;
	if (l->kind == LAYER_DROPOUT && wish->dropout >= 0)
		l->rate = (float)wish->dropout;
	if (l->kind == LAYER_ADD && !*d->with)
		return record_wrong(r, "'with' is missing: the layer whose output is added");
	l->from = (int)i - 1; /* the one before it, or LAYER_INPUT */
	if (*d->from)
		TRY(find_layer(r, layers, i, "from", d->from, &l->from));
	return *d->with ? find_layer(r, layers, i, "with", d->with, &l->with) : 0;
}

/*
 * Read layer i of a description into layers[i].
 *
 *   array   all of "layers": a generated name avoids those that users gave
 *   layers  [i] the earlier ones, which it may read by name
 *   init    set to the distribution of its weights, for init_sigma()
 *
 * Returns 0, or -EINVAL with "layer 3 'conv2': …".
 */
static int parse_layer(const json_t *array, size_t i, const struct net_wish *wish,
	struct layer_names *names, struct layer *layers, enum layer_init *init,
	struct mlr_error *err)
{
	const json_t *object = json_array_get(array, i);
	struct record_reader r = {
		.manner = RECORD_NO_NULL, .ctx = (void *)wish, .err = err, .code = EINVAL
	};
	struct described head = { .l = { 0 } }, d;

	if (!json_is_object(object))
		return mlr_fail(err, EINVAL, "layer %zu must be an object, {...}", i + 1);
	if (read_kind(&r, object, &head.l.kind) < 0 ||
		record_read(&r, head_rows, object, &head) < 0)
		return mlr_wrap(err, "layer %zu", i + 1);
	if (*head.l.name)
		names->used[head.l.kind]++;
	else
		make_name(array, names, head.l.kind, head.l.name);

	d = kinds[head.l.kind].defaults;
	d.l.kind = head.l.kind;
	strcpy(d.l.name, head.l.name);
	r.manner |= RECORD_ONLY;
	if (record_read(&r, kinds[d.l.kind].rows, object, &d) < 0 || settle(&r, layers, i, &d) < 0)
		return mlr_wrap(err, "layer %zu '%s'", i + 1, d.l.name);
	layers[i] = d.l;
	*init = d.init;
	return 0;
}

/* Compute the standard deviation of a layer's initial weights; its shapes must be known. */
static float init_sigma(const struct layer *l, enum layer_init init)
{
	double kernel = l->kind == LAYER_CONV ? (double)l->size * l->size : 1;
	double in = l->weights ? (double)l->weights / l->outputs : 1; /* fan-in */

	if (init == INIT_HE)
		return (float)sqrt(2 / in);
	if (init == INIT_XAVIER)
		return (float)sqrt(2 / (in + l->outputs * kernel));
	return init == INIT_NORMAL ? l->sigma : 0;
}

static const char *name_of(const struct layer *layers, int which)
{
	return which < 0 ? "input" : layers[which].name;
}

/* Describe layers[i] with every value, as parse_layer() reads it. The caller owns the result. */
static json_t *layer_json(const struct layer *layers, size_t i)
{
	const struct layer *l = &layers[i];
	struct described d = { .l = *l };

	strcpy(d.from, name_of(layers, l->from));
	strcpy(d.with, name_of(layers, l->with));
	return record_write(kinds[l->kind].rows, &d);
}

#define SUFFIX     ".json"
#define PLACES_MAX 4

/* --- finding ---------------------------------------------------------------------- */

/* List the directories that may hold mltrain's own descriptions, n of them, each to free(). */
static size_t list_places(char *places[PLACES_MAX])
{
	const char *env = getenv("MLTRAIN_NETS");
	auto_free char *self = realpath("/proc/self/exe", NULL);
	char *slash = self ? strrchr(self, '/') : NULL;
	size_t n = 0;

	if (env && *env)
		places[n++] = xstrdup(env);
	if (slash) {
		*slash = '\0';
		places[n++] = xasprintf("%s/nets", self);
		places[n++] = xasprintf("%s/../share/mltrain/nets", self);
	}
	places[n++] = xstrdup(NETSDIR);
	return n;
}

/* Add the names of a directory's descriptions. */
static void list_names(const char *dir, struct strv *names)
{
	auto_dir DIR *d = opendir(dir);
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		auto_free char *name = NULL;

		if (!path_ends(entry->d_name, SUFFIX))
			continue;
		name = xstrndup(entry->d_name, strlen(entry->d_name) - strlen(SUFFIX));
		if (!strv_has(names, name))
			strv_add(names, name);
	}
}

static void drop_places(char *places[PLACES_MAX], size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(places[i]);
}

struct strv net_file_names(void)
{
	struct strv names = STRV_INIT;
	char *places[PLACES_MAX];
	size_t n = list_places(places);

	for (size_t i = 0; i < n; i++)
		list_names(places[i], &names);
	drop_places(places, n);
	strv_sort(&names);
	return names;
}

static int not_found(const char *name, struct mlr_error *err)
{
	auto_strv struct strv names = net_file_names();
	auto_free char *list = strv_join(&names, names.n, ", ");

	mlr_fail(err, ENOENT, "no net '%s' came with mltrain, which has: %s", name,
		names.n ? list : "none; $MLTRAIN_NETS sets their directory");
	return mlr_hint(
		err, "a description of your own is given by its path: ./%s%s", name, SUFFIX);
}

int net_file_find(const char *name, char **ret, struct mlr_error *err)
{
	char *places[PLACES_MAX], *found = NULL;
	size_t n;

	if (strchr(name, '/') || path_ends(name, SUFFIX)) {
		*ret = xstrdup(name);
		return 0;
	}
	n = list_places(places);
	for (size_t i = 0; i < n && !found; i++) {
		auto_free char *path = xasprintf("%s/%s%s", places[i], name, SUFFIX);

		if (access(path, R_OK) == 0)
			found = take_ptr(&path);
	}
	drop_places(places, n);
	if (!found)
		return not_found(name, err);
	*ret = found;
	return 0;
}

/* --- reading ---------------------------------------------------------------------- */

/* Name a description without a name after its file. */
static void name_of_path(const char *path, char name[NET_NAME_MAX])
{
	const char *base = path_base(path);
	size_t len = strlen(base) - (path_ends(base, SUFFIX) ? strlen(SUFFIX) : 0);
	json_t *text;

	snprintf(name, NET_NAME_MAX, "%.*s", (int)(len < NET_NAME_MAX ? len : NET_NAME_MAX - 1),
		base);
	text = json_string(name);
	if (!text || !*name) /* readers would refuse a name that is not UTF-8 */
		strcpy(name, "net");
	json_decref(text);
}

static const char *const dims[] = { "channels", "height", "width" };

#define DIM(i) RECORD_NUMBER, .at = (i) * sizeof(int), .size = sizeof(int), .min = 1, .max = 65536
static const struct record_row input_rows[] = { { "channels", DIM(0) }, { "height", DIM(1) },
	{ "width", DIM(2) }, { NULL } };

/* Read "input": given values must match the images, others are taken from them. */
static int parse_input(const struct record_reader *r, const json_t *object,
	const struct net_wish *wish, struct shape *ret)
{
	int known[3] = { 0 };

	if (wish->input.rank == 3)
		memcpy(known, wish->input.dim, sizeof(known));
	*ret = shape3(known[0], known[1], known[2]);
	if (object)
		TRY(record_read(r, input_rows, object, ret->dim));
	for (int i = 0; i < 3; i++) {
		int v = ret->dim[i];

		if (known[i] && v != known[i] && !(wish->assumed & NET_ASSUMED_INPUT)) {
			record_wrong(r, "'%s' is %d, but the images have %d", dims[i], v, known[i]);
			return mlr_hint(r->err,
				"without '%s' the description takes what the data set has",
				dims[i]);
		}
		if (v == 0) {
			record_wrong(r, "'%s' is not said, and no images are known", dims[i]);
			return mlr_hint(
				r->err, "give the data set, or --input CHANNELSxHEIGHTxWIDTH");
		}
	}
	return 0;
}

static int make_layers(const json_t *array, const struct net_wish *wish, struct layer *layers,
	enum layer_init *inits, size_t n, struct mlr_error *err)
{
	struct layer_names names = { { 0 } };

	for (size_t i = 0; i < n; i++) {
		TRY(parse_layer(array, i, wish, &names, layers, &inits[i], err));
	}
	return 0;
}

static int make_net(const char *name, const struct shape *input, const json_t *array,
	const struct net_wish *wish, struct net **ret, struct mlr_error *err)
{
	size_t n = json_array_size(array);
	auto_free struct layer *layers = xcalloc(n, sizeof(*layers));
	auto_free enum layer_init *inits = xcalloc(n, sizeof(*inits));
	auto_call(net_free) struct net *net = NULL;
	int r;

	if ((r = make_layers(array, wish, layers, inits, n, err)) < 0 ||
		(r = net_new(name, *input, layers, n, &net, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		net->layers[i].sigma = init_sigma(&net->layers[i], inits[i]);
	if (wish->classes > net->classes && !(wish->assumed & NET_ASSUMED_CLASSES)) {
		mlr_fail(err, EINVAL, "its last layer has %d units, but there are %d classes",
			net->classes, wish->classes);
		return mlr_hint(err, "\"outputs\": \"classes\" takes as many as there are");
	}
	*ret = take_ptr(&net);
	return 0;
}

struct description {
	char name[NET_NAME_MAX], about[NET_ABOUT_MAX];
	const json_t *input, *layers, *train;
};

static const struct record_row rows[] = {
	{ "name", RECORD_CHARS, RECORD_AT(struct description, name) },
	{ "about", RECORD_CHARS, RECORD_AT(struct description, about) },
	{ "input", RECORD_JSON, RECORD_AT(struct description, input) },
	{ "layers", RECORD_JSON, RECORD_AT(struct description, layers) },
	{ "train", RECORD_JSON, RECORD_AT(struct description, train) },
	{ NULL },
};

static int parse_root(const json_t *root, const char *path, const struct net_wish *w,
	struct net **ret, struct recipe *recipe, struct mlr_error *err)
{
	const struct net_wish wish = w ? *w : (struct net_wish){ .dropout = -1 };
	const struct record_reader r = {
		.manner = RECORD_ONLY | RECORD_NO_NULL, .err = err, .code = EINVAL
	};
	struct description d = { "" };
	struct recipe got = RECIPE_INIT;
	struct shape input;

	name_of_path(path, d.name);
	TRY(record_read(&r, rows, root, &d));
	if (parse_input(&r, d.input, &wish, &input) < 0)
		return mlr_wrap(err, "input");
	if (!json_array_size(d.layers) || json_array_size(d.layers) > NET_LAYERS_MAX)
		return mlr_fail(
			err, EINVAL, "'layers' must be an array of 1 to %d layers", NET_LAYERS_MAX);
	if (d.train)
		TRY(recipe_parse(d.train, &got, err));
	TRY(make_net(d.name, &input, d.layers, &wish, ret, err));
	strcpy((*ret)->about, d.about);
	if (recipe)
		*recipe = got;
	return 0;
}

int net_parse(const char *text, size_t len, const char *path, const struct net_wish *wish,
	struct net **ret, struct recipe *recipe, struct mlr_error *err)
{
	json_auto_t *root = NULL;
	json_error_t why;

	if (len > NET_FILE_MAX)
		return mlr_fail(err, EFBIG, "net '%s': more than %zu bytes", path, NET_FILE_MAX);
	root = mlr_json_load(text, len, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return mlr_fail(err, EPROTO, "net '%s': line %d, column %d: %s", path, why.line,
			why.column, why.text);
	if (parse_root(root, path, wish, ret, recipe, err) == 0)
		return 0;
	mlr_wrap(err, "net '%s'", path);
	return err && strstr(err->text, "unknown key") && !mlr_hint_of(err)
		? mlr_hint(err, "mltrain-net(5) describes all keys")
		: -EINVAL;
}

int net_read(const char *name, const struct net_wish *wish, struct net **ret, struct recipe *recipe,
	struct mlr_error *err)
{
	auto_free char *path = NULL, *text = NULL;
	size_t len;

	TRY(net_file_find(name, &path, err));
	if (file_read(AT_FDCWD, path, NET_FILE_MAX, &text, &len, err) < 0)
		return mlr_wrap(err, "net '%s'", name);
	return net_parse(text, len, path, wish, ret, recipe, err);
}

char *net_text(const struct net *net)
{
	json_t *root = json_pack("{s:o, s:{s:i, s:i, s:i}, s:o}", "name", mlr_json_text(net->name),
		"input", "channels", net->input.dim[0], "height", net->input.dim[1], "width",
		net->input.dim[2], "layers", MLR_JSON_LIST(i, net->n, layer_json(net->layers, i)));

	if (root && net->about[0])
		json_object_set_new(root, "about", mlr_json_text(net->about));
	return mlr_json_print(root, JSON_COMPACT | JSON_REAL_PRECISION(15));
}
