#include "cdi/spec.h"

#include "base/record.h"
#include "base/yaml.h"

/* In the order of release; cdi_spec.needs is an index. */
static const char *const versions[] = { "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0",
	"1.0.0", "1.1.0" };

enum { V_030, V_040, V_050, V_060, V_070, V_110 = 7 };

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* pkg/parser: letters, digits and characters of others; the last is a letter or digit. */
static int is_name(const char *s, size_t len, const char *others, int digit_first)
{
	if (len == 0 || len > 255 || !(is_letter(s[0]) || (digit_first && is_digit(s[0]))))
		return 0;
	for (size_t i = 0; i < len; i++)
		if (!is_letter(s[i]) && !is_digit(s[i]) && (!s[i] || !strchr(others, s[i])))
			return 0;
	return is_letter(s[len - 1]) || is_digit(s[len - 1]);
}

int cdi_is_kind(const char *text, size_t len)
{
	const char *slash = memchr(text, '/', len);
	size_t vendor = slash ? (size_t)(slash - text) : 0;

	return slash && is_name(text, vendor, "_-.", 0) &&
		is_name(slash + 1, len - vendor - 1, "_-.", 0);
}

int cdi_is_device(const char *text)
{
	return is_name(text, strlen(text), "_-.:", 1);
}

static void need(struct cdi_spec *s, unsigned version)
{
	if (version > s->needs)
		s->needs = version;
}

static int check_env(const struct record_reader *r, void *member)
{
	const struct strv *env = member;

	for (size_t i = 0; i < env->n; i++)
		if (!strchr(env->v[i], '=') || env->v[i][0] == '=')
			return record_wrong(
				r, "[%zu]: '%s' is not of the form NAME=VALUE", i, env->v[i]);
	return 0;
}

static int check_node(const struct record_reader *r, void *member)
{
	const struct cdi_node *n = member;

	if (n->type && (strlen(n->type) != 1 || !strchr("bcup", n->type[0])))
		return record_wrong(r, "type: invalid type '%.100s': use b, c, u or p", n->type);
	if (n->permissions && strcmp(n->permissions, "none") != 0 &&
		n->permissions[strspn(n->permissions, "rwm")])
		return record_wrong(r, "permissions: invalid '%s': use r, w and m", n->permissions);
	if (n->host_path)
		need(r->ctx, V_050);
	return 0;
}

static int check_mount(const struct record_reader *r, void *member)
{
	if (((const struct cdi_mount *)member)->type)
		need(r->ctx, V_040);
	return 0;
}

static int check_hook(const struct record_reader *r, void *member)
{
	static const char *const names[] = { "prestart", "createRuntime", "createContainer",
		"startContainer", "poststart", "poststop" };
	const struct cdi_hook *h = member;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(h->name, names[i]) == 0)
			return 0;
	return record_wrong(r, "hookName: unknown hook '%.100s'", h->name);
}

static int read_gid(const struct record_reader *r, const json_t *j, void *to)
{
	static const struct record_row row = {
		.kind = RECORD_NUMBER, .size = sizeof(int64_t), .max = UINT32_MAX
	};
	struct cdi_edits *e = to;
	int64_t gid;

	TRY(record_value(r, &row, j, &gid));
	*xadd(e->gids, e->n_gids) = gid;
	need(r->ctx, V_070);
	return 0;
}

static int read_net_device(const struct record_reader *r, const json_t *j, void *to)
{
	struct names {
		char *host, *inside;
	} names = { NULL, NULL };
	static const struct record_row rows[] = {
		{ "hostInterfaceName", RECORD_TEXT, RECORD_AT(struct names, host),
			.flags = RECORD_MUST },
		{ "name", RECORD_TEXT, RECORD_AT(struct names, inside), .flags = RECORD_MUST },
		{ NULL },
	};
	struct cdi_edits *e = to;
	int err = record_read(r, rows, j, &names);

	if (err == 0)
		strv_add(&e->net_devices, names.host);
	need(r->ctx, V_110);
	record_done(rows, &names);
	return err;
}

