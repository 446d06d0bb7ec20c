#include "gpu/profile.h"

#include "base/json.h"
#include "base/record.h"
#include "gpu/vendor.h"

/* Names of enumerations, indexed by value. */
static const char *const kinds[] = { [GPU_LIBRARY] = "library",
	[GPU_PROGRAM] = "program",
	[GPU_FIRMWARE] = "firmware",
	[GPU_SOCKET] = "socket",
	[GPU_DATA] = "data" };
/* Indexed by bit number. */
static const char *const capabilities[] = { "compute", "compat32", "graphics", "utility", "video",
	"display", "ngx" };
/* By name: error numbers depend on the architecture. */
static const struct {
	const char *name;
	int number;
} errors[] = { { "EACCES", EACCES }, { "EPERM", EPERM }, { "ENXIO", ENXIO }, { "ENOENT", ENOENT } };

#define PROFILE_MAX (16u << 20) /* bytes */

static int read_vendor(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *name = NULL;

	TRY(record_text(r, v, &name));
	for (int i = 0; i < GPU_VENDORS; i++)
		if (strcmp(gpu_vendors[i].name, name) == 0) {
			*(enum gpu_vendor *)to = (enum gpu_vendor)i;
			return 0;
		}
	return record_wrong(r, "unknown vendor '%.40s'", name);
}

static json_t *write_vendor(const void *from)
{
	return json_string(gpu_vendors[*(const enum gpu_vendor *)from].name);
}

static int read_error(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *name = NULL;

	TRY(record_text(r, v, &name));
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (strcmp(errors[i].name, name) == 0) {
			*(int *)to = errors[i].number;
			return 0;
		}
	return record_wrong(r, "unknown error '%.40s'", name);
}

/* An error without a name is the mode's. */
static json_t *write_error(const void *from)
{
	int number = *(const int *)from;
	const char *name = number ? errors[0].name : NULL;

	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i].number == number)
			name = errors[i].name;
	return mlr_json_text(name);
}

static int read_version(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	TRY(record_text(r, v, &text));
	return gpu_version_parse(text, to) < 0 ? record_wrong(r, "'%.40s' is no version", text) : 0;
}

static json_t *write_version(const void *from)
{
	char text[GPU_VERSION_TEXT];

	gpu_version_print(from, text);
	return mlr_json_text(gpu_version_is_known(from) ? text : NULL);
}

static int read_capability(const struct record_reader *r, const json_t *v, void *to)
{
	int which = record_word(r, capabilities, ARRAY_LEN(capabilities), v);

	if (which >= 0)
		*(unsigned *)to |= 1u << which;
	return which < 0 ? which : 0;
}

static json_t *write_capabilities(const void *from)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (*(const unsigned *)from & 1u << i)
			json_array_append_new(list, json_string(capabilities[i]));
	return list;
}

/* A bus id that is unknown is "", and null in the file. */
static json_t *write_bus_id(const void *from)
{
	const char *id = *(char *const *)from;

	return mlr_json_text(id && *id ? id : NULL);
}

static int check_gpu(const struct record_reader *r, void *member)
{
	struct gpu *g = member;

	if (!g->bus_id)
		g->bus_id = xstrdup("");
	return 0;
}

static int check_file(const struct record_reader *r, void *member)
{
	const struct gpu_file *f = member;

	return f->kind == GPU_LIBRARY || f->target
		? 0
		: record_wrong(r, "target: missing, which all but libraries have");
}

#define PATH(type, member) \
	RECORD_TEXT, RECORD_AT(type, member), .flags = RECORD_MUST | RECORD_ABSOLUTE
#define PATH_OR_NULL(type, member) \
	RECORD_TEXT, RECORD_AT(type, member), .flags = RECORD_NULL | RECORD_ABSOLUTE
#define TEXT_OR_NULL(type, member) RECORD_TEXT, RECORD_AT(type, member), .flags = RECORD_NULL
#define NODE_OR_NULL(type, member) \
	RECORD_STRUCT, RECORD_AT(type, member), .flags = RECORD_NULL, .rows = node_rows
#define VERSION(type, member)                                                            \
	RECORD_OWN, RECORD_AT(type, member), .flags = RECORD_NULL, .read = read_version, \
					     .write = write_version

static const struct record_row node_rows[] = {
	{ "path", PATH(struct gpu_node, path) },
	{ "major", RECORD_NUMBER, RECORD_AT(struct gpu_node, major) },
	{ "minor", RECORD_NUMBER, RECORD_AT(struct gpu_node, minor) },
	{ "uid", RECORD_NUMBER, RECORD_AT(struct gpu_node, uid), .max = UINT32_MAX },
	{ "gid", RECORD_NUMBER, RECORD_AT(struct gpu_node, gid), .max = UINT32_MAX },
	{ "mode", RECORD_NUMBER, RECORD_AT(struct gpu_node, mode), .max = 07777 },
	{ "error", RECORD_OWN, RECORD_AT(struct gpu_node, error), .flags = RECORD_NULL,
		.read = read_error, .write = write_error },
	{ NULL },
};

