#include "runtime/profile.h"

#include "base/json.h"
#include "base/record.h"
#include "plan/capability.h"

#include <sys/utsname.h>

#define ARGS_MAX 6 /* arguments of a system call */

/* --- a profile as it stands ------------------------------------------------------- */

struct conditions {
	struct strv archs, caps;
	char *kernel; /* at least this version */
};

struct refusal {
	uint32_t action;
	int error, named; /* what a refused call returns; error -1: the named one */
	char unknown[61]; /* the name of no error, which only a number beside it excuses */
};

struct rule {
	struct refusal how;
	struct strv names;
	char *name; /* in place of names */
	struct scmp_arg_cmp *args;
	size_t n_args;
	struct conditions in, out;
};

struct sub {
	char *arch;
	struct strv subs;
};

struct profile {
	struct refusal how; /* with all other calls */
	char *listener;
	struct strv flags, archs;
	struct sub *map; /* Docker's: sub-architectures */
	struct rule *rules;
	size_t n_map, n_rules;
};

struct word {
	const char *name; /* NULL ends a list */
	uint32_t value;
};

static const struct word actions[] = { { "SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD },
	{ "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
	{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS }, { "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
	{ "SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(EPERM) }, { "SCMP_ACT_TRACE", SCMP_ACT_TRACE(EPERM) },
	{ "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW }, { "SCMP_ACT_LOG", SCMP_ACT_LOG }, { NULL, 0 } };

static const struct word operators[] = { { "SCMP_CMP_NE", SCMP_CMP_NE },
	{ "SCMP_CMP_LT", SCMP_CMP_LT }, { "SCMP_CMP_LE", SCMP_CMP_LE },
	{ "SCMP_CMP_EQ", SCMP_CMP_EQ }, { "SCMP_CMP_GE", SCMP_CMP_GE },
	{ "SCMP_CMP_GT", SCMP_CMP_GT }, { "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ }, { NULL, 0 } };

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
	{ "SCMP_ARCH_RISCV64", SCMP_ARCH_RISCV64 }, { NULL, 0 } };

static const struct word *find_word(const struct word *w, const char *name)
{
	while (w->name && (!name || strcmp(w->name, name) != 0))
		w++;
	return w->name ? w : NULL;
}

static int read_word(const struct record_reader *r, const struct word *words, const char *what,
	const char *some, const json_t *v, uint32_t *ret)
{
	const char *name = json_string_value(v);
	const struct word *w = find_word(words, name);

	if (!w)
		return record_wrong(
			r, "unknown %s '%.60s': use %s and so on", what, name ? name : "", some);
	*ret = w->value;
	return 0;
}

static int read_action(const struct record_reader *r, const json_t *v, void *to)
{
	const char *name = json_string_value(v);

	return name && strcmp(name, "SCMP_ACT_NOTIFY") == 0
		? mlr_fail(r->err, ENOTSUP,
			  "SCMP_ACT_NOTIFY needs a supervisor, which mlrun has not")
		: read_word(r, actions, "action", "SCMP_ACT_ALLOW, SCMP_ACT_ERRNO", v, to);
}

static int read_operator(const struct record_reader *r, const json_t *v, void *to)
{
	return read_word(r, operators, "operator", "SCMP_CMP_EQ", v, to);
}

/* "ENOSYS" */
static int read_errno(const struct record_reader *r, const json_t *v, void *to)
{
	struct refusal *how = (void *)((char *)to - offsetof(struct refusal, named));
	const char *name = json_string_value(v);

	for (int code = 1; name && *name && code < 134; code++) {
		const char *known = strerrorname_np(code);

		if (known && strcmp(known, name) == 0) {
			*(int *)to = code;
			return 0;
		}
	}
	snprintf(how->unknown, sizeof(how->unknown), "%s", name ? name : "");
	return 0;
}

/* Numbers too large for jansson's signed integers are reals. */
static int read_value(const struct record_reader *r, const json_t *v, void *to)
{
	scmp_datum_t *ret = to;

	if (json_is_real(v) && json_real_value(v) >= 0 &&
		json_real_value(v) < 1.8446744073709552e19)
		*ret = (scmp_datum_t)json_real_value(v);
	else if (json_is_integer(v))
		*ret = (scmp_datum_t)json_integer_value(v);
	else
		return record_expected(r, "a number", v);
	return 0;
}

static const struct record_row condition_rows[] = {
	{ "arches", RECORD_TEXTS, RECORD_AT(struct conditions, archs) },
	{ "caps", RECORD_TEXTS, RECORD_AT(struct conditions, caps) },
	{ "minKernel", RECORD_TEXT, RECORD_AT(struct conditions, kernel) },
	{ NULL },
};

static const struct record_row arg_rows[] = {
	{ "index", RECORD_NUMBER, RECORD_AT(struct scmp_arg_cmp, arg), .flags = RECORD_MUST,
		.max = ARGS_MAX - 1 },
	{ "op", RECORD_OWN, RECORD_AT(struct scmp_arg_cmp, op), .flags = RECORD_MUST,
		.read = read_operator },
	{ "value", RECORD_OWN, RECORD_AT(struct scmp_arg_cmp, datum_a), .read = read_value },
	{ "valueTwo", RECORD_OWN, RECORD_AT(struct scmp_arg_cmp, datum_b), .read = read_value },
	{ NULL },
};

#define ACTION(type) \
	RECORD_OWN, RECORD_AT(type, how.action), .flags = RECORD_MUST, .read = read_action
#define NUMBER(type) RECORD_NUMBER, RECORD_AT(type, how.error), .max = 4095
#define NAMED(type)  RECORD_OWN, RECORD_AT(type, how.named), .read = read_errno

static const struct record_row rule_rows[] = {
	{ "action", ACTION(struct rule) },
	{ "errnoRet", NUMBER(struct rule) },
	{ "errno", NAMED(struct rule) },
	{ "names", RECORD_TEXTS, RECORD_AT(struct rule, names) },
	{ "name", RECORD_TEXT, RECORD_AT(struct rule, name) },
	{ "args", RECORD_LIST, RECORD_ITEMS(struct rule, args, n_args, arg_rows) },
	{ "includes", RECORD_STRUCT, RECORD_AT(struct rule, in), .rows = condition_rows },
	{ "excludes", RECORD_STRUCT, RECORD_AT(struct rule, out), .rows = condition_rows },
	{ NULL },
};
static const struct rule no_rule = { .how = { .error = -1, .named = EPERM } };

static const struct record_row sub_rows[] = {
	{ "architecture", RECORD_TEXT, RECORD_AT(struct sub, arch), .flags = RECORD_MUST },
	{ "subArchitectures", RECORD_TEXTS, RECORD_AT(struct sub, subs) },
	{ NULL },
};

static const struct record_row rows[] = {
	{ "defaultAction", ACTION(struct profile) },
	{ "defaultErrnoRet", NUMBER(struct profile) },
	{ "defaultErrno", NAMED(struct profile) },
	{ "listenerPath", RECORD_TEXT, RECORD_AT(struct profile, listener) },
	{ "flags", RECORD_TEXTS, RECORD_AT(struct profile, flags) },
	{ "architectures", RECORD_TEXTS, RECORD_AT(struct profile, archs) },
	{ "archMap", RECORD_LIST, RECORD_ITEMS(struct profile, map, n_map, sub_rows) },
	{ "syscalls", RECORD_LIST, RECORD_ITEMS(struct profile, rules, n_rules, rule_rows),
		.init = &no_rule },
	{ NULL },
};

static void profile_done(struct profile *p)
{
	record_done(rows, p);
}

/* --- the filter -------------------------------------------------------------------- */

struct load {
	const struct profile_for *on;
	scmp_filter_ctx ctx;
	uint32_t fallback; /* defaultAction */
	struct mlr_error *err;
};

static int check_errno(const struct refusal *how, struct mlr_error *err)
{
	return how->error >= 0 || !*how->unknown
		? 0
		: mlr_fail(err, EPROTO, "errno: '%s' is the name of no error", how->unknown);
}

static uint32_t action_of(const struct refusal *how)
{
	unsigned code = (unsigned)(how->error >= 0 ? how->error : how->named);

	return how->action == SCMP_ACT_ERRNO(EPERM)    ? SCMP_ACT_ERRNO(code)
		: how->action == SCMP_ACT_TRACE(EPERM) ? SCMP_ACT_TRACE(code)
						       : how->action;
}

static int add_archs(struct load *l, const struct strv *names)
{
	for (size_t i = 0; i < names->n; i++) {
		const struct word *w = find_word(architectures, names->v[i]);
		int r;

		if (!w)
			return mlr_fail(l->err, EPROTO,
				"unknown architecture '%.60s': use SCMP_ARCH_X86_64 and so on",
				names->v[i]);
		r = seccomp_arch_add(l->ctx, w->value);
		/* -EDOM, -EINVAL: other byte order, no such program runs here */
		if (r < 0 && r != -EDOM && r != -EINVAL && r != -EEXIST)
			return mlr_result(l->err, r, "architecture '%s'", names->v[i]);
	}
	return 0;
}

/* Docker's form: add the sub-architectures of this machine's. */
static int add_arch_map(struct load *l, const struct profile *p)
{
	for (size_t i = 0; i < p->n_map; i++) {
		const struct word *w = find_word(architectures, p->map[i].arch);

		if (!w)
			return mlr_fail(
				l->err, EPROTO, "unknown architecture '%.60s'", p->map[i].arch);
		if (w->value == seccomp_arch_native())
			TRY(add_archs(l, &p->map[i].subs));
	}
	return 0;
}

/* How many of these capabilities does the command have? Unknown ones count as missing. */
static size_t count_caps(const struct strv *names, uint64_t caps)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++)
		n += (capability_bits(names->v[i]) & caps) != 0;
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
static int is_meant(struct load *l, const struct rule *rule)
{
	const struct conditions *in = &rule->in, *out = &rule->out;
	int new_in = in->kernel ? is_kernel(in->kernel, l->on->kernel) : 1,
	    new_out = out->kernel ? is_kernel(out->kernel, l->on->kernel) : 0;

	if (new_in < 0 || new_out < 0)
		return mlr_fail(l->err, EPROTO, "invalid minKernel: use a version such as 4.8");
	return (in->archs.n == 0 || strv_has(&in->archs, l->on->arch)) &&
		!strv_has(&out->archs, l->on->arch) &&
		count_caps(&in->caps, l->on->caps) == in->caps.n &&
		count_caps(&out->caps, l->on->caps) == 0 && new_in && !new_out;
}

/* Conditions on one argument are alternatives; conditions on several must all hold (runc's
 * matchCall()). */
static int add_call(
	struct load *l, uint32_t action, int nr, const struct scmp_arg_cmp *args, unsigned n)
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
		return mlr_fail(l->err, EPROTO,
			"an earlier rule has another action for the same arguments");
	return r == 0 || r == -EDOM ? 0 : mlr_result(l->err, r, "libseccomp");
}

static int add_rule(struct load *l, const struct rule *rule)
{
	uint32_t action = action_of(&rule->how);
	int r;

	TRY(check_errno(&rule->how, l->err));
	if (rule->n_args > ARGS_MAX)
		return mlr_fail(l->err, EPROTO, "args is not a list of at most %d", ARGS_MAX);
	r = is_meant(l, rule);
	/* libseccomp rejects a rule whose action is the default. */
	if (r <= 0 || action == l->fallback)
		return r;
	if (rule->name && rule->names.n > 0)
		return mlr_fail(l->err, EPROTO, "both name and names");
	if (!rule->name && rule->names.n == 0)
		return mlr_fail(l->err, EPROTO, "names no system call");
	for (size_t i = 0; i < rule->names.n + (rule->name != NULL); i++) {
		int nr = seccomp_syscall_resolve_name(rule->name ? rule->name : rule->names.v[i]);

		if (nr != __NR_SCMP_ERROR)
			TRY(add_call(l, action, nr, rule->args, (unsigned)rule->n_args));
	}
	return 0;
}

static int set_flags(struct load *l, const struct profile *p)
{
	if (p->listener)
		return mlr_fail(
			l->err, ENOTSUP, "listenerPath: mlrun has no supervisor for a listener");
	for (size_t i = 0; i < p->flags.n; i++) {
		const char *name = p->flags.v[i];
		int r = 0;

		if (strcmp(name, "SECCOMP_FILTER_FLAG_LOG") == 0)
			r = seccomp_attr_set(l->ctx, SCMP_FLTATR_CTL_LOG, 1);
		else if (strcmp(name, "SECCOMP_FILTER_FLAG_SPEC_ALLOW") != 0 &&
			strcmp(name, "SECCOMP_FILTER_FLAG_TSYNC") != 0)
			return mlr_fail(l->err, ENOTSUP, "flags: '%.60s' is unknown", name);
		if (r < 0)
			return mlr_fail(l->err, ENOTSUP, "flags: '%s': %s", name, strerror(-r));
	}
	return 0;
}

static int load(struct load *l, const struct profile *p)
{
	l->fallback = action_of(&p->how);
	l->ctx = seccomp_init(l->fallback);
	if (!l->ctx)
		return mlr_fail(l->err, ENOTSUP, "libseccomp cannot make this filter here");
	TRY(set_flags(l, p));
	if (add_archs(l, &p->archs) < 0)
		return mlr_wrap(l->err, "architectures");
	if (add_arch_map(l, p) < 0)
		return mlr_wrap(l->err, "archMap");
	for (size_t i = 0; i < p->n_rules; i++)
		if (add_rule(l, &p->rules[i]) < 0)
			return mlr_wrap(l->err, "syscalls: [%zu]", i);
	return 0;
}

int profile_load(const char *text, size_t len, const struct profile_for *f, scmp_filter_ctx *ret,
	struct mlr_error *err)
{
	auto_call(profile_done) struct profile p = { .how = { .error = -1, .named = EPERM } };
	const struct record_reader r = { .err = err };
	struct load l = { .on = f, .err = err };
	json_error_t je;
	json_auto_t *o = mlr_json_load(text, len, JSON_REJECT_DUPLICATES, &je);
	int e;

	if (!o)
		return mlr_fail(err, EPROTO, "line %d: %s", je.line, je.text);
	TRY(record_read(&r, rows, o, &p));
	TRY(check_errno(&p.how, err));
	e = load(&l, &p);
	if (e < 0) {
		if (l.ctx)
			seccomp_release(l.ctx);
		return e;
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
