#include "cdi/spec.h"

#include "base/base.h"
#include "cdi/read.h"

/* In the order of release; cdi_spec.needs is an index. */
static const char *const versions[] = { "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0",
	"1.0.0", "1.1.0" };

enum { V_030, V_040, V_050, V_060, V_070, V_110 = 7 };

static void edits_done(struct cdi_edits *e)
{
	for (size_t i = 0; i < e->n_nodes; i++) {
		free(e->nodes[i].path);
		free(e->nodes[i].host_path);
		free(e->nodes[i].type);
		free(e->nodes[i].permissions);
	}
	for (size_t i = 0; i < e->n_mounts; i++) {
		free(e->mounts[i].host_path);
		free(e->mounts[i].container_path);
		free(e->mounts[i].type);
		strv_done(&e->mounts[i].options);
	}
	for (size_t i = 0; i < e->n_hooks; i++) {
		free(e->hooks[i].name);
		free(e->hooks[i].path);
		strv_done(&e->hooks[i].args);
		strv_done(&e->hooks[i].env);
	}
	free(e->nodes);
	free(e->mounts);
	free(e->hooks);
	free(e->gids);
	strv_done(&e->env);
	strv_done(&e->net_devices);
}

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
	*s = (struct cdi_spec)GPU_CDI_SPEC_INIT;
}

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

static int read_env(struct cdi_reader *r, const json_t *j, void *to)
{
	struct strv *env = &((struct cdi_edits *)to)->env;
	int err = cdi_read_text_item(r, j, env);
	const char *text = err == 0 ? env->v[env->n - 1] : "";

	if (err == 0 && (!strchr(text, '=') || text[0] == '='))
		err = cdi_read_wrong(r, "'%s' is not of the form NAME=VALUE", text);
	return err;
}

