#include "gpu/profile.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "gpu/vendor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

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

/* --- to JSON -------------------------------------------------------------- */

static json_t *word_to_json(const char *word)
{
	return word ? json_string(word) : json_null();
}

static json_t *version_to_json(const struct gpu_version *v)
{
	char text[GPU_VERSION_TEXT];

	return gpu_version_is_known(v) ? json_string(gpu_version_print(v, text)) : json_null();
}

static json_t *caps_to_json(unsigned caps)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (caps & 1u << i)
			json_array_append_new(list, json_string(capabilities[i]));
	return list;
}

static json_t *file_to_json(const struct gpu_file *f)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "kind", kinds[f->kind],
		"vendor", gpu_vendors[f->vendor].name, "capabilities", caps_to_json(f->caps),
		"path", mlr_json_text(f->path), "target", mlr_json_text(f->target), "bits", f->bits,
		"soname", mlr_json_text(f->soname), "dev_link", mlr_json_text(f->dev_link), "glibc",
		version_to_json(&f->glibc));
}

static json_t *error_to_json(int error)
{
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (error_numbers[i] == error)
			return word_to_json(errors[i]);
	return json_string("EACCES");
}

/* null for a node without a path: the kernel lacks it. */
static json_t *node_to_json(const struct gpu_node *n)
{
	if (!n->path)
		return json_null();
	return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "path", mlr_json_text(n->path),
		"major", (json_int_t)n->major, "minor", (json_int_t)n->minor, "uid",
		(json_int_t)n->uid, "gid", (json_int_t)n->gid, "mode", (json_int_t)n->mode, "error",
		error_to_json(n->error));
}

static json_t *nodes_to_json(const struct gpu_node *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, node_to_json(&v[i]));
	return list;
}

static json_t *mig_to_json(const struct gpu_mig *g)
{
	return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "gi", (json_int_t)g->gi, "ci",
		(json_int_t)g->ci, "uuid", mlr_json_text(g->uuid), "gi_access",
		mlr_json_text(g->gi_access), "ci_access", mlr_json_text(g->ci_access), "gi_node",
		node_to_json(&g->gi_node), "ci_node", node_to_json(&g->ci_node));
}

static json_t *gpu_to_json(const struct gpu *g)
{
	json_t *mig = json_array();

	for (size_t i = 0; i < g->n_mig; i++)
		json_array_append_new(mig, mig_to_json(&g->mig[i]));
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
		"vendor", gpu_vendors[g->vendor].name, "index",
		g->index < 0 ? json_null() : json_integer(g->index), "bus_id",
		mlr_json_text(*g->bus_id ? g->bus_id : NULL), "proc_dir",
		mlr_json_text(g->proc_dir), "uuid", mlr_json_text(g->uuid), "model",
		mlr_json_text(g->model), "minor", (json_int_t)g->minor, "node",
		node_to_json(&g->node), "drm", nodes_to_json(g->drm, g->n_drm), "mig", mig,
		"memory", g->memory ? json_integer((json_int_t)g->memory) : json_null(), "brand",
		mlr_json_text(g->brand), "arch", version_to_json(&g->arch));
}

json_t *gpu_machine_to_json(const struct gpu_machine *m)
{
	json_t *files = json_array(), *gpus = json_array();

	for (size_t i = 0; i < m->n_files; i++)
		json_array_append_new(files, file_to_json(&m->files[i]));
	for (size_t i = 0; i < m->n_gpus; i++)
		json_array_append_new(gpus, gpu_to_json(&m->gpus[i]));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:b, s:o}",
		"driver", word_to_json(gpu_driver_names[m->driver]), "refused",
		mlr_json_text(m->refused), "driver_root", mlr_json_text(m->driver_root),
		"driver_text", mlr_json_text(m->driver_text), "driver_version",
		version_to_json(&m->driver_version), "cuda", version_to_json(&m->cuda), "open",
		m->is_open, "files", files, "missing", mlr_json_texts(&m->missing), "gpus", gpus,
		"nodes", nodes_to_json(m->nodes, m->n_nodes), "fabric",
		nodes_to_json(m->fabric, m->n_fabric), "has_caps", m->has_caps, "warnings",
		mlr_json_texts(&m->warnings));
}

/* --- from JSON ------------------------------------------------------------ */

/* An object being read; the first error stays. */
struct in {
	const json_t *o;
	struct mlr_error *err;
	int r;
};

static void wrong(struct in *in, const char *key, const char *what)
{
	if (in->r == 0)
		in->r = json_object_get(in->o, key)
			? mlr_fail(in->err, EPROTO, "'%s' is not %s", key, what)
			: mlr_fail(in->err, EPROTO, "'%s' is missing", key);
}