static const struct record_row mig_rows[] = {
	{ "gi", RECORD_NUMBER, RECORD_AT(struct gpu_mig, gi) },
	{ "ci", RECORD_NUMBER, RECORD_AT(struct gpu_mig, ci) },
	{ "uuid", TEXT_OR_NULL(struct gpu_mig, uuid) },
	{ "gi_access", PATH(struct gpu_mig, gi_access) },
	{ "ci_access", PATH(struct gpu_mig, ci_access) },
	{ "gi_node", NODE_OR_NULL(struct gpu_mig, gi_node) },
	{ "ci_node", NODE_OR_NULL(struct gpu_mig, ci_node) },
	{ NULL },
};

static const struct record_row gpu_rows[] = {
	{ "vendor", RECORD_OWN, RECORD_AT(struct gpu, vendor), .read = read_vendor,
		.write = write_vendor },
	{ "index", RECORD_NUMBER, RECORD_AT(struct gpu, index), .flags = RECORD_NULL, .none = -1 },
	{ "bus_id", RECORD_TEXT, RECORD_AT(struct gpu, bus_id), .flags = RECORD_NULL,
		.write = write_bus_id },
	{ "proc_dir", PATH_OR_NULL(struct gpu, proc_dir) },
	{ "uuid", TEXT_OR_NULL(struct gpu, uuid) },
	{ "model", TEXT_OR_NULL(struct gpu, model) },
	{ "minor", RECORD_NUMBER, RECORD_AT(struct gpu, minor) },
	{ "node", NODE_OR_NULL(struct gpu, node) },
	{ "drm", RECORD_LIST, RECORD_ITEMS(struct gpu, drm, n_drm, node_rows) },
	{ "mig", RECORD_LIST, RECORD_ITEMS(struct gpu, mig, n_mig, mig_rows) },
	{ "memory", RECORD_NUMBER, RECORD_AT(struct gpu, memory), .flags = RECORD_NULL },
	{ "brand", TEXT_OR_NULL(struct gpu, brand) },
	{ "arch", VERSION(struct gpu, arch) },
	{ NULL },
};

static const struct record_row file_rows[] = {
	{ "kind", RECORD_WORD, RECORD_AT(struct gpu_file, kind), RECORD_WORDS(kinds) },
	{ "vendor", RECORD_OWN, RECORD_AT(struct gpu_file, vendor), .read = read_vendor,
		.write = write_vendor },
	{ "capabilities", RECORD_OWN, RECORD_AT(struct gpu_file, caps), .flags = RECORD_EACH,
		.read = read_capability, .write = write_capabilities },
	{ "path", PATH(struct gpu_file, path) },
	{ "target", PATH_OR_NULL(struct gpu_file, target) },
	{ "bits", RECORD_NUMBER, RECORD_AT(struct gpu_file, bits), .max = 64 },
	{ "soname", TEXT_OR_NULL(struct gpu_file, soname) },
	{ "dev_link", TEXT_OR_NULL(struct gpu_file, dev_link) },
	{ "glibc", VERSION(struct gpu_file, glibc) },
	{ NULL },
};

static const struct record_row machine_rows[] = {
	{ "driver", RECORD_WORD, RECORD_AT(struct gpu_machine, driver),
		RECORD_WORDS(gpu_driver_names) },
	{ "refused", TEXT_OR_NULL(struct gpu_machine, refused) },
	{ "driver_root", TEXT_OR_NULL(struct gpu_machine, driver_root) },
	{ "driver_text", TEXT_OR_NULL(struct gpu_machine, driver_text) },
	{ "driver_version", VERSION(struct gpu_machine, driver_version) },
	{ "cuda", VERSION(struct gpu_machine, cuda) },
	{ "open", RECORD_FLAG, RECORD_AT(struct gpu_machine, is_open) },
	{ "files", RECORD_LIST, RECORD_ITEMS(struct gpu_machine, files, n_files, file_rows),
		.rule = check_file },
	{ "missing", RECORD_TEXTS, RECORD_AT(struct gpu_machine, missing) },
	{ "gpus", RECORD_LIST, RECORD_ITEMS(struct gpu_machine, gpus, n_gpus, gpu_rows),
		.rule = check_gpu },
	{ "nodes", RECORD_LIST, RECORD_ITEMS(struct gpu_machine, nodes, n_nodes, node_rows) },
	{ "fabric", RECORD_LIST, RECORD_ITEMS(struct gpu_machine, fabric, n_fabric, node_rows) },
	{ "has_caps", RECORD_FLAG, RECORD_AT(struct gpu_machine, has_caps) },
	{ "warnings", RECORD_TEXTS, RECORD_AT(struct gpu_machine, warnings) },
	{ NULL },
};

void gpu_machine_done(struct gpu_machine *m)
{
	record_done(machine_rows, m);
	free(m->processors);
	*m = (struct gpu_machine)GPU_MACHINE_INIT;
}

json_t *gpu_machine_to_json(const struct gpu_machine *m)
{
	return record_write(machine_rows, m);
}

int gpu_machine_from_json(const json_t *j, struct gpu_machine *ret, struct mlr_error *err)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	const struct record_reader r = { .manner = RECORD_ALL, .err = err };

	TRY(record_read(&r, machine_rows, j, &m));
	*ret = take_struct(&m, GPU_MACHINE_INIT);
	return 0;
}

static int read_profile(const json_t *j, struct gpu_machine *ret, struct mlr_error *err)
{
	const json_t *format = json_object_get(j, "format");
	const char *processors = json_string_value(json_object_get(j, "architecture"));

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
	if (gpu_machine_from_json(json_object_get(j, "gpu"), ret, err) < 0)
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
