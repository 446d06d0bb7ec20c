#include "gpu/profile.h"

#include "base/base.h"
#include "base/json.h"
#include "gpu/vendor.h"

/* Names of enumerations, indexed by value; NULL is JSON's null. */
static const char *const kinds[] = { [GPU_LIBRARY] = "library",
	[GPU_PROGRAM] = "program",
	[GPU_FIRMWARE] = "firmware",
	[GPU_SOCKET] = "socket",
	[GPU_DATA] = "data" };
/* Indexed by bit number. */
static const char *const capabilities[] = { "compute", "compat32", "graphics", "utility", "video",
	"display", "ngx" };
/* By name: error numbers depend on the architecture. */
static const char *const errors[] = { NULL, "EACCES", "EPERM", "ENXIO", "ENOENT" };
static const int error_numbers[] = { 0, EACCES, EPERM, ENXIO, ENOENT };

#define INT_LIMIT   0x7fffffff
#define PROFILE_MAX (16u << 20) /* bytes */

/* One object on its way to or from JSON: each function below codes one value in that direction. */
struct coder {
	json_t *o;
	int writes;
	struct mlr_error *err; /* of the first thing that is wrong when reading, as is r */
	int r;
};

static void wrong(struct coder *c, const char *key, const char *what)
{
	if (c->r == 0 && !c->writes)
		c->r = json_object_get(c->o, key)
			? mlr_fail(c->err, EPROTO, "'%s' is not %s", key, what)
			: mlr_fail(c->err, EPROTO, "'%s' is missing", key);
}

static int is_text(const json_t *v)
{
	return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

static void text_or_null(struct coder *c, const char *key, char **s)
{
	const json_t *v = json_object_get(c->o, key);

	if (c->writes)
		json_object_set_new(c->o, key, mlr_json_text(*s));
	else if (is_text(v))
		*s = xstrdup(json_string_value(v));
	else if (!json_is_null(v))
		wrong(c, key, "a text or null");
}

static void path_or_null(struct coder *c, const char *key, char **s)
{
	text_or_null(c, key, s);
	if (*s && **s != '/')
		wrong(c, key, "an absolute path or null");
}

/* Never NULL. */
static void path(struct coder *c, const char *key, char **s)
{
	text_or_null(c, key, s);
	if (!*s)
		*s = xstrdup("");
	if (**s != '/')
		wrong(c, key, "an absolute path");
}

static json_int_t number(struct coder *c, const char *key, json_int_t value, json_int_t max)
{
	const json_t *v = json_object_get(c->o, key);

	if (c->writes)
		json_object_set_new(c->o, key, json_integer(value));
	else if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= max)
		value = json_integer_value(v);
	else
		wrong(c, key, "a number in its range");
	return value;
}

static json_int_t number_or_null(
	struct coder *c, const char *key, json_int_t value, json_int_t max, json_int_t null)
{
	if (c->writes ? value != null : !json_is_null(json_object_get(c->o, key)))
		return number(c, key, value, max);
	if (c->writes)
		json_object_set_new(c->o, key, json_null());
	return null;
}

static int flag(struct coder *c, const char *key, int value)
{
	const json_t *v = json_object_get(c->o, key);

	if (c->writes)
		json_object_set_new(c->o, key, json_boolean(value));
	else if (!json_is_boolean(v))
		wrong(c, key, "true or false");
	return c->writes ? value : json_is_true(v);
}

/* The index of a word in a list, where NULL stands for null. */
static unsigned word(
	struct coder *c, const char *key, unsigned value, const char *const *words, size_t n)
{
	const json_t *v = json_object_get(c->o, key);
	const char *found = is_text(v) ? json_string_value(v) : NULL;

	if (c->writes) {
		json_object_set_new(c->o, key, mlr_json_text(words[value]));
		return value;
	}
	for (unsigned i = 0; i < n; i++)
		if (words[i] ? found && strcmp(found, words[i]) == 0 : json_is_null(v))
			return i;
	wrong(c, key, "a known word");
	return 0;
}

static enum gpu_vendor vendor(struct coder *c, enum gpu_vendor value)
{
	const char *names[GPU_VENDORS];

	for (int v = 0; v < GPU_VENDORS; v++)
		names[v] = gpu_vendors[v].name;
	return (enum gpu_vendor)word(c, "vendor", value, names, GPU_VENDORS);
}

static int error(struct coder *c, int value)
{
	unsigned i = 0;

	while (i < ARRAY_LEN(errors) && error_numbers[i] != value)
		i++;
	if (i == ARRAY_LEN(errors))
		i = 1;
	return error_numbers[word(c, "error", i, errors, ARRAY_LEN(errors))];
}

static void version(struct coder *c, const char *key, struct gpu_version *v)
{
	char buffer[GPU_VERSION_TEXT], *printed = buffer;
	auto_free char *read = NULL;

	if (c->writes)
		gpu_version_print(v, buffer);
	if (c->writes && !gpu_version_is_known(v))
		printed = NULL;
	text_or_null(c, key, c->writes ? &printed : &read);
	if (read && gpu_version_parse(read, v) < 0)
		wrong(c, key, "a version or null");
}

