/* config.json as rows. */
#include "bundle/bundle.h"
#include "bundle/parts.h"

#include "base/json.h"
#include "base/record.h"
#include "plan/capability.h"

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

int bundle_json(const char *text, size_t len, json_t **ret, struct mlr_error *err)
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
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return mlr_fail(err, EPROTO, "expected an object");
}

/* Add keys and their texts, which alternate. */
static int read_pairs(const struct record_reader *r, const json_t *v, void *to)
{
	const char *key;
	json_t *item;

	if (!json_is_object(v))
		return record_expected(r, "an object", v);
	json_object_foreach((json_t *)v, key, item) {
		char *text = NULL;

		if (record_text(r, item, &text) < 0)
			return mlr_wrap(r->err, "'%s'", key);
		strv_add(to, key);
		strv_take(to, text);
	}
	return 0;
}

static int check_version(const struct record_reader *r, void *member)
{
	const char *version = *(char **)member;

	return strncmp(version, "1.", 2) == 0
		? 0
		: mlr_fail(r->err, ENOTSUP, "'%s'; 1.x is supported", version);
}

static int read_seccomp(const struct record_reader *r, const json_t *v, void *to)
{
	if (!json_is_object(v))
		return record_expected(r, "an object", v);
	*(char **)to = mlr_json_print(json_incref((json_t *)v), JSON_COMPACT);
	return 0;
}

static const struct record_row hook_rows[] = {
	{ "path", RECORD_TEXT, RECORD_AT(struct bundle_hook, path),
		.flags = RECORD_MUST | RECORD_ABSOLUTE },
	{ "args", RECORD_TEXTS, RECORD_AT(struct bundle_hook, args) },
	{ "env", RECORD_TEXTS, RECORD_AT(struct bundle_hook, env) },
	{ "timeout", RECORD_NUMBER, RECORD_AT(struct bundle_hook, timeout), .min = 1 },
	{ NULL },
};

#define AT(member)        RECORD_AT(struct bundle, member)
#define STAGE(i)          RECORD_LIST, RECORD_ITEMS(struct bundle, hooks[i].v, hooks[i].n, hook_rows)
#define PART(its)         RECORD_STRUCT, .rows = (its)
#define LIST(member, its) RECORD_LIST, RECORD_ITEMS(struct bundle, member, n_##member, its)

static const struct record_row stage_rows[] = {
	{ "prestart", STAGE(BUNDLE_PRESTART) },
	{ "createRuntime", STAGE(BUNDLE_CREATE_RUNTIME) },
	{ "createContainer", STAGE(BUNDLE_CREATE_CONTAINER) },
	{ "startContainer", STAGE(BUNDLE_START_CONTAINER) },
	{ "poststart", STAGE(BUNDLE_POSTSTART) },
	{ "poststop", STAGE(BUNDLE_POSTSTOP) },
	{ NULL },
};

const char *bundle_stage_name(enum bundle_stage stage)
{
	return stage_rows[stage].key;
}

/* Refuse a key that confines or changes the process, unless its value is empty. */
static int refuse(const struct record_reader *r, const json_t *v, void *to)
{
	int is_empty = json_is_string(v) ? json_string_length(v) == 0
		: json_is_array(v)       ? json_array_size(v) == 0
					 : json_is_object(v) && json_object_size(v) == 0;

	return is_empty ? 0 : mlr_fail(r->err, ENOTSUP, "not supported");
}

static const char *const domains[] = { "LINUX", "LINUX32" };
static const struct record_row personality_rows[] = {
	{ "domain", RECORD_WORD, AT(is_32_bit), RECORD_WORDS(domains) },
	{ "flags", RECORD_OWN, .read = refuse },
	{ NULL },
};

/* Limits are unsigned 64-bit numbers; a number that jansson holds as a real is "unlimited", as Go
 * writes it. */
static int read_limit(const struct record_reader *r, const json_t *v, void *to)
{
	rlim_t *ret = to;

	if (json_is_real(v) && json_real_value(v) >= 9.2e18)
		*ret = RLIM_INFINITY;
	else if (json_is_integer(v) && json_integer_value(v) >= -1)
		*ret = json_integer_value(v) < 0 ? RLIM_INFINITY : (rlim_t)json_integer_value(v);
	else
		return record_expected(r, "a whole number", v);
	return 0;
}

/* Names that this mlrun does not know are left out, as runc does. */
static int read_capability(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *name = NULL;

	TRY(record_text(r, v, &name));
	*(uint64_t *)to |= strcmp(name, "ALL") == 0 ? 0 : capability_bits(name);
	return 0;
}

static const struct record_row user_rows[] = {
	{ "uid", RECORD_NUMBER, AT(uid), .max = UINT_MAX - 1 },
	{ "gid", RECORD_NUMBER, AT(gid), .max = UINT_MAX - 1 },
	{ "umask", RECORD_NUMBER, AT(umask), .max = 0777 },
	{ NULL },
};

static const struct record_row size_rows[] = {
	{ "height", RECORD_NUMBER, AT(rows), .max = USHRT_MAX },
	{ "width", RECORD_NUMBER, AT(columns), .max = USHRT_MAX },
	{ NULL },
};

static const struct record_row limit_rows[] = {
	{ "type", RECORD_TEXT, RECORD_AT(struct bundle_limit, type), .flags = RECORD_MUST },
	{ "soft", RECORD_OWN, RECORD_AT(struct bundle_limit, soft), .flags = RECORD_MUST,
		.read = read_limit },
	{ "hard", RECORD_OWN, RECORD_AT(struct bundle_limit, hard), .flags = RECORD_MUST,
		.read = read_limit },
	{ NULL },
};

#define SET(member) RECORD_OWN, AT(caps.member), .flags = RECORD_EACH, .read = read_capability

