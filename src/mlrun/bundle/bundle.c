#include "bundle/bundle.h"

#include "base/base.h"
#include "bundle/field.h"
#include "bundle/parts.h"
#include "runtime/masks.h"

/* --- what is not for the plan --------------------------------------------------- */

const char *bundle_stage_name(enum bundle_stage stage)
{
	static const char *const names[] = { "prestart", "createRuntime", "createContainer",
		"startContainer", "poststart", "poststop" };

	return names[stage];
}

static void hooks_done(struct bundle_hooks *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->v[i].path);
		strv_done(&h->v[i].args);
		strv_done(&h->v[i].env);
	}
	free(h->v);
}

void bundle_done(struct bundle *b)
{
	free(b->version);
	free(b->seccomp);
	strv_done(&b->annotations);
	strv_done(&b->sysctls);
	strv_done(&b->joined);
	for (int i = 0; i < BUNDLE_STAGES; i++)
		hooks_done(&b->hooks[i]);
	*b = (struct bundle)BUNDLE_INIT;
}

/* Go writes an unlimited RLIM_INFINITY as 2^64 - 1, which is too large for a json_int_t: outside of
 * strings it becomes a real number of the same length. */
static void soften_numbers(char *text, size_t len)
{
	static const char all[] = "18446744073709551615", real[] = "1.844674407370955e19";
	const size_t n = sizeof(all) - 1;
	int quoted = 0;

	for (size_t i = 0; i + n < len; i++)
		if (text[i] == '"')
			quoted = !quoted;
		else if (quoted && text[i] == '\\')
			i++;
		else if (!quoted && i > 0 && text[i] == '1' && memcmp(text + i, all, n) == 0 &&
			strchr(" \t\n\r:[,", text[i - 1]) && strchr(" \t\n\r]},", text[i + n]))
			memcpy(text + i, real, n);
}

static int parse_document(const char *text, size_t len, json_t **ret, struct mlr_error *err)
{
	auto_free char *copy = len ? malloc(len) : NULL;
	json_error_t e = { .line = 1, .text = "no text" };

	if (len && !copy)
		return mlr_fail(err, ENOMEM, "%zu bytes", len);
	if (len) {
		memcpy(copy, text, len);
		soften_numbers(copy, len);
	}
	*ret = len ? json_loadb(copy, len, JSON_REJECT_DUPLICATES, &e) : NULL;
	if (!*ret)
		return mlr_fail(err, EPROTO, "line %d: %s", e.line, e.text);
	if (!json_is_object(*ret))
		return mlr_fail(err, EPROTO, "expected an object");
	return 0;
}

static int parse_version(const json_t *o, char **ret, struct mlr_error *err)
{
	const char *version = NULL;

	TRY(field_text(o, "ociVersion", &version, err));
	if (!version)
		return mlr_fail(err, EPROTO, "'ociVersion' is missing");
	if (strncmp(version, "1.", 2) != 0)
		return mlr_fail(err, ENOTSUP, "'ociVersion' is '%s'; 1.x is supported", version);
	*ret = xstrdup(version);
	return 0;
}

static int parse_annotations(const json_t *o, struct strv *ret, struct mlr_error *err)
{
	const json_t *all = NULL;
	const char *key;
	json_t *v;

	TRY(field_object(o, "annotations", &all, err));
	json_object_foreach((json_t *)all, key, v) {
		if (!json_is_string(v))
			return mlr_fail(err, EPROTO, "annotation '%s': expected a string", key);
		strv_add(ret, key);
		strv_add(ret, json_string_value(v));
	}
	return 0;
}

static int parse_hook(const json_t *o, struct bundle_hooks *to, struct mlr_error *err)
{
	struct bundle_hook *h;
	const char *path = NULL;
	json_int_t timeout = 0;
	int r;

	TRY(field_text(o, "path", &path, err));
	TRY(field_number(o, "timeout", 1, INT_MAX, &timeout, err));
	if (!path || *path != '/')
		return mlr_fail(err, EPROTO, "'path': expected an absolute path");
	to->v = xgrow(to->v, to->n, sizeof(*to->v));
	h = &to->v[to->n++];
	*h = (struct bundle_hook){ .path = xstrdup(path), .timeout = (int)timeout };
	r = field_texts(o, "args", &h->args, err);
	return r < 0 ? r : field_texts(o, "env", &h->env, err);
}

