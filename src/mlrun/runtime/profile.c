#include "runtime/profile.h"

#include "base/base.h"
#include "plan/capability.h"

#include <jansson.h>
#include <sys/utsname.h>

#define ARGS_MAX 6 /* arguments of a system call */

struct load {
	const struct profile_for *on;
	scmp_filter_ctx ctx;
	uint32_t fallback; /* defaultAction */
	struct mlr_error *err;
};

struct word {
	const char *name;
	uint32_t value;
};

static const struct word actions[] = { { "SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD },
	{ "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
	{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS }, { "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
	{ "SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(EPERM) }, { "SCMP_ACT_TRACE", SCMP_ACT_TRACE(EPERM) },
	{ "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW }, { "SCMP_ACT_LOG", SCMP_ACT_LOG } };

static const struct word operators[] = { { "SCMP_CMP_NE", SCMP_CMP_NE },
	{ "SCMP_CMP_LT", SCMP_CMP_LT }, { "SCMP_CMP_LE", SCMP_CMP_LE },
	{ "SCMP_CMP_EQ", SCMP_CMP_EQ }, { "SCMP_CMP_GE", SCMP_CMP_GE },
	{ "SCMP_CMP_GT", SCMP_CMP_GT }, { "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ } };

static const struct word architectures[] = { { "SCMP_ARCH_X86", SCMP_ARCH_X86 },
	{ "SCMP_ARCH_X86_64", SCMP_ARCH_X86_64 }, { "SCMP_ARCH_X32", SCMP_ARCH_X32 },
	{ "SCMP_ARCH_ARM", SCMP_ARCH_ARM }, { "SCMP_ARCH_AARCH64", SCMP_ARCH_AARCH64 },
	{ "SCMP_ARCH_MIPS", SCMP_ARCH_MIPS }, { "SCMP_ARCH_MIPS64", SCMP_ARCH_MIPS64 },
	{ "SCMP_ARCH_MIPS64N32", SCMP_ARCH_MIPS64N32 }, { "SCMP_ARCH_MIPSEL", SCMP_ARCH_MIPSEL },
	{ "SCMP_ARCH_MIPSEL64", SCMP_ARCH_MIPSEL64 },
	{ "SCMP_ARCH_MIPSEL64N32", SCMP_ARCH_MIPSEL64N32 }, { "SCMP_ARCH_PPC", SCMP_ARCH_PPC },
	{ "SCMP_ARCH_PPC64", SCMP_ARCH_PPC64 }, { "SCMP_ARCH_PPC64LE", SCMP_ARCH_PPC64LE },
	{ "SCMP_ARCH_S390", SCMP_ARCH_S390 }, { "SCMP_ARCH_S390X", SCMP_ARCH_S390X },
	{ "SCMP_ARCH_PARISC", SCMP_ARCH_PARISC }, { "SCMP_ARCH_PARISC64", SCMP_ARCH_PARISC64 },
	{ "SCMP_ARCH_RISCV64", SCMP_ARCH_RISCV64 } };

static const struct word *find_word(const struct word *w, size_t n, const char *name)
{
	for (size_t i = 0; name && i < n; i++)
		if (strcmp(w[i].name, name) == 0)
			return &w[i];
	return NULL;
}

static int wrong(struct load *l, const char *where, const char *what)
{
	return mlr_fail(l->err, EPROTO, "%s: %s", where, what);
}

/* A member's string; NULL if it is missing or of another type. */
static const char *string_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static int is_list(const json_t *v)
{
	return !v || json_is_null(v) || json_is_array(v);
}

/* The error that a refused call returns, from "errnoRet": 38 or "errno": "ENOSYS". */
static int parse_errno(struct load *l, const json_t *o, const char *where, const char *number_key,
	const char *name_key, int *ret)
{
	const json_t *number = json_object_get(o, number_key);
	const char *name = string_of(o, name_key);

	*ret = EPERM;
	if (number && !json_is_null(number)) {
		if (!json_is_integer(number) || json_integer_value(number) < 0 ||
			json_integer_value(number) > 4095)
			return wrong(l, where, "the error is not a number from 0 to 4095");
		*ret = (int)json_integer_value(number);
		return 0;
	}
	if (!name || !*name)
		return 0;
	for (int code = 1; code < 134; code++) {
		const char *known = strerrorname_np(code);

		if (known && strcmp(known, name) == 0) {
			*ret = code;
			return 0;
		}
	}
	return mlr_fail(l->err, EPROTO, "%s: '%.60s' is the name of no error", where, name);
}

static int parse_action(
	struct load *l, const char *name, int code, const char *where, uint32_t *ret)
{
	const struct word *w = find_word(actions, ARRAY_LEN(actions), name);

	if (name && strcmp(name, "SCMP_ACT_NOTIFY") == 0)
		return mlr_fail(l->err, ENOTSUP,
			"%s: SCMP_ACT_NOTIFY needs a supervisor, which mlrun has not", where);
	if (!name)
		return wrong(l, where, "an action is missing");
	if (!w)
		return mlr_fail(l->err, EPROTO,
			"%s: unknown action '%.60s': use SCMP_ACT_ALLOW, SCMP_ACT_ERRNO "
			"and so on",
			where, name);
	*ret = w->value;
	if (w->value == SCMP_ACT_ERRNO(EPERM))
		*ret = SCMP_ACT_ERRNO(code);
	else if (w->value == SCMP_ACT_TRACE(EPERM))
		*ret = SCMP_ACT_TRACE(code);
	return 0;
}

static int add_arch(struct load *l, const char *name, const char *where)
{
	const struct word *w = find_word(architectures, ARRAY_LEN(architectures), name);
	int r;

	if (!w)
		return mlr_fail(l->err, EPROTO,
			"%s: unknown architecture '%.60s': use SCMP_ARCH_X86_64 and so on", where,
			name ? name : "");
	r = seccomp_arch_add(l->ctx, w->value);
	if (r == -EDOM || r == -EINVAL) /* other byte order: no such program runs here */
		return 0;
	return r < 0 && r != -EEXIST
		? mlr_fail(l->err, -r, "%s: architecture '%s': %s", where, name, strerror(-r))
		: 0;
}

static int add_archs(struct load *l, const json_t *list, const char *where)
{
	size_t i;
	json_t *v;

	if (!is_list(list))
		return wrong(l, where, "is not a list");
	json_array_foreach(list, i, v) {
		int r = add_arch(l, json_string_value(v), where);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Docker's form: add the sub-architectures of this machine's. */
static int add_arch_map(struct load *l, const json_t *map)
{
	size_t i;
	json_t *v;

	if (!is_list(map))
		return wrong(l, "archMap", "is not a list");
	json_array_foreach(map, i, v) {
		const struct word *w = find_word(
			architectures, ARRAY_LEN(architectures), string_of(v, "architecture"));
		int r;

		if (!w)
			return wrong(l, "archMap", "an architecture is missing or unknown");
		if (w->value != seccomp_arch_native())
			continue;
		r = add_archs(l, json_object_get(v, "subArchitectures"), "archMap");
		if (r < 0)
			return r;
	}
	return 0;
}

static int has_arch(const json_t *list, const char *arch)
{
	size_t i;
	json_t *v;

	json_array_foreach(list, i, v)
		if (json_is_string(v) && strcmp(json_string_value(v), arch) == 0)
			return 1;
	return 0;
}

/* How many of these capabilities does the command have? Unknown ones count as missing. */
static size_t count_caps(const json_t *list, uint64_t caps)
{
	size_t i, n = 0;
	json_t *v;

	json_array_foreach(list, i, v)
		n += json_is_string(v) && (capability_bits(json_string_value(v)) & caps) != 0;
	return n;
}

/* Is the kernel at least version "4.8"? -1 if that is malformed. */
static int is_kernel(const char *text, const int kernel[2])
{
	int major, minor;

	if (sscanf(text, "%d.%d", &major, &minor) != 2)
		return -1;
	return kernel[0] > major || (kernel[0] == major && kernel[1] >= minor);
}

/* Does a rule apply here? 1 or 0, as in moby's setupSeccomp(). */
static int is_meant(struct load *l, const json_t *rule, const char *where)
{
	const json_t *in = json_object_get(rule, "includes"),
		     *out = json_object_get(rule, "excludes");
	const json_t *archs = json_object_get(in, "arches");
	const char *kernel_in = string_of(in, "minKernel"),
		   *kernel_out = string_of(out, "minKernel");
	const json_t *with = json_object_get(in, "caps"), *without = json_object_get(out, "caps");
	int new_in = kernel_in ? is_kernel(kernel_in, l->on->kernel) : 1,
	    new_out = kernel_out ? is_kernel(kernel_out, l->on->kernel) : 0;

	if (new_in < 0 || new_out < 0)
		return wrong(l, where, "invalid minKernel: use a version such as 4.8");
	return (json_array_size(archs) == 0 || has_arch(archs, l->on->arch)) &&
		!has_arch(json_object_get(out, "arches"), l->on->arch) &&
		count_caps(with, l->on->caps) == json_array_size(with) &&
		count_caps(without, l->on->caps) == 0 && new_in && !new_out;
}

static int parse_value(const json_t *o, const char *key, scmp_datum_t *ret)
{
	const json_t *v = json_object_get(o, key);

	*ret = 0;
	if (!v)
		return 0;
	if (json_is_real(v) && json_real_value(v) >= 0 &&
		json_real_value(v) < 1.8446744073709552e19)
		*ret = (scmp_datum_t)json_real_value(
			v); /* too large for jansson's signed integers */
	else if (json_is_integer(v))
		*ret = (scmp_datum_t)json_integer_value(v);
	else
		return -1;
	return 0;
}

static int parse_arg(struct load *l, const json_t *o, const char *where, struct scmp_arg_cmp *ret)
{
	const json_t *index = json_object_get(o, "index");
	const char *name = string_of(o, "op");
	const struct word *w = find_word(operators, ARRAY_LEN(operators), name);

	if (!json_is_integer(index) || json_integer_value(index) < 0 ||
		json_integer_value(index) >= ARGS_MAX)
		return wrong(l, where, "an argument's index is not a number from 0 to 5");
	if (!w)
		return mlr_fail(l->err, EPROTO,
			"%s: unknown operator '%.60s': use SCMP_CMP_EQ and so on", where,
			name ? name : "");
	ret->arg = (unsigned)json_integer_value(index);
	ret->op = (enum scmp_compare)w->value;
	if (parse_value(o, "value", &ret->datum_a) < 0 ||
		parse_value(o, "valueTwo", &ret->datum_b) < 0)
		return wrong(l, where, "an argument's value is not a number");
	return 0;
}

/* Conditions on one argument are alternatives; conditions on several must all hold (runc's
 * matchCall()). */
static int add_rule(struct load *l, uint32_t action, int nr, const struct scmp_arg_cmp *args,
	unsigned n, const char *where)
{
	unsigned seen = 0, doubled = 0;
	int r = 0;

	for (unsigned i = 0; i < n; i++) {
		doubled |= seen >> args[i].arg & 1;
		seen |= 1u << args[i].arg;
	}
	if (!doubled)
		r = seccomp_rule_add_array(l->ctx, action, nr, n, args);
	for (unsigned i = 0; doubled && r == 0 && i < n; i++)
		r = seccomp_rule_add_array(l->ctx, action, nr, 1, &args[i]);
	if (r == -EEXIST)
		return wrong(l, where, "an earlier rule has another action for the same arguments");
	return r == 0 || r == -EDOM
		? 0
		: mlr_fail(l->err, -r, "%s: libseccomp: %s", where, strerror(-r));
}

static int add_name(struct load *l, const json_t *name, uint32_t action,
	const struct scmp_arg_cmp *args, unsigned n, const char *where)
{
	int nr = json_is_string(name) ? seccomp_syscall_resolve_name(json_string_value(name)) : 0;

	if (!json_is_string(name))
		return wrong(l, where, "the name of a system call is not a string");
	return nr == __NR_SCMP_ERROR ? 0 : add_rule(l, action, nr, args, n, where);
}

static int add_names(struct load *l, const json_t *rule, uint32_t action,
	const struct scmp_arg_cmp *args, unsigned n, const char *where)
{
	const json_t *names = json_object_get(rule, "names"), *name = json_object_get(rule, "name");
	size_t i;
	json_t *v;

	if (name && json_array_size(names) > 0)
		return wrong(l, where, "both name and names");
	if (name)
		return add_name(l, name, action, args, n, where);
	if (json_array_size(names) == 0)
		return wrong(l, where, "names no system call");
	json_array_foreach(names, i, v) {
		int r = add_name(l, v, action, args, n, where);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_syscalls(struct load *l, const json_t *rule, const char *where)
{
	const json_t *list = json_object_get(rule, "args");
	struct scmp_arg_cmp args[ARGS_MAX];
	uint32_t action;
	int r, code;
	size_t i;
	json_t *v;

	if (!json_is_object(rule))
		return wrong(l, where, "is not an object");
	TRY(parse_errno(l, rule, where, "errnoRet", "errno", &code));
	TRY(parse_action(l, string_of(rule, "action"), code, where, &action));
	if (!is_list(list) || json_array_size(list) > ARGS_MAX)
		return wrong(l, where, "args is not a list of at most 6");
	json_array_foreach(list, i, v) {
		r = parse_arg(l, v, where, &args[i]);
		if (r < 0)
			return r;
	}
	r = is_meant(l, rule, where);
	/* libseccomp rejects a rule whose action is the default. */
	return r <= 0 || action == l->fallback
		? r
		: add_names(l, rule, action, args, (unsigned)json_array_size(list), where);
}

static int add_all(struct load *l, const json_t *o)
{
	const json_t *list = json_object_get(o, "syscalls");
	size_t i;
	json_t *v;

	if (!is_list(list))
		return wrong(l, "syscalls", "is not a list");
	json_array_foreach(list, i, v) {
		char where[40];
		int r;

		snprintf(where, sizeof(where), "syscalls[%zu]", i);
		r = add_syscalls(l, v, where);
		if (r < 0)
			return r;
	}
	return 0;
}

static int set_flags(struct load *l, const json_t *o)
{
	const json_t *list = json_object_get(o, "flags");
	size_t i;
	json_t *v;

	if (string_of(o, "listenerPath"))
		return mlr_fail(
			l->err, ENOTSUP, "listenerPath: mlrun has no supervisor for a listener");
	if (!is_list(list))
		return wrong(l, "flags", "is not a list");
	json_array_foreach(list, i, v) {
		const char *name = json_string_value(v);
		int r = 0;

		if (name && strcmp(name, "SECCOMP_FILTER_FLAG_LOG") == 0)
			r = seccomp_attr_set(l->ctx, SCMP_FLTATR_CTL_LOG, 1);
		else if (!name ||
			(strcmp(name, "SECCOMP_FILTER_FLAG_SPEC_ALLOW") != 0 &&
				strcmp(name, "SECCOMP_FILTER_FLAG_TSYNC") != 0))
			return mlr_fail(
				l->err, ENOTSUP, "flags: '%.60s' is unknown", name ? name : "");
		if (r < 0)
			return mlr_fail(l->err, ENOTSUP, "flags: '%s': %s", name, strerror(-r));
	}
	return 0;
}

static int load(struct load *l, const json_t *o)
{
	int code, r;

	TRY(parse_errno(l, o, "the default", "defaultErrnoRet", "defaultErrno", &code));
	TRY(parse_action(l, string_of(o, "defaultAction"), code, "defaultAction", &l->fallback));
	l->ctx = seccomp_init(l->fallback);
	if (!l->ctx)
		return mlr_fail(l->err, ENOTSUP, "libseccomp cannot make this filter here");
	r = set_flags(l, o);
	if (r == 0)
		r = add_archs(l, json_object_get(o, "architectures"), "architectures");
	if (r == 0)
		r = add_arch_map(l, json_object_get(o, "archMap"));
	return r < 0 ? r : add_all(l, o);
}

int profile_load(const char *text, size_t len, const struct profile_for *f, scmp_filter_ctx *ret,
	struct mlr_error *err)
{
	struct load l = { .on = f, .err = err };
	json_error_t je;
	json_auto_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	int r;

	if (!o)
		return mlr_fail(err, EPROTO, "line %d: %s", je.line, je.text);
	if (!json_is_object(o))
		return mlr_fail(err, EPROTO, "is not a JSON object");
	r = load(&l, o);
	if (r < 0) {
		if (l.ctx)
			seccomp_release(l.ctx);
		return r;
	}
	*ret = l.ctx;
	return 0;
}

void profile_for_here(struct profile_for *ret)
{
	static const struct {
		uint32_t arch;
		const char *name;
	} names[] = { { SCMP_ARCH_X86_64, "amd64" }, { SCMP_ARCH_X86, "386" },
		{ SCMP_ARCH_X32, "x32" }, { SCMP_ARCH_AARCH64, "arm64" }, { SCMP_ARCH_ARM, "arm" },
		{ SCMP_ARCH_PPC64LE, "ppc64le" }, { SCMP_ARCH_S390X, "s390x" },
		{ SCMP_ARCH_RISCV64, "riscv64" } };
	struct utsname u;

	*ret = (struct profile_for){ .arch = "unknown" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i].arch == seccomp_arch_native())
			ret->arch = names[i].name;
	uname(&u);
	sscanf(u.release, "%d.%d", &ret->kernel[0], &ret->kernel[1]);
}