static void texts(struct coder *c, const char *key, struct strv *list)
{
	const json_t *v = json_object_get(c->o, key), *item;
	size_t i;

	if (c->writes) {
		json_object_set_new(c->o, key, mlr_json_texts(list));
		return;
	}
	if (!json_is_array(v))
		wrong(c, key, "an array");
	json_array_foreach((json_t *)v, i, item) {
		if (is_text(item))
			strv_add(list, json_string_value(item));
		else
			wrong(c, key, "an array of texts");
	}
}

static unsigned caps(struct coder *c, const char *key, unsigned bits)
{
	auto_strv struct strv words = STRV_INIT;
	unsigned known = 0;

	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (bits & 1u << i)
			strv_add(&words, capabilities[i]);
	texts(c, key, &words);
	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (strv_has(&words, capabilities[i])) {
			bits |= 1u << i;
			known++;
		}
	if (known != words.n)
		wrong(c, key, "an array of driver capabilities");
	return bits;
}

/*
 * Code an array; errors name the place: "gpus[1]: mig[0]: 'gi' is missing".
 *
 *   n     items to write
 *   item  codes owner's item i, or adds the one that it reads
 */
static void each(struct coder *c, const char *key, size_t n,
	void (*item)(struct coder *c, void *owner, size_t i), void *owner)
{
	json_t *list = c->writes ? json_array() : json_object_get(c->o, key);

	if (c->writes)
		json_object_set_new(c->o, key, list);
	else if (!json_is_array(list))
		wrong(c, key, "an array");
	else
		n = json_array_size(list);
	for (size_t i = 0; c->r == 0 && i < n; i++) {
		struct coder inner = { json_array_get(list, i), c->writes, c->err, 0 };

		if (c->writes)
			json_array_append_new(list, inner.o = json_object());
		if (json_is_object(inner.o))
			item(&inner, owner, i);
		else
			inner.r = mlr_fail(c->err, EPROTO, "not an object");
		if (inner.r < 0)
			c->r = mlr_wrap(c->err, "%s[%zu]", key, i);
	}
}

static void code_node(struct coder *c, struct gpu_node *n)
{
	path(c, "path", &n->path);
	n->major = (unsigned)number(c, "major", n->major, INT_LIMIT);
	n->minor = (unsigned)number(c, "minor", n->minor, INT_LIMIT);
	n->uid = (uid_t)number(c, "uid", n->uid, 0xffffffff);
	n->gid = (gid_t)number(c, "gid", n->gid, 0xffffffff);
	n->mode = (mode_t)number(c, "mode", n->mode, 07777);
	n->error = error(c, n->error);
}

/* null for a node without a path: the kernel lacks it. */
static void node_or_null(struct coder *c, const char *key, struct gpu_node *n)
{
	struct coder inner = { json_object_get(c->o, key), c->writes, c->err, 0 };

	if (c->writes)
		json_object_set_new(c->o, key, inner.o = n->path ? json_object() : json_null());
	if (json_is_object(inner.o) && c->r == 0)
		code_node(&inner, n);
	else if (!json_is_object(inner.o) && !json_is_null(inner.o))
		wrong(c, key, "an object or null");
	if (inner.r < 0)
		c->r = mlr_wrap(c->err, "%s", key);
}

struct nodes {
	struct gpu_node **v;
	size_t *n;
};

static void code_nodes_item(struct coder *c, void *owner, size_t i)
{
	struct nodes *list = owner;

	code_node(c, c->writes ? &(*list->v)[i] : gpu_node_add(list->v, list->n));
}

static void nodes(struct coder *c, const char *key, struct gpu_node **v, size_t *n)
{
	each(c, key, *n, code_nodes_item, &(struct nodes){ v, n });
}

static void code_mig(struct coder *c, void *owner, size_t i)
{
	struct gpu *g = owner;
	struct gpu_mig *part;

	if (!c->writes) {
		g->mig = xgrow(g->mig, g->n_mig, sizeof(*g->mig));
		g->mig[g->n_mig++] = (struct gpu_mig){ 0 };
	}
	part = &g->mig[i];
	part->gi = (unsigned)number(c, "gi", part->gi, INT_LIMIT);
	part->ci = (unsigned)number(c, "ci", part->ci, INT_LIMIT);
	text_or_null(c, "uuid", &part->uuid);
	path(c, "gi_access", &part->gi_access);
	path(c, "ci_access", &part->ci_access);
	node_or_null(c, "gi_node", &part->gi_node);
	node_or_null(c, "ci_node", &part->ci_node);
}