static int parse_hooks(const json_t *o, struct bundle *b, struct mlr_error *err)
{
	const json_t *all = NULL;
	int r = field_object(o, "hooks", &all, err);

	for (int i = 0; i < BUNDLE_STAGES; i++) {
		const char *name = bundle_stage_name(i);
		const json_t *list = NULL, *hook;
		size_t j;

		if (r == 0)
			r = field_list(all, name, &list, err);
		json_array_foreach(list, j, hook) {
			if (r == 0)
				r = parse_hook(hook, &b->hooks[i], err);
		}
		if (r < 0)
			return mlr_wrap(err, "'hooks': '%s'", name);
	}
	return r;
}

static int parse_process(const json_t *o, struct bundle *b, struct mlr_error *err)
{
	const json_t *process = NULL, *user = NULL, *size = NULL;
	json_int_t mask = -1, score = -1001, rows = 0, columns = 0;
	int r = field_object(o, "process", &process, err);

	if (r == 0)
		r = field_object(process, "user", &user, err);
	if (r == 0)
		r = field_object(process, "consoleSize", &size, err);
	if (r == 0)
		r = field_flag(process, "terminal", &b->terminal, err);
	if (r == 0)
		r = field_number(user, "umask", 0, 0777, &mask, err);
	if (r == 0)
		r = field_number(process, "oomScoreAdj", -1000, 1000, &score, err);
	if (r == 0)
		r = field_number(size, "height", 0, USHRT_MAX, &rows, err);
	if (r == 0)
		r = field_number(size, "width", 0, USHRT_MAX, &columns, err);
	b->umask = (int)mask;
	b->has_oom_score_adj = score >= -1000;
	b->oom_score_adj = (int)score;
	b->rows = (int)rows;
	b->columns = (int)columns;
	return r;
}

static int parse(const json_t *o, struct bundle *b, struct mlr_error *err)
{
	const json_t *linux_ = NULL, *seccomp = NULL;
	int r = parse_version(o, &b->version, err);

	if (r == 0)
		r = parse_annotations(o, &b->annotations, err);
	if (r == 0)
		r = parse_hooks(o, b, err);
	if (r == 0)
		r = parse_process(o, b, err);
	if (r == 0)
		r = field_object(o, "linux", &linux_, err);
	if (r == 0)
		r = field_object(linux_, "seccomp", &seccomp, err);
	if (r == 0 && seccomp)
		b->seccomp = json_dumps(seccomp, JSON_COMPACT);
	return r;
}

int bundle_parse(const char *text, size_t len, struct bundle *ret, struct mlr_error *err)
{
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	json_auto_t *o = NULL;

	TRY(parse_document(text, len, &o, err));
	TRY(parse(o, &b, err));
	*ret = b;
	b = (struct bundle)BUNDLE_INIT;
	return 0;
}

/* --- the plan ---------------------------------------------------------------- */

/* Writes go to the bundle's files, unless they are another user's: then they stay in memory. */
static int plan_root(const json_t *o, const char *dir, struct plan *p, struct mlr_error *err)
{
	const json_t *root = NULL;
	const char *path = NULL;
	int is_readonly = 0;
	struct stat st;

	TRY(field_object(o, "root", &root, err));
	TRY(field_text(root, "path", &path, err));
	TRY(field_flag(root, "readonly", &is_readonly, err));
	if (!path || !*path)
		return mlr_fail(err, EPROTO, "'root': 'path' is missing");

	auto_free char *whole = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", dir, path);
	auto_free char *real = realpath(whole, NULL);

	if (!real || stat(real, &st) < 0)
		return mlr_fail_errno(err, "the root '%s'", whole);
	if (!S_ISDIR(st.st_mode))
		return mlr_fail(err, ENOTDIR, "the root '%s' is not a directory", whole);
	if (strcmp(real, "/") == 0)
		return mlr_fail(err, EINVAL, "the root '%s' is the host's", whole);
	strv_add(&p->lowers, real);
	p->root = is_readonly             ? PLAN_ROOT_READ_ONLY
		: access(real, W_OK) == 0 ? PLAN_ROOT_ITSELF
					  : PLAN_ROOT_MEMORY;
	return 0;
}