static const struct record_row capability_rows[] = {
	{ "bounding", SET(bounding) },
	{ "effective", SET(effective) },
	{ "permitted", SET(permitted) },
	{ "inheritable", SET(inheritable) },
	{ "ambient", SET(ambient) },
	{ NULL },
};

static const struct record_row process_rows[] = {
	{ "args", RECORD_TEXTS, AT(args) },
	{ "env", RECORD_TEXTS, AT(env) },
	{ "cwd", RECORD_TEXT, AT(cwd), .flags = RECORD_MUST | RECORD_ABSOLUTE },
	{ "user", PART(user_rows) },
	{ "consoleSize", PART(size_rows) },
	{ "terminal", RECORD_FLAG, AT(terminal) },
	{ "oomScoreAdj", RECORD_NUMBER, AT(oom_score_adj), .min = -1000, .max = 1000 },
	{ "rlimits", LIST(limits, limit_rows) },
	{ "capabilities", PART(capability_rows) },
	{ "apparmorProfile", RECORD_OWN, .read = refuse },
	{ "selinuxLabel", RECORD_OWN, .read = refuse },
	{ NULL },
};

static const struct record_row root_rows[] = {
	{ "path", RECORD_TEXT, AT(root), .flags = RECORD_MUST },
	{ "readonly", RECORD_FLAG, AT(is_readonly) },
	{ NULL },
};

static const struct record_row mount_rows[] = {
	{ "destination", RECORD_TEXT, RECORD_AT(struct bundle_mount, target),
		.flags = RECORD_MUST },
	{ "type", RECORD_TEXT, RECORD_AT(struct bundle_mount, type) },
	{ "source", RECORD_TEXT, RECORD_AT(struct bundle_mount, source) },
	{ "options", RECORD_TEXTS, RECORD_AT(struct bundle_mount, options) },
	{ "uidMappings", RECORD_JSON, RECORD_AT(struct bundle_mount, uids) },
	{ "gidMappings", RECORD_JSON, RECORD_AT(struct bundle_mount, gids) },
	{ NULL },
};

static const struct record_row map_rows[] = {
	{ "containerID", RECORD_NUMBER, RECORD_AT(struct bundle_map, inside), .max = UINT_MAX - 1 },
	{ "hostID", RECORD_NUMBER, RECORD_AT(struct bundle_map, outside), .max = UINT_MAX - 1 },
	{ NULL },
};
static const struct bundle_map no_map = { -1, -2 };

static const struct record_row namespace_rows[] = {
	{ "type", RECORD_TEXT, RECORD_AT(struct bundle_namespace, type), .flags = RECORD_MUST },
	{ "path", RECORD_TEXT, RECORD_AT(struct bundle_namespace, path) },
	{ NULL },
};

static const struct record_row device_rows[] = {
	{ "path", RECORD_TEXT, RECORD_AT(struct bundle_device, path),
		.flags = RECORD_MUST | RECORD_ABSOLUTE },
	{ "type", RECORD_TEXT, RECORD_AT(struct bundle_device, type) },
	{ "major", RECORD_NUMBER, RECORD_AT(struct bundle_device, major), .min = -1, .max = 0xfff },
	{ "minor", RECORD_NUMBER, RECORD_AT(struct bundle_device, minor), .min = -1,
		.max = 0xfffff },
	{ NULL },
};

static const struct record_row linux_rows[] = {
	{ "uidMappings", LIST(uids, map_rows), .init = &no_map },
	{ "gidMappings", LIST(gids, map_rows), .init = &no_map },
	{ "namespaces", LIST(namespaces, namespace_rows) },
	{ "personality", PART(personality_rows) },
	{ "seccomp", RECORD_TEXT, AT(seccomp), .read = read_seccomp },
	{ "sysctl", RECORD_TEXTS, AT(settings), .read = read_pairs },
	{ "resources", RECORD_JSON, AT(resources) },
	{ "devices", LIST(devices, device_rows) },
	{ "maskedPaths", RECORD_TEXTS, AT(masked) },
	{ "readonlyPaths", RECORD_TEXTS, AT(sealed) },
	{ "intelRdt", RECORD_OWN, .read = refuse },
	{ "timeOffsets", RECORD_OWN, .read = refuse },
	{ "memoryPolicy", RECORD_OWN, .read = refuse },
	{ "netDevices", RECORD_OWN, .read = refuse },
	{ NULL },
};

static const struct record_row rows[] = {
	{ "ociVersion", RECORD_TEXT, AT(version), .flags = RECORD_MUST, .rule = check_version },
	{ "annotations", RECORD_TEXTS, AT(annotations), .read = read_pairs },
	{ "domainname", RECORD_TEXT, AT(domainname) },
	{ "hooks", PART(stage_rows) },
	{ "process", PART(process_rows) },
	{ "root", PART(root_rows), .flags = RECORD_MUST },
	{ "hostname", RECORD_TEXT, AT(hostname) },
	{ "mounts", LIST(mounts, mount_rows) },
	{ "linux", PART(linux_rows) },
	{ NULL },
};

void bundle_done(struct bundle *b)
{
	record_done(rows, b);
	strv_done(&b->sysctls);
	strv_done(&b->joined);
	json_decref(b->document);
	*b = (struct bundle)BUNDLE_INIT;
}

int bundle_parse(const char *text, size_t len, struct bundle *ret, struct mlr_error *err)
{
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	const struct record_reader r = { .err = err };

	TRY(bundle_json(text, len, &b.document, err));
	TRY(record_read(&r, rows, b.document, &b));
	b.has_oom_score_adj = b.oom_score_adj >= -1000;
	*ret = take_struct(&b, BUNDLE_INIT);
	return 0;
}
