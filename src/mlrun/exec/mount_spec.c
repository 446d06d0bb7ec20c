#include "exec/users_mounts.h"

#include "base/config.h"

struct mount_spec {
	const char *type, *source, *target;
	unsigned flags;
	struct strv tmpfs; /* options */
	const char *only;  /* a field of only one type, and that type */
	const char *only_type;
};

/* Read one field, up to a comma; *s then points to the comma or the end. */
static char *take_field(const char **s, struct mlr_error *err)
{
	char *field = xmalloc(strlen(*s) + 1), *out = field;
	const char *in = *s;

	if (*in != '"') {
		size_t len = strcspn(in, ",");

		*s += len;
		memcpy(field, in, len);
		field[len] = '\0';
		return field;
	}
	for (in++; *in && (*in != '"' || in[1] == '"'); in++) {
		*out++ = *in;
		in += *in == '"';
	}
	if (*in != '"' || (in[1] && in[1] != ',')) {
		mlr_fail(err, EINVAL,
			*in == '"' ? "expected a comma after '\"'" : "a '\"' is not closed");
		free(field);
		return NULL;
	}
	*out = '\0';
	*s = in + 1;
	return field;
}

static int split(const char *text, struct strv *ret, struct mlr_error *err)
{
	for (const char *s = text;; s++) {
		char *field = take_field(&s, err);

		if (!field)
			return -EINVAL;
		strv_take(ret, field);
		if (!*s)
			return 0;
	}
}

static int set_truth(
	const char *key, const char *value, int flag, unsigned *flags, struct mlr_error *err)
{
	int truth = value ? config_truth(value) : 1;

	if (truth < 0)
		return mlr_fail(err, EINVAL, "%s takes true or false, not '%s'", key, value);
	*flags = truth ? *flags | (unsigned)flag : *flags & ~(unsigned)flag;
	return 0;
}

static int set_type(struct mount_spec *m, const char *value, struct mlr_error *err)
{
	static const struct {
		const char *type, *why, *hint;
	} others[] = {
		{ "volume", "mlrun has no named volumes",
			"type=bind,src=DIR,dst=DST mounts a directory" },
		{ "image", "mlrun mounts no image into another's container",
			"mlrun export makes a directory or a file of one" },
		{ "devpts", "the container has a /dev/pts already", NULL },
		{ "ramfs", "only root may mount it", "type=tmpfs" },
		{ "npipe", "it is Windows'", NULL },
		{ "cluster", "mlrun is not an orchestrator", NULL },
		{ "glob", "mlrun mounts one path at a time", "your shell can write a -v for each" },
	};

	m->type = value;
	if (strcmp(value, "bind") == 0 || strcmp(value, "tmpfs") == 0 ||
		strcmp(value, "overlay") == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		if (strcmp(value, others[i].type) != 0)
			continue;
		mlr_fail(err, ENOTSUP, "type '%s' is not supported: %s", value, others[i].why);
		return others[i].hint ? mlr_hint(err, "%s", others[i].hint) : -ENOTSUP;
	}
	return mlr_fail(err, EINVAL, "invalid mount type '%s': use bind, tmpfs or overlay", value);
}

static int set_tmpfs(
	struct mount_spec *m, const char *key, const char *value, struct mlr_error *err)
{
	auto_free char *word = xasprintf("%s=%s", key + strlen("tmpfs-"), value);

	m->only = key;
	m->only_type = "tmpfs";
	return tmpfs_option(word, &m->tmpfs, err);
}

static int set_bind(struct mount_spec *m, const char *key, const char *value, struct mlr_error *err)
{
	m->only = key;
	m->only_type = "bind";
	if (strcmp(key, "bind-propagation") == 0)
		return volume_flag(value, strlen(value), &m->flags, err);
	if (strcmp(value, "enabled") == 0 || strcmp(value, "readonly") == 0)
		return 0;
	return mlr_fail(err, ENOTSUP,
		"%s=%s is not supported: mlrun mounts a directory with all mounts below it, and "
		"read-only all the way down",
		key, value);
}