/* The fields are checked and have no effect. Only 0.7.0 had enableCMT and enableMBM. */
static int read_rdt(const struct record_reader *r, const json_t *j, void *to)
{
	struct rdt {
		char *clos, *l3, *mb;
		struct strv schemata;
		int monitoring, cmt, mbm;
	} rdt = { 0 };
	static const struct record_row rows[] = {
		{ "closID", RECORD_TEXT, RECORD_AT(struct rdt, clos) },
		{ "l3CacheSchema", RECORD_TEXT, RECORD_AT(struct rdt, l3) },
		{ "memBwSchema", RECORD_TEXT, RECORD_AT(struct rdt, mb) },
		{ "schemata", RECORD_TEXTS, RECORD_AT(struct rdt, schemata) },
		{ "enableMonitoring", RECORD_FLAG, RECORD_AT(struct rdt, monitoring) },
		{ "enableCMT", RECORD_FLAG, RECORD_AT(struct rdt, cmt) },
		{ "enableMBM", RECORD_FLAG, RECORD_AT(struct rdt, mbm) },
		{ NULL },
	};
	struct cdi_edits *e = to;
	int err = record_read(r, rows, j, &rdt);

	e->has_rdt = 1;
	need(r->ctx, rdt.schemata.n || rdt.monitoring ? V_110 : V_070);
	record_done(rows, &rdt);
	return err;
}

static const struct record_row node_rows[] = {
	{ "path", RECORD_TEXT, RECORD_AT(struct cdi_node, path), .flags = RECORD_MUST },
	{ "hostPath", RECORD_TEXT, RECORD_AT(struct cdi_node, host_path) },
	{ "type", RECORD_TEXT, RECORD_AT(struct cdi_node, type) },
	{ "major", RECORD_NUMBER, RECORD_AT(struct cdi_node, major), .max = INT32_MAX },
	{ "minor", RECORD_NUMBER, RECORD_AT(struct cdi_node, minor), .max = INT32_MAX },
	{ "fileMode", RECORD_NUMBER, RECORD_AT(struct cdi_node, file_mode), .max = UINT32_MAX },
	{ "permissions", RECORD_TEXT, RECORD_AT(struct cdi_node, permissions) },
	{ "uid", RECORD_NUMBER, RECORD_AT(struct cdi_node, uid), .max = UINT32_MAX },
	{ "gid", RECORD_NUMBER, RECORD_AT(struct cdi_node, gid), .max = UINT32_MAX },
	{ NULL },
};

static const struct record_row mount_rows[] = {
	{ "hostPath", RECORD_TEXT, RECORD_AT(struct cdi_mount, host_path), .flags = RECORD_MUST },
	{ "containerPath", RECORD_TEXT, RECORD_AT(struct cdi_mount, container_path),
		.flags = RECORD_MUST },
	{ "type", RECORD_TEXT, RECORD_AT(struct cdi_mount, type) },
	{ "options", RECORD_TEXTS, RECORD_AT(struct cdi_mount, options) },
	{ NULL },
};

static const struct record_row hook_rows[] = {
	{ "hookName", RECORD_TEXT, RECORD_AT(struct cdi_hook, name), .flags = RECORD_MUST },
	{ "path", RECORD_TEXT, RECORD_AT(struct cdi_hook, path), .flags = RECORD_MUST },
	{ "args", RECORD_TEXTS, RECORD_AT(struct cdi_hook, args) },
	{ "env", RECORD_TEXTS, RECORD_AT(struct cdi_hook, env) },
	{ "timeout", RECORD_NUMBER, RECORD_AT(struct cdi_hook, timeout), .max = INT32_MAX },
	{ NULL },
};

static const struct cdi_node no_node = {
	.major = -1, .minor = -1, .file_mode = -1, .uid = -1, .gid = -1
};
static const struct cdi_hook no_hook = { .timeout = -1 };