static int is_text(const json_t *v)
{
	return json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v);
}

static char *text_or_null(struct in *in, const char *key)
{
	const json_t *v = json_object_get(in->o, key);

	if (is_text(v))
		return xstrdup(json_string_value(v));
	if (!json_is_null(v))
		wrong(in, key, "a text or null");
	return NULL;
}

static char *path_or_null(struct in *in, const char *key)
{
	char *path = text_or_null(in, key);

	if (path && *path != '/')
		wrong(in, key, "an absolute path or null");
	return path;
}

/* Never NULL. */
static char *path_of(struct in *in, const char *key)
{
	const json_t *v = json_object_get(in->o, key);

	if (is_text(v) && *json_string_value(v) == '/')
		return xstrdup(json_string_value(v));
	wrong(in, key, "an absolute path");
	return xstrdup("");
}

static json_int_t number(struct in *in, const char *key, json_int_t max)
{
	const json_t *v = json_object_get(in->o, key);

	if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= max)
		return json_integer_value(v);
	wrong(in, key, "a number in its range");
	return 0;
}

static json_int_t number_or_null(struct in *in, const char *key, json_int_t max, json_int_t null)
{
	return json_is_null(json_object_get(in->o, key)) ? null : number(in, key, max);
}

static int flag(struct in *in, const char *key)
{
	const json_t *v = json_object_get(in->o, key);

	if (!json_is_boolean(v))
		wrong(in, key, "true or false");
	return json_is_true(v);
}

/* The index of a word in a list, where NULL stands for null. */
static size_t choice(struct in *in, const char *key, const char *const *words, size_t n)
{
	const json_t *v = json_object_get(in->o, key);
	const char *word = is_text(v) ? json_string_value(v) : NULL;

	for (size_t i = 0; i < n; i++)
		if (words[i] ? word && strcmp(word, words[i]) == 0 : json_is_null(v))
			return i;
	wrong(in, key, "a word that is known here");
	return 0;
}

static enum gpu_vendor vendor(struct in *in)
{
	const char *names[GPU_VENDORS];

	for (int v = 0; v < GPU_VENDORS; v++)
		names[v] = gpu_vendors[v].name;
	return (enum gpu_vendor)choice(in, "vendor", names, GPU_VENDORS);
}

static struct gpu_version version(struct in *in, const char *key)
{
	auto_free char *text = text_or_null(in, key);
	struct gpu_version v = { { 0 } };

	if (text && gpu_version_parse(text, &v) < 0)
		wrong(in, key, "a version or null");
	return v;
}

static const json_t *array(struct in *in, const char *key)
{
	const json_t *v = json_object_get(in->o, key);

	if (!json_is_array(v))
		wrong(in, key, "an array");
	return v;
}

static void texts(struct in *in, const char *key, struct strv *ret)
{
	const json_t *list = array(in, key);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);

		if (is_text(v))
			strv_add(ret, json_string_value(v));
		else
			wrong(in, key, "an array of texts");
	}
}

static unsigned caps(struct in *in, const char *key)
{
	auto_strv struct strv words = STRV_INIT;
	unsigned known = 0, bits = 0;

	texts(in, key, &words);
	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (strv_has(&words, capabilities[i])) {
			bits |= 1u << i;
			known++;
		}
	if (known != words.n)
		wrong(in, key, "an array of driver capabilities");
	return bits;
}

/* Read the items of an array; errors name the place: "gpus[1]: mig[0]: 'gi' is missing". */
static void each(
	struct in *in, const char *key, void (*read)(struct in *in, void *into), void *into)
{
	const json_t *list = array(in, key);

	for (size_t i = 0; in->r == 0 && i < json_array_size(list); i++) {
		struct in element = { json_array_get(list, i), in->err, 0 };

		if (json_is_object(element.o))
			read(&element, into);
		else
			element.r = mlr_fail(in->err, EPROTO, "not an object");
		if (element.r < 0)
			in->r = mlr_wrap(in->err, "%s[%zu]", key, i);
	}
}

static void read_node(struct in *in, struct gpu_node *n)
{
	n->path = path_of(in, "path");
	n->major = (unsigned)number(in, "major", INT_LIMIT);
	n->minor = (unsigned)number(in, "minor", INT_LIMIT);
	n->uid = (uid_t)number(in, "uid", 0xffffffff);
	n->gid = (gid_t)number(in, "gid", 0xffffffff);
	n->mode = (mode_t)number(in, "mode", 07777);
	n->error = error_numbers[choice(in, "error", errors, ARRAY_LEN(errors))];
}