/* Keys match in any case, as in Docker. */
static int set_field(struct mount_spec *m, char *field, struct mlr_error *err)
{
	static const struct {
		const char *name;
		unsigned flag;
	} flags[] = {
		{ "readonly", PLAN_READONLY },
		{ "ro", PLAN_READONLY },
		{ "nosuid", PLAN_NOSUID },
		{ "nodev", PLAN_NODEV },
		{ "noexec", PLAN_NOEXEC },
	};
	char *value = strchr(field, '=');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (strcasecmp(field, flags[i].name) == 0)
			return set_truth(field, value, (int)flags[i].flag, &m->flags, err);
	if (strcasecmp(field, "rw") == 0 && !value)
		return 0;
	if (!value && *field == '/') {
		mlr_fail(err, EINVAL, "'%s' is not KEY=VALUE", field);
		return mlr_hint(err,
			strchr(field, ':') ? "-v %s mounts so" : "-v %s:TARGET mounts so", field);
	}
	if (!value || !*value)
		return mlr_fail(err, EINVAL, "'%s' wants a value, %s=...", field, field);
	if (strcasecmp(field, "type") == 0)
		return set_type(m, value, err);
	if (strcasecmp(field, "source") == 0 || strcasecmp(field, "src") == 0)
		m->source = value;
	else if (strcasecmp(field, "destination") == 0 || strcasecmp(field, "dst") == 0 ||
		strcasecmp(field, "target") == 0)
		m->target = value;
	else if (strcasecmp(field, "tmpfs-size") == 0 || strcasecmp(field, "tmpfs-mode") == 0)
		return set_tmpfs(m, field, value, err);
	else if (strcasecmp(field, "bind-propagation") == 0 ||
		strcasecmp(field, "bind-recursive") == 0)
		return set_bind(m, field, value, err);
	else if (strcasecmp(field, "relabel") != 0 && strcasecmp(field, "consistency") != 0)
		return mlr_fail(err, EINVAL,
			"invalid mount field '%s': use type, source, destination, readonly, nosuid, "
			"nodev, noexec, tmpfs-size, tmpfs-mode, bind-propagation or bind-recursive",
			field);
	return 0;
}

static int check(const struct mount_spec *m, struct mlr_error *err)
{
	if (!m->target)
		return mlr_fail(err, EINVAL, "where to? destination=DST is missing");
	if (m->only && strcmp(m->only_type, m->type) != 0)
		return mlr_fail(err, EINVAL, "'%s' is for type=%s, not for type=%s", m->only,
			m->only_type, m->type);
	if (strcmp(m->type, "tmpfs") == 0 && m->source)
		return mlr_fail(err, EINVAL, "a tmpfs has no source");
	if (strcmp(m->type, "tmpfs") != 0 && !m->source)
		return mlr_fail(err, EINVAL, "what? source=SRC is missing");
	if (strcmp(m->type, "overlay") == 0 && (m->flags & PLAN_READONLY)) {
		mlr_fail(err, EINVAL, "an overlay is there to be written to");
		return mlr_hint(err, "type=bind,readonly");
	}
	return 0;
}

static int add(const char *text, struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv fields = STRV_INIT;
	struct mount_spec m = { .type = "bind" };
	int r = split(text, &fields, err);

	for (size_t i = 0; r == 0 && i < fields.n; i++)
		r = set_field(&m, fields.v[i], err);
	if (r == 0)
		r = check(&m, err);
	if (r == 0 && strcmp(m.type, "tmpfs") == 0)
		r = tmpfs_add(m.target, &m.tmpfs, m.flags, p, err);
	else if (r == 0)
		r = volume_add(strcmp(m.type, "bind") == 0 ? PLAN_BIND : PLAN_OVERLAY, m.source,
			m.target, m.flags, p, err);
	strv_done(&m.tmpfs);
	return r;
}

int mount_spec_plan(const char *text, struct plan *p, struct mlr_error *err)
{
	return add(text, p, err) < 0 ? mlr_wrap(err, "--mount '%s'", text) : 0;
}