static const struct record_row edits_rows[] = {
	{ "env", RECORD_TEXTS, RECORD_AT(struct cdi_edits, env), .rule = check_env },
	{ "deviceNodes", RECORD_LIST, RECORD_ITEMS(struct cdi_edits, nodes, n_nodes, node_rows),
		.init = &no_node, .rule = check_node },
	{ "mounts", RECORD_LIST, RECORD_ITEMS(struct cdi_edits, mounts, n_mounts, mount_rows),
		.rule = check_mount },
	{ "hooks", RECORD_LIST, RECORD_ITEMS(struct cdi_edits, hooks, n_hooks, hook_rows),
		.init = &no_hook, .rule = check_hook },
	{ "additionalGids", RECORD_OWN, .flags = RECORD_EACH, .read = read_gid },
	{ "netDevices", RECORD_OWN, .flags = RECORD_EACH, .read = read_net_device },
	{ "intelRdt", RECORD_OWN, .read = read_rdt },
	{ NULL },
};

static void edits_done(struct cdi_edits *e)
{
	record_done(edits_rows, e);
	strv_done(&e->net_devices);
	free(e->gids);
}

/* Strings under arbitrary keys. */
static int read_annotations(const struct record_reader *r, const json_t *j, void *to)
{
	const char *key;
	json_t *item;

	if (!json_is_object(j))
		return record_expected(r, "an object", j);
	json_object_foreach((json_t *)j, key, item) {
		if (!json_is_string(item))
			return record_wrong(r, "'%s': expected a string", key);
		need(r->ctx, V_060);
	}
	return 0;
}

static int is_empty(const struct cdi_edits *e)
{
	return !e->env.n && !e->n_nodes && !e->n_mounts && !e->n_hooks && !e->n_gids &&
		!e->net_devices.n && !e->has_rdt;
}

static int check_device(const struct record_reader *r, const struct cdi_device *d)
{
	if (!cdi_is_device(d->name))
		return record_wrong(r, "invalid device name '%.100s'", d->name);
	if (is_empty(&d->edits))
		return record_wrong(r, "device '%s' has nothing in containerEdits", d->name);
	return 0;
}

static const struct record_row device_rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct cdi_device, name), .flags = RECORD_MUST },
	{ "annotations", RECORD_OWN, .read = read_annotations },
	{ "containerEdits", RECORD_STRUCT, RECORD_AT(struct cdi_device, edits),
		.rows = edits_rows },
	{ NULL },
};

static int read_device(const struct record_reader *r, const json_t *j, void *to)
{
	struct cdi_spec *s = to;
	struct cdi_device *d;
	int err;

	d = xadd(s->devices, s->n_devices);
	memset(d, 0, sizeof(*d));
	err = record_read(r, device_rows, j, d);
	if (err < 0 && json_is_string(json_object_get(j, "name")))
		return mlr_wrap(r->err, "'%s'", json_string_value(json_object_get(j, "name"))), err;
	if (err == 0)
		err = check_device(r, d);
	if (err == 0 && is_digit(d->name[0]))
		need(s, V_050);
	return err;
}

/* By name; equal names in the file's order. */
static int by_name(const void *a, const void *b)
{
	const struct cdi_device *const *x = a, *const *y = b;
	int r = strcmp((*x)->name, (*y)->name);

	return r ? r : (*x > *y) - (*x < *y);
}

static int check_names(const struct record_reader *r, const struct cdi_spec *s)
{
	const struct cdi_device **v = xcalloc(s->n_devices + 1, sizeof(*v));
	int err = 0;

	for (size_t i = 0; i < s->n_devices; i++)
		v[i] = &s->devices[i];
	qsort(v, s->n_devices, sizeof(*v), by_name);
	for (size_t i = 1; err == 0 && i < s->n_devices; i++)
		if (strcmp(v[i - 1]->name, v[i]->name) == 0)
			err = record_wrong(r, "devices: [%zu]: the name '%s' appears twice",
				(size_t)(v[i] - s->devices), v[i]->name);
	free(v);
	return err;
}