/* One that the caller is in is there already. */
static int is_callers(const char *type, const char *path)
{
	const char *file = strcmp(type, "network") == 0 ? "net"
		: strcmp(type, "mount") == 0            ? "mnt"
							: type;
	auto_free char *own = xasprintf("/proc/self/ns/%s", file);
	struct stat a, b;

	return stat(own, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino;
}

/* Has the container a namespace of this type that is not the caller's? */
static int has_namespace(const json_t *linux_, const char *type)
{
	const json_t *ns;
	size_t i;

	json_array_foreach(json_object_get(linux_, "namespaces"), i, ns) {
		const char *path = json_string_value(json_object_get(ns, "path"));

		if (strcmp(json_string_value(json_object_get(ns, "type")) ?: "", type) == 0)
			return !path || !*path || !is_callers(type, path);
	}
	return 0;
}

/* The namespace that a setting is of; NULL: it is the machine's. */
static const char *namespace_of(const char *key)
{
	static const struct {
		const char *name; /* ends with '.': all that begin so */
		const char *type;
	} known[] = { { "net.", "network" }, { "fs.mqueue.", "ipc" }, { "kernel.msgmax", "ipc" },
		{ "kernel.msgmnb", "ipc" }, { "kernel.msgmni", "ipc" }, { "kernel.sem", "ipc" },
		{ "kernel.shmall", "ipc" }, { "kernel.shmmax", "ipc" }, { "kernel.shmmni", "ipc" },
		{ "kernel.shm_rmid_forced", "ipc" } };

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t n = strlen(known[i].name);

		if (strncmp(key, known[i].name, n) == 0 && (known[i].name[n - 1] == '.' || !key[n]))
			return known[i].type;
	}
	return NULL;
}

static int parse_sysctls(const json_t *linux_, struct bundle *b, struct mlr_error *err)
{
	const json_t *all = NULL, *v;
	const char *key;
	int r = field_object(linux_, "sysctl", &all, err);

	json_object_foreach((json_t *)all, key, v) {
		const char *type = namespace_of(key);

		if (!json_is_string(v))
			return mlr_fail(err, EPROTO, "'sysctl': '%s' is not a string", key);
		if (!type || !has_namespace(linux_, type))
			return mlr_fail(err, ENOTSUP,
				"'sysctl': '%s' is not a setting of a namespace that the container has "
				"of its own",
				key);
		strv_add(&b->sysctls, key);
		strv_add(&b->sysctls, json_string_value(v));
		strv_add(&b->sysctls, strv_has(&b->joined, type) ? "joined" : "");
	}
	return r;
}

/* bits 0: every container has it, or the host's is used */
static const struct {
	const char *type;
	unsigned bits;
} namespaces[] = {
	{ "user", 0 },
	{ "mount", 0 },
	{ "cgroup", 0 },
	{ "pid", PLAN_NS_PID },
	{ "network", PLAN_NS_NET },
	{ "ipc", PLAN_NS_IPC },
	{ "uts", PLAN_NS_UTS },
};

/* One with a path is entered, where the kernel lets the caller, unless he is in it. */
static int join_namespace(
	const char *type, const char *path, unsigned bits, struct bundle *b, struct mlr_error *err)
{
	if (is_callers(type, path))
		return 0;
	if (!(bits & (PLAN_NS_NET | PLAN_NS_IPC | PLAN_NS_UTS)))
		return mlr_fail(
			err, ENOTSUP, "%s: an existing one, '%s', cannot be joined", type, path);
	strv_add(&b->joined, type);
	strv_add(&b->joined, path);
	return 0;
}

static int plan_namespace(const json_t *ns, struct bundle *b, struct plan *p, struct mlr_error *err)
{
	const char *type = "", *path = NULL;

	TRY(field_text(ns, "type", &type, err));
	TRY(field_text(ns, "path", &path, err));
	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		if (strcmp(namespaces[i].type, type) != 0)
			continue;
		if (path && *path)
			return join_namespace(type, path, namespaces[i].bits, b, err);
		p->namespaces |= namespaces[i].bits;
		return 0;
	}
	return mlr_fail(err, ENOTSUP, "'%s' is not supported", type);
}

static int plan_namespaces(const json_t *o, const json_t *linux_, struct bundle *b, struct plan *p,
	struct mlr_error *err)
{
	const json_t *list = NULL, *ns;
	const char *hostname = NULL;
	size_t i;
	int r = field_list(linux_, "namespaces", &list, err);