static void node_of(struct in *in, const char *key, struct gpu_node *n)
{
	struct in inner = { json_object_get(in->o, key), in->err, 0 };

	if (!json_is_object(inner.o)) {
		if (!json_is_null(inner.o))
			wrong(in, key, "an object or null");
		return;
	}
	if (in->r < 0)
		return;
	read_node(&inner, n);
	if (inner.r < 0)
		in->r = mlr_wrap(in->err, "%s", key);
}

struct nodes {
	struct gpu_node **v;
	size_t *n;
};

static void add_node(struct in *in, void *into)
{
	struct nodes *list = into;

	read_node(in, gpu_node_add(list->v, list->n));
}

static void add_mig(struct in *in, void *into)
{
	struct gpu *g = into;
	struct gpu_mig *part;

	g->mig = xgrow(g->mig, g->n_mig, sizeof(*g->mig));
	part = &g->mig[g->n_mig++];
	*part = (struct gpu_mig){ .gi = (unsigned)number(in, "gi", INT_LIMIT) };
	part->ci = (unsigned)number(in, "ci", INT_LIMIT);
	part->uuid = text_or_null(in, "uuid");
	part->gi_access = path_of(in, "gi_access");
	part->ci_access = path_of(in, "ci_access");
	node_of(in, "gi_node", &part->gi_node);
	node_of(in, "ci_node", &part->ci_node);
}

static void add_gpu(struct in *in, void *into)
{
	struct gpu *g = gpu_machine_add_gpu(into);
	struct nodes drm = { &g->drm, &g->n_drm };

	g->vendor = vendor(in);
	g->index = (int)number_or_null(in, "index", INT_LIMIT, -1);
	g->bus_id = text_or_null(in, "bus_id");
	if (!g->bus_id)
		g->bus_id = xstrdup("");
	g->proc_dir = path_or_null(in, "proc_dir");
	g->uuid = text_or_null(in, "uuid");
	g->model = text_or_null(in, "model");
	g->minor = (unsigned)number(in, "minor", INT_LIMIT);
	node_of(in, "node", &g->node);
	each(in, "drm", add_node, &drm);
	each(in, "mig", add_mig, g);
	g->memory = (uint64_t)number_or_null(in, "memory", INT64_MAX, 0);
	g->brand = text_or_null(in, "brand");
	g->arch = version(in, "arch");
}

static void add_file(struct in *in, void *into)
{
	struct gpu_file *f = gpu_machine_add_file(into);

	f->kind = (enum gpu_file_kind)choice(in, "kind", kinds, ARRAY_LEN(kinds));
	f->vendor = vendor(in);
	f->caps = caps(in, "capabilities");
	f->path = path_of(in, "path");
	f->target = path_or_null(in, "target");
	if (f->kind != GPU_LIBRARY && !f->target)
		wrong(in, "target", "an absolute path, which all but libraries have");
	f->bits = (int)number(in, "bits", 64);
	f->soname = text_or_null(in, "soname");
	f->dev_link = text_or_null(in, "dev_link");
	f->glibc = version(in, "glibc");
}

static void read_machine(struct in *in, struct gpu_machine *m)
{
	struct nodes nodes = { &m->nodes, &m->n_nodes }, fabric = { &m->fabric, &m->n_fabric };

	m->driver = (enum gpu_driver)choice(
		in, "driver", gpu_driver_names, ARRAY_LEN(gpu_driver_names));
	m->refused = text_or_null(in, "refused");
	m->driver_root = text_or_null(in, "driver_root");
	m->driver_text = text_or_null(in, "driver_text");
	m->driver_version = version(in, "driver_version");
	m->cuda = version(in, "cuda");
	m->is_open = flag(in, "open");
	each(in, "files", add_file, m);
	texts(in, "missing", &m->missing);
	each(in, "gpus", add_gpu, m);
	each(in, "nodes", add_node, &nodes);
	each(in, "fabric", add_node, &fabric);
	m->has_caps = flag(in, "has_caps");
	texts(in, "warnings", &m->warnings);
}

int gpu_machine_from_json(const json_t *j, struct gpu_machine *ret, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct in in = { j, err, 0 };

	if (!json_is_object(j))
		return mlr_fail(err, EPROTO, "not an object");
	read_machine(&in, &m);
	if (in.r < 0)
		return in.r;
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
	int r = file_read(AT_FDCWD, file, PROFILE_MAX, &text, &len, err);

	if (r < 0)
		return r;
	j = json_loadb(text, len, 0, &where);
	r = j ? read_profile(j, ret, err)
	      : mlr_fail(err, EPROTO, "line %d: %s", where.line, where.text);
	json_decref(j);
	return r < 0 ? mlr_wrap(err, "'%s'", file) : 0;
}
