#include "model/net_file.h"

#include "base/json.h"
#include "base/record.h"
#include "model/layer_file.h"

#include <math.h>

#define SUFFIX     ".json"
#define PLACES_MAX 4

/* --- finding ---------------------------------------------------------------------- */

static int is_path(const char *name)
{
	size_t len = strlen(name), end = strlen(SUFFIX);

	return strchr(name, '/') || (len > end && strcmp(name + len - end, SUFFIX) == 0);
}

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
		size_t len = strlen(entry->d_name), end = strlen(SUFFIX);
		auto_free char *name = NULL;

		if (len <= end || strcmp(entry->d_name + len - end, SUFFIX) != 0)
			continue;
		name = xstrndup(entry->d_name, len - end);
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

	if (is_path(name)) {
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
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	size_t len = strlen(base), end = strlen(SUFFIX);
	json_t *text;

	if (len > end && strcmp(base + len - end, SUFFIX) == 0)
		len -= end;
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

static int make_layers(const json_t *array, const struct layer_wish *wish, struct layer *layers,
	enum layer_init *inits, size_t n, struct mlr_error *err)
{
	struct layer_names names = { { 0 } };

	for (size_t i = 0; i < n; i++) {
		TRY(layer_parse(array, i, wish, &names, layers, &inits[i], err));
	}
	return 0;
}

static int make_net(const char *name, const struct shape *input, const json_t *array,
	const struct net_wish *wish, struct net **ret, struct mlr_error *err)
{
	const struct layer_wish layer_wish = { wish->classes, wish->dropout };
	size_t n = json_array_size(array);
	auto_free struct layer *layers = xcalloc(n, sizeof(*layers));
	auto_free enum layer_init *inits = xcalloc(n, sizeof(*inits));
	auto_call(net_free) struct net *net = NULL;
	int r;

	if ((r = make_layers(array, &layer_wish, layers, inits, n, err)) < 0 ||
		(r = net_new(name, *input, layers, n, &net, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		net->layers[i].sigma = layer_init_sigma(&net->layers[i], inits[i]);
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

#define AT(member) RECORD_AT(struct description, member)

static const struct record_row rows[] = {
	{ "name", RECORD_CHARS, AT(name) },
	{ "about", RECORD_CHARS, AT(about) },
	{ "input", RECORD_JSON, AT(input) },
	{ "layers", RECORD_JSON, AT(layers) },
	{ "train", RECORD_JSON, AT(train) },
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