static void code_gpu(struct coder *c, void *owner, size_t i)
{
	struct gpu_machine *m = owner;
	struct gpu *g = c->writes ? &m->gpus[i] : gpu_machine_add_gpu(m);
	char *unknown = NULL;

	g->vendor = vendor(c, g->vendor);
	g->index = (int)number_or_null(c, "index", g->index, INT_LIMIT, -1);
	text_or_null(c, "bus_id", c->writes && !*g->bus_id ? &unknown : &g->bus_id);
	if (!g->bus_id)
		g->bus_id = xstrdup("");
	path_or_null(c, "proc_dir", &g->proc_dir);
	text_or_null(c, "uuid", &g->uuid);
	text_or_null(c, "model", &g->model);
	g->minor = (unsigned)number(c, "minor", g->minor, INT_LIMIT);
	node_or_null(c, "node", &g->node);
	nodes(c, "drm", &g->drm, &g->n_drm);
	each(c, "mig", g->n_mig, code_mig, g);
	g->memory = (uint64_t)number_or_null(c, "memory", (json_int_t)g->memory, INT64_MAX, 0);
	text_or_null(c, "brand", &g->brand);
	version(c, "arch", &g->arch);
}

static void code_file(struct coder *c, void *owner, size_t i)
{
	struct gpu_machine *m = owner;
	struct gpu_file *f = c->writes ? &m->files[i] : gpu_machine_add_file(m);

	f->kind = (enum gpu_file_kind)word(c, "kind", f->kind, kinds, ARRAY_LEN(kinds));
	f->vendor = vendor(c, f->vendor);
	f->caps = caps(c, "capabilities", f->caps);
	path(c, "path", &f->path);
	path_or_null(c, "target", &f->target);
	if (f->kind != GPU_LIBRARY && !f->target)
		wrong(c, "target", "an absolute path, which all but libraries have");
	f->bits = (int)number(c, "bits", f->bits, 64);
	text_or_null(c, "soname", &f->soname);
	text_or_null(c, "dev_link", &f->dev_link);
	version(c, "glibc", &f->glibc);
}

static void code_machine(struct coder *c, struct gpu_machine *m)
{
	m->driver = (enum gpu_driver)word(
		c, "driver", m->driver, gpu_driver_names, ARRAY_LEN(gpu_driver_names));
	text_or_null(c, "refused", &m->refused);
	text_or_null(c, "driver_root", &m->driver_root);
	text_or_null(c, "driver_text", &m->driver_text);
	version(c, "driver_version", &m->driver_version);
	version(c, "cuda", &m->cuda);
	m->is_open = flag(c, "open", m->is_open);
	each(c, "files", m->n_files, code_file, m);
	texts(c, "missing", &m->missing);
	each(c, "gpus", m->n_gpus, code_gpu, m);
	nodes(c, "nodes", &m->nodes, &m->n_nodes);
	nodes(c, "fabric", &m->fabric, &m->n_fabric);
	m->has_caps = flag(c, "has_caps", m->has_caps);
	texts(c, "warnings", &m->warnings);
}

json_t *gpu_machine_to_json(const struct gpu_machine *m)
{
	struct coder c = { json_object(), 1, NULL, 0 };

	code_machine(&c, (struct gpu_machine *)m); /* which writing leaves as it is */
	return c.o;
}

int gpu_machine_from_json(const json_t *j, struct gpu_machine *ret, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct coder c = { (json_t *)j, 0, err, 0 };

	if (!json_is_object(j))
		return mlr_fail(err, EPROTO, "not an object");
	code_machine(&c, &m);
	if (c.r < 0)
		return c.r;
	*ret = m;
	m = (struct gpu_machine)GPU_MACHINE_INIT;
	return 0;
}

static int read_profile(const json_t *j, struct gpu_machine *ret, struct mlr_error *err)
{
	const json_t *format = json_object_get(j, "format");
	const char *processors = json_string_value(json_object_get(j, "architecture"));
	int r;

	/* Later formats may have other keys than these two. */
	if (!json_is_integer(format) || !json_object_get(j, "mlrun")) {
		mlr_fail(err, EPROTO, "not a machine's profile");
		return mlr_hint(err, "mlrun profile -o FILE writes one");
	}
	if (json_integer_value(format) != GPU_PROFILE_FORMAT) {
		mlr_fail(err, ENOTSUP, "this profile has format %lld, this mlrun knows %d",
			(long long)json_integer_value(format), GPU_PROFILE_FORMAT);
		return mlr_hint(err, "record it again with this mlrun: mlrun profile -o FILE");
	}
	if (!json_object_get(j, "gpu"))
		return mlr_fail(err, EPROTO, "'gpu' is missing");
	r = gpu_machine_from_json(json_object_get(j, "gpu"), ret, err);
	if (r < 0)
		return mlr_wrap(err, "gpu");
	ret->processors = processors ? xstrdup(processors) : NULL;
	return 0;
}

int gpu_profile_read(const char *file, struct gpu_machine *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	json_error_t where;
	json_t *j;
	size_t len;
	int r;

	TRY(file_read(AT_FDCWD, file, PROFILE_MAX, &text, &len, err));
	j = json_loadb(text, len, 0, &where);
	r = j ? read_profile(j, ret, err)
	      : mlr_fail(err, EPROTO, "line %d: %s", where.line, where.text);
	json_decref(j);
	return r < 0 ? mlr_wrap(err, "'%s'", file) : 0;
}