static int check_version(const struct record_reader *r, const struct cdi_spec *s)
{
	const char *text = s->version + (s->version[0] == 'v');
	size_t i = 0;

	while (i < ARRAY_LEN(versions) && strcmp(text, versions[i]) != 0)
		i++;
	if (i == ARRAY_LEN(versions))
		return mlr_fail(r->err, ENOTSUP,
			"cdiVersion: version '%.100s' is not supported: use %s to %s", s->version,
			versions[0], versions[ARRAY_LEN(versions) - 1]);
	if (i < s->needs)
		return record_wrong(r, "cdiVersion: version %s lacks some of the fields, use %s",
			s->version, versions[s->needs]);
	return 0;
}

static const struct record_row spec_rows[] = {
	{ "cdiVersion", RECORD_TEXT, RECORD_AT(struct cdi_spec, version), .flags = RECORD_MUST },
	{ "kind", RECORD_TEXT, RECORD_AT(struct cdi_spec, kind), .flags = RECORD_MUST },
	{ "annotations", RECORD_OWN, .read = read_annotations },
	{ "devices", RECORD_OWN, .flags = RECORD_EACH | RECORD_MUST, .read = read_device },
	{ "containerEdits", RECORD_STRUCT, RECORD_AT(struct cdi_spec, edits), .rows = edits_rows },
	{ NULL },
};

void cdi_spec_done(struct cdi_spec *s)
{
	for (size_t i = 0; i < s->n_devices; i++) {
		free(s->devices[i].name);
		edits_done(&s->devices[i].edits);
	}
	free(s->devices);
	edits_done(&s->edits);
	free(s->file);
	free(s->version);
	free(s->kind);
	*s = (struct cdi_spec){ 0 };
}

static int read_spec(const struct record_reader *r, const json_t *j, struct cdi_spec *s)
{
	int err = record_read(r, spec_rows, j, s);

	if (err == 0)
		err = check_names(r, s);
	if (err < 0)
		return err;
	if (!cdi_is_kind(s->kind, strlen(s->kind)))
		return record_wrong(r, "kind: '%s' is not of the form VENDOR/CLASS", s->kind);
	if (strchr(strchr(s->kind, '/'), '.'))
		need(s, V_060);
	if (s->n_devices == 0)
		return record_wrong(r, "devices: the list is empty");
	return check_version(r, s);
}

/* Parse JSON, or else YAML. What begins with '{' and is neither gets the JSON parser's error.
 * Returns 0, -EPROTO, -ENOMEM. */
static int load(const char *text, size_t size, json_t **ret, struct mlr_error *err)
{
	size_t blank = 0;
	json_error_t where;

	while (blank < size && strchr(" \t\r\n", text[blank]) && text[blank])
		blank++;
	if (blank == size)
		return mlr_fail(err, EPROTO, "it is empty");
	if (text[blank] != '{')
		return mlr_yaml_load(text, size, MLR_YAML_TYPES, NULL, ret, err);
	*ret = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	/* YAML too may begin with a brace: "{kind: ...}". */
	if (*ret || mlr_yaml_load(text, size, MLR_YAML_TYPES, NULL, ret, NULL) == 0)
		return 0;
	return mlr_fail(err, EPROTO, "line %d: %s", where.line, where.text);
}

int cdi_spec_parse(const char *text, size_t size, struct cdi_spec *ret, struct mlr_error *err)
{
	auto_call(cdi_spec_done) struct cdi_spec s = { 0 };
	struct record_reader r = {
		.manner = RECORD_ONLY | RECORD_ANY_CASE | RECORD_AS_YAML, .ctx = &s, .err = err
	};
	json_auto_t *j = NULL;

	if (size > GPU_CDI_FILE_MAX)
		return mlr_fail(err, EFBIG, "larger than %u MiB", GPU_CDI_FILE_MAX >> 20);
	TRY(load(text, size, &j, err));
	TRY(read_spec(&r, j, &s));
	*ret = take_struct(&s, { 0 });
	return 0;
}