	json_array_foreach(list, i, ns) {
		if (r == 0)
			r = plan_namespace(ns, b, p, err);
	}
	if (r < 0)
		return mlr_wrap(err, "'namespaces'");
	r = field_text(o, "hostname", &hostname, err);
	if (r < 0 || !hostname || !*hostname)
		return r;
	if (strv_has(&b->joined, "uts"))
		return 0; /* which has a name */
	if (!(p->namespaces & PLAN_NS_UTS))
		return mlr_fail(err, EINVAL, "'hostname' needs a namespace of the type 'uts'");
	if (strlen(hostname) > 64)
		return mlr_fail(err, EINVAL, "'hostname' is longer than 64 bytes");
	p->hostname = xstrdup(hostname);
	return 0;
}

/* Limits of memory and processors; the rest of "resources" is the batch system's. */
static int plan_resources(const json_t *linux_, struct plan *p, struct mlr_error *err)
{
	const json_t *resources = NULL, *memory = NULL, *cpu = NULL;
	json_int_t limit = 0, quota = 0, period = 100000;
	int r = field_object(linux_, "resources", &resources, err);

	if (r == 0)
		r = field_object(resources, "memory", &memory, err);
	if (r == 0)
		r = field_object(resources, "cpu", &cpu, err);
	if (r == 0)
		r = field_number(memory, "limit", -1, INT64_MAX, &limit, err);
	if (r == 0)
		r = field_number(cpu, "quota", -1, INT64_MAX / 100, &quota, err);
	if (r == 0)
		r = field_number(cpu, "period", 1, 1000000, &period, err);
	if (r < 0)
		return mlr_wrap(err, "'resources'");
	p->memory = limit > 0 ? (uint64_t)limit : 0;
	if (quota > 0) {
		json_int_t cpus = quota * 100 / period;

		p->cpus = cpus < 1 ? 1 : cpus > UINT_MAX ? UINT_MAX : (unsigned)cpus;
	}
	return 0;
}

static int refuse_rest(const json_t *o, const json_t *linux_, struct mlr_error *err)
{
	static const char *const objects[] = { "personality", "intelRdt", "timeOffsets",
		"memoryPolicy", "netDevices" };
	const char *domain = NULL;

	TRY(field_text(o, "domainname", &domain, err));
	if (domain && *domain)
		return mlr_fail(err, ENOTSUP, "'domainname' is not supported");
	for (size_t i = 0; i < ARRAY_LEN(objects); i++)
		if (json_object_size(json_object_get(linux_, objects[i])) > 0)
			return mlr_fail(err, ENOTSUP, "'%s' is not supported", objects[i]);
	return 0;
}

static int plan_paths(const json_t *linux_, struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv masked = STRV_INIT, sealed = STRV_INIT;
	const json_t *devices = NULL;
	int r = field_list(linux_, "devices", &devices, err);

	if (r == 0)
		r = mounts_devices(devices, p, err);
	if (r == 0)
		r = field_texts(linux_, "maskedPaths", &masked, err);
	if (r == 0)
		r = field_texts(linux_, "readonlyPaths", &sealed, err);
	if (r == 0)
		r = paths_seal(&sealed, p, err);
	return r < 0 ? r : paths_mask(&masked, p, err);
}

static int has_proc(const struct plan *p)
{
	for (size_t i = 0; i < p->n_mounts; i++)
		if (strcmp(p->mounts[i].target, "/proc") == 0)
			return 1;
	return 0;
}

int bundle_plan(const char *text, size_t len, const char *dir, struct bundle *b, struct plan *p,
	struct mlr_error *err)
{
	json_auto_t *o = NULL;
	const json_t *process = NULL, *linux_ = NULL, *mounts = NULL;
	int r = parse_document(text, len, &o, err);

	if (r == 0)
		r = field_object(o, "process", &process, err);
	if (r == 0)
		r = field_object(o, "linux", &linux_, err);
	if (r == 0)
		r = field_list(o, "mounts", &mounts, err);
	if (r == 0)
		r = process_plan(process, linux_, p, err);
	if (r == 0)
		r = plan_root(o, dir, p, err);
	if (r == 0)
		process_home(p->lowers.v[0], p);
	if (r == 0)
		r = plan_namespaces(o, linux_, b, p, err);
	if (r == 0)
		r = parse_sysctls(linux_, b, err);
	if (r == 0)
		r = plan_resources(linux_, p, err);
	if (r == 0)
		r = refuse_rest(o, linux_, err);
	if (r == 0)
		r = mounts_plan(mounts, dir, p, err);
	if (r == 0 && has_proc(p))
		r = masks_plan(p, err);
	if (r == 0)
		r = plan_paths(linux_, p, err);
	p->image = xstrdup(dir);
	return r;
}