static int read_node(struct cdi_reader *r, const json_t *j, void *to)
{
	static const struct cdi_field fields[] = {
		{ "path", cdi_read_text, offsetof(struct cdi_node, path), 1, 0 },
		{ "hostPath", cdi_read_text, offsetof(struct cdi_node, host_path), 0, 0 },
		{ "type", cdi_read_text, offsetof(struct cdi_node, type), 0, 0 },
		{ "major", cdi_read_int64, offsetof(struct cdi_node, major), 0, 0 },
		{ "minor", cdi_read_int64, offsetof(struct cdi_node, minor), 0, 0 },
		{ "fileMode", cdi_read_uint32, offsetof(struct cdi_node, file_mode), 0, 0 },
		{ "permissions", cdi_read_text, offsetof(struct cdi_node, permissions), 0, 0 },
		{ "uid", cdi_read_uint32, offsetof(struct cdi_node, uid), 0, 0 },
		{ "gid", cdi_read_uint32, offsetof(struct cdi_node, gid), 0, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};
	struct cdi_edits *e = to;
	struct cdi_node *n;
	int err;

	e->nodes = xgrow(e->nodes, e->n_nodes, sizeof(*e->nodes));
	n = &e->nodes[e->n_nodes++];
	*n = (struct cdi_node){ .major = -1, .minor = -1, .file_mode = -1, .uid = -1, .gid = -1 };
	err = cdi_read_object(r, j, fields, n);
	if (err < 0)
		return err;
	if (n->type && (strlen(n->type) != 1 || !strchr("bcup", n->type[0])))
		return cdi_read_wrong(r, "type: invalid type '%.100s': use b, c, u or p", n->type);
	if (n->permissions && strcmp(n->permissions, "none") != 0 &&
		n->permissions[strspn(n->permissions, "rwm")])
		return cdi_read_wrong(
			r, "permissions: invalid '%s': use r, w and m", n->permissions);
	if (n->host_path)
		need(r->ctx, V_050);
	return 0;
}

static int read_mount(struct cdi_reader *r, const json_t *j, void *to)
{
	static const struct cdi_field fields[] = {
		{ "hostPath", cdi_read_text, offsetof(struct cdi_mount, host_path), 1, 0 },
		{ "containerPath", cdi_read_text, offsetof(struct cdi_mount, container_path), 1,
			0 },
		{ "type", cdi_read_text, offsetof(struct cdi_mount, type), 0, 0 },
		{ "options", cdi_read_text_item, offsetof(struct cdi_mount, options), 0, 1 },
		{ NULL, NULL, 0, 0, 0 },
	};
	struct cdi_edits *e = to;
	struct cdi_mount *m;
	int err;

	e->mounts = xgrow(e->mounts, e->n_mounts, sizeof(*e->mounts));
	m = &e->mounts[e->n_mounts++];
	*m = (struct cdi_mount){ .options = STRV_INIT };
	err = cdi_read_object(r, j, fields, m);
	if (err == 0 && m->type)
		need(r->ctx, V_040);
	return err;
}

static int read_hook(struct cdi_reader *r, const json_t *j, void *to)
{
	static const char *const names[] = { "prestart", "createRuntime", "createContainer",
		"startContainer", "poststart", "poststop" };
	static const struct cdi_field fields[] = {
		{ "hookName", cdi_read_text, offsetof(struct cdi_hook, name), 1, 0 },
		{ "path", cdi_read_text, offsetof(struct cdi_hook, path), 1, 0 },
		{ "args", cdi_read_text_item, offsetof(struct cdi_hook, args), 0, 1 },
		{ "env", cdi_read_text_item, offsetof(struct cdi_hook, env), 0, 1 },
		{ "timeout", cdi_read_int64, offsetof(struct cdi_hook, timeout), 0, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};
	struct cdi_edits *e = to;
	struct cdi_hook *h;
	int err;

	e->hooks = xgrow(e->hooks, e->n_hooks, sizeof(*e->hooks));
	h = &e->hooks[e->n_hooks++];
	*h = (struct cdi_hook){ .timeout = -1 };
	err = cdi_read_object(r, j, fields, h);
	if (err < 0)
		return err;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(h->name, names[i]) == 0)
			return 0;
	return cdi_read_wrong(r, "hookName: unknown hook '%.100s'", h->name);
}

static int read_gid(struct cdi_reader *r, const json_t *j, void *to)
{
	struct cdi_edits *e = to;
	int64_t gid = -1;
	int err = cdi_read_uint32(r, j, &gid);

	if (err < 0)
		return err;
	e->gids = xgrow(e->gids, e->n_gids, sizeof(*e->gids));
	e->gids[e->n_gids++] = gid;
	need(r->ctx, V_070);
	return 0;
}

static int read_net_device(struct cdi_reader *r, const json_t *j, void *to)
{
	struct names {
		char *host, *inside;
	} names = { NULL, NULL };
	static const struct cdi_field fields[] = {
		{ "hostInterfaceName", cdi_read_text, offsetof(struct names, host), 1, 0 },
		{ "name", cdi_read_text, offsetof(struct names, inside), 1, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};
	struct cdi_edits *e = to;
	int err = cdi_read_object(r, j, fields, &names);

	if (err == 0)
		strv_add(&e->net_devices, names.host);
	need(r->ctx, V_110);
	free(names.host);
	free(names.inside);
	return err;
}

/* The fields are checked and have no effect. Only 0.7.0 had enableCMT and enableMBM. */
static int read_rdt(struct cdi_reader *r, const json_t *j, void *to)
{
	struct rdt {
		char *clos, *l3, *mb;
		struct strv schemata;
		int monitoring, cmt, mbm;
	} rdt = { 0 };
	static const struct cdi_field fields[] = {
		{ "closID", cdi_read_text, offsetof(struct rdt, clos), 0, 0 },
		{ "l3CacheSchema", cdi_read_text, offsetof(struct rdt, l3), 0, 0 },
		{ "memBwSchema", cdi_read_text, offsetof(struct rdt, mb), 0, 0 },
		{ "schemata", cdi_read_text_item, offsetof(struct rdt, schemata), 0, 1 },
		{ "enableMonitoring", cdi_read_bool, offsetof(struct rdt, monitoring), 0, 0 },
		{ "enableCMT", cdi_read_bool, offsetof(struct rdt, cmt), 0, 0 },
		{ "enableMBM", cdi_read_bool, offsetof(struct rdt, mbm), 0, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};
	struct cdi_edits *e = to;
	int err = cdi_read_object(r, j, fields, &rdt);

	e->has_rdt = 1;
	need(r->ctx, rdt.schemata.n || rdt.monitoring ? V_110 : V_070);
	free(rdt.clos);
	free(rdt.l3);
	free(rdt.mb);
	strv_done(&rdt.schemata);
	return err;
}

static int read_edits(struct cdi_reader *r, const json_t *j, void *to)
{
	static const struct cdi_field fields[] = {
		{ "env", read_env, 0, 0, 1 },
		{ "deviceNodes", read_node, 0, 0, 1 },
		{ "mounts", read_mount, 0, 0, 1 },
		{ "hooks", read_hook, 0, 0, 1 },
		{ "additionalGids", read_gid, 0, 0, 1 },
		{ "netDevices", read_net_device, 0, 0, 1 },
		{ "intelRdt", read_rdt, 0, 0, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};

	return cdi_read_object(r, j, fields, to);
}

/* Strings under arbitrary keys. */
static int read_annotations(struct cdi_reader *r, const json_t *j, void *to)
{
	const char *key;
	json_t *item;

	(void)to;
	if (!json_is_object(j))
		return cdi_read_type(r, "an object", j);
	json_object_foreach((json_t *)j, key, item) {
		if (!json_is_string(item))
			return cdi_read_wrong(r, "'%s': expected a string", key);
		need(r->ctx, V_060);
	}
	return 0;
}

static int is_empty(const struct cdi_edits *e)
{
	return !e->env.n && !e->n_nodes && !e->n_mounts && !e->n_hooks && !e->n_gids &&
		!e->net_devices.n && !e->has_rdt;
}

static int check_device(struct cdi_reader *r, const struct cdi_device *d)
{
	if (!cdi_is_device(d->name))
		return cdi_read_wrong(r, "invalid device name '%.100s'", d->name);
	if (is_empty(&d->edits))
		return cdi_read_wrong(r, "device '%s' has nothing in containerEdits", d->name);
	return 0;
}

static int read_device(struct cdi_reader *r, const json_t *j, void *to)
{
	static const struct cdi_field fields[] = {
		{ "name", cdi_read_text, offsetof(struct cdi_device, name), 1, 0 },
		{ "annotations", read_annotations, 0, 0, 0 },
		{ "containerEdits", read_edits, offsetof(struct cdi_device, edits), 0, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};
	struct cdi_spec *s = to;
	struct cdi_device *d;
	int err;

	s->devices = xgrow(s->devices, s->n_devices, sizeof(*s->devices));
	d = &s->devices[s->n_devices++];
	memset(d, 0, sizeof(*d));
	err = cdi_read_object(r, j, fields, d);
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

static int check_names(struct cdi_reader *r, const struct cdi_spec *s)
{
	const struct cdi_device **v = xcalloc(s->n_devices + 1, sizeof(*v));
	int err = 0;

	for (size_t i = 0; i < s->n_devices; i++)
		v[i] = &s->devices[i];
	qsort(v, s->n_devices, sizeof(*v), by_name);
	for (size_t i = 1; err == 0 && i < s->n_devices; i++)
		if (strcmp(v[i - 1]->name, v[i]->name) == 0)
			err = cdi_read_wrong(r, "devices: [%zu]: the name '%s' appears twice",
				(size_t)(v[i] - s->devices), v[i]->name);
	free(v);
	return err;
}

static int check_version(struct cdi_reader *r, const struct cdi_spec *s)
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
		return cdi_read_wrong(r, "cdiVersion: version %s lacks some of the fields, use %s",
			s->version, versions[s->needs]);
	return 0;
}

static int read_spec(struct cdi_reader *r, const json_t *j, struct cdi_spec *s)
{
	static const struct cdi_field fields[] = {
		{ "cdiVersion", cdi_read_text, offsetof(struct cdi_spec, version), 1, 0 },
		{ "kind", cdi_read_text, offsetof(struct cdi_spec, kind), 1, 0 },
		{ "annotations", read_annotations, 0, 0, 0 },
		{ "devices", read_device, 0, 1, 1 },
		{ "containerEdits", read_edits, offsetof(struct cdi_spec, edits), 0, 0 },
		{ NULL, NULL, 0, 0, 0 },
	};
	int err = cdi_read_object(r, j, fields, s);

	if (err == 0)
		err = check_names(r, s);
	if (err < 0)
		return err;
	if (!cdi_is_kind(s->kind, strlen(s->kind)))
		return cdi_read_wrong(r, "kind: '%s' is not of the form VENDOR/CLASS", s->kind);
	if (strchr(strchr(s->kind, '/'), '.'))
		need(s, V_060);
	if (s->n_devices == 0)
		return cdi_read_wrong(r, "devices: the list is empty");
	return check_version(r, s);
}

int cdi_spec_parse(const char *text, size_t size, struct cdi_spec *ret, struct mlr_error *err)
{
	auto_call(cdi_spec_done) struct cdi_spec s = GPU_CDI_SPEC_INIT;
	struct cdi_reader r = { .err = err, .ctx = &s };
	json_auto_t *j = NULL;
	int e;

	if (size > GPU_CDI_FILE_MAX)
		return mlr_fail(err, EFBIG, "larger than %u MiB", GPU_CDI_FILE_MAX >> 20);
	e = cdi_read_load(text, size, &j, err);
	if (e == 0)
		e = read_spec(&r, j, &s);
	if (e < 0)
		return e;
	*ret = s;
	s = (struct cdi_spec)GPU_CDI_SPEC_INIT;
	return 0;
}
