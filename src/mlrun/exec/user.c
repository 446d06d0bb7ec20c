#include "exec/parts.h"

#include "rootfs/lookup.h"

#define TABLE_MAX (4u << 20) /* bytes of an image's passwd or group */

/* Parse a decimal id; (uid_t)-1 is invalid, chown(2). Returns 0 or -1. */
static int parse_id(const char *s, unsigned *ret)
{
	char *end;
	unsigned long n;

	if (*s < '0' || *s > '9')
		return -1;
	errno = 0;
	n = strtoul(s, &end, 10);
	if (*end || errno != 0 || n >= 0xffffffff)
		return -1;
	*ret = (unsigned)n;
	return 0;
}

char *user_find_line(const char *text, const char *name, unsigned id, char *fields[7])
{
	for (const char *s = text; *s;) {
		size_t len = strcspn(s, "\n"), n = 0;
		auto_free char *line = xstrndup(s, len);
		unsigned its_id;

		memset(fields, 0, 7 * sizeof(*fields));
		for (char *rest = line; rest && n < 7;)
			fields[n++] = strsep(&rest, ":");
		if (n >= 3 && *fields[0] && parse_id(fields[2], &its_id) == 0 &&
			(name ? strcmp(fields[0], name) == 0 : its_id == id))
			return take_ptr(&line);
		s += len + (s[len] == '\n');
	}
	return NULL;
}

static void set(char **to, const char *value)
{
	free(*to);
	*to = xstrdup(value);
}

/* Read a table of the image, "" if missing. Names are searched only there. */
static int read_table(
	const struct plan *p, const char *path, int by_name, char **ret, struct mlr_error *err)
{
	int r = rootfs_read(p, path, TABLE_MAX, ret, by_name ? err : NULL);

	if (r == -ENOTSUP && by_name)
		return mlr_hint(err, "give numbers: UID[:GID]");
	if (r < 0 && (!by_name || r == -ENOENT)) {
		*ret = xstrdup("");
		return 0;
	}
	return r;
}

/* has_line: set to 1 if the image knows the user. */
static int set_user(
	const char *user, struct plan *p, int *image_home, int *has_line, struct mlr_error *err)
{
	unsigned uid = 0, gid;
	int by_name = parse_id(user, &uid) < 0;
	auto_free char *text = NULL, *line = NULL;
	char *fields[7];

	TRY(read_table(p, "/etc/passwd", by_name, &text, err));
	line = user_find_line(text, by_name ? user : NULL, uid, fields);
	if (!line && by_name)
		return mlr_fail(err, ENOENT, "the image's /etc/passwd knows no user '%s'", user);
	p->id.uid = uid;
	p->id.gid = uid == 0 || p->id.is_fake_root ? 0 : p->id.host_gid;
	*has_line = line != NULL;
	if (!line)
		return 0;

	parse_id(fields[2], &uid);
	p->id.uid = uid;
	if (fields[3] && parse_id(fields[3], &gid) == 0)
		p->id.gid = gid;
	set(&p->id.name, fields[0]);
	if (fields[5] && fields[5][0] == '/' && fields[5][1]) {
		auto_free char *home = path_clean(fields[5]);

		set(&p->id.home, home);
		*image_home = 1;
	}
	if (fields[6] && fields[6][0] == '/')
		set(&p->id.shell, fields[6]);
	return 0;
}

static void add_group(struct plan *p, gid_t gid)
{
	p->id.groups = xreallocarray(p->id.groups, p->id.n_groups + 1, sizeof(*p->id.groups));
	p->id.groups[p->id.n_groups++] = gid;
}

/* Add the groups of which a user is a member, group(5). */
static void add_groups(const char *text, const char *user, struct plan *p)
{
	for (const char *s = text; *s; s += strcspn(s, "\n"), s += *s == '\n') {
		auto_free char *line = xstrndup(s, strcspn(s, "\n"));
		char *rest = line, *fields[4] = { NULL }, *member;
		unsigned gid;

		for (size_t n = 0; rest && n < 4;)
			fields[n++] = strsep(&rest, ":");
		if (!fields[3] || parse_id(fields[2], &gid) < 0)
			continue;
		while ((member = strsep(&fields[3], ",")))
			if (strcmp(member, user) == 0)
				add_group(p, gid);
	}
}

/* In a fake root, the process stays root, and believes to be the user. */
static void show_user(struct plan *p, const char *name, int image_home, int has_group)
{
	auto_free char *text = NULL;

	p->id.shown_uid = p->id.uid;
	p->id.shown_gid = p->id.gid;
	p->id.uid = p->id.gid = 0;
	add_group(p, p->id.shown_gid);
	if (name && !has_group && read_table(p, "/etc/group", 0, &text, NULL) == 0)
		add_groups(text, name, p);
	if (!image_home)
		set(&p->id.home, p->id.shown_uid == 0 ? "/root" : "/");
	set(&p->id.name, "root");
	set(&p->id.group, "root");
}

static int set_group(const char *group, struct plan *p, struct mlr_error *err)
{
	unsigned gid = 0;
	auto_free char *text = NULL, *line = NULL;
	char *fields[7];

	if (parse_id(group, &gid) < 0) {
		TRY(read_table(p, "/etc/group", 1, &text, err));
		line = user_find_line(text, group, 0, fields);
		if (!line)
			return mlr_fail(
				err, ENOENT, "the image's /etc/group knows no group '%s'", group);
		parse_id(fields[2], &gid);
	}
	p->id.gid = gid;
	return 0;
}

static int change(const char *text, struct plan *p, int *image_home, struct mlr_error *err)
{
	const char *colon = strchr(text, ':');
	auto_free char *user = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
	int has_line = 0, r;

	if (!*user || (colon && !colon[1]))
		return mlr_fail(err, EINVAL, "expected UID[:GID], with neither empty");
	r = set_user(user, p, image_home, &has_line, err);
	if (r == 0 && colon)
		r = set_group(colon + 1, p, err);
	if (r < 0)
		return r;
	if (p->id.is_fake_root) {
		show_user(p, has_line ? p->id.name : NULL, *image_home, colon != NULL);
		return 0;
	}
	/* A new id needs a name, which the image's tables may lack. */
	p->id.is_fake_root = p->id.uid == 0;
	if (p->id.uid == 0) {
		set(&p->id.name, "root");
		if (!*image_home)
			set(&p->id.home, "/root");
	}
	if (p->id.gid != p->id.host_gid)
		set(&p->id.group, p->id.gid == 0 ? "root" : p->id.name);
	return 0;
}

int user_plan(const char *text, struct plan *p, int *image_home, struct mlr_error *err)
{
	return change(text, p, image_home, err) < 0 ? mlr_wrap(err, "--user '%s'", text) : 0;
}
