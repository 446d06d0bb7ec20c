#include "base/account.h"

#include "base/base.h"
#include "base/program.h"

#define PROGRAM    "mlrun-account"
#define ANSWER_MAX 8192        /* bytes: three lines, one of them a path */
#define FILE_MAX   (64u << 20) /* bytes of /etc/passwd: half a million users */

void account_done(struct account *a)
{
	free(a->user);
	free(a->home);
	free(a->group);
	*a = (struct account){ 0 };
}

/* Does a line "name:password:id:…" belong to an id? "+name" and "-name" belong to the old compat
 * service. */
static int is_of(const char *line, unsigned long id)
{
	const char *s = strchr(line, ':');
	char *end;

	if (!s || s == line || strchr("+-#", *line))
		return 0;
	s = strchr(s + 1, ':');
	if (!s || s[1] < '0' || s[1] > '9')
		return 0;
	return strtoul(s + 1, &end, 10) == id && (*end == ':' || !*end);
}

/*
 * Find an id's line and cut it into fields. fgetpwent(3) would do, but seeks at every line.
 *
 * Returns the number of fields; 0 if the id is unknown.
 */
static size_t find_line(char *text, unsigned long id, char **field, size_t max)
{
	char *line;
	size_t n = 0;

	while ((line = strsep(&text, "\n")))
		if (is_of(line, id)) {
			while (n < max && (field[n] = strsep(&line, ":")))
				n++;
			return n;
		}
	return 0;
}

/* NULL if it cannot be read. */
static char *read_file(const char *path)
{
	char *text = NULL;

	if (path)
		file_read_regular(AT_FDCWD, path, FILE_MAX, &text, NULL, NULL);
	return text;
}

static void read_passwd(const char *path, uid_t uid, struct account *ret)
{
	auto_free char *text = read_file(path);
	char *field[7];

	if (text && find_line(text, uid, field, ARRAY_LEN(field)) >= 6) {
		ret->user = xstrdup(field[0]);
		ret->home = xstrdup(field[5]);
	}
}

static void read_group(const char *path, gid_t gid, struct account *ret)
{
	auto_free char *text = read_file(path);
	char *field[4];

	size_t n = text ? find_line(text, gid, field, ARRAY_LEN(field)) : 0;

	if (n == 0)
		return;
	ret->group = xstrdup(field[0]);
	ret->is_private = ret->user && strcmp(ret->user, field[0]) == 0 &&
		(n < 4 || !*field[3] || strcmp(field[3], ret->user) == 0);
}

void account_read(const char *passwd, uid_t uid, const char *group, gid_t gid, struct account *ret)
{
	*ret = (struct account){ 0 };
	read_passwd(passwd, uid, ret);
	read_group(group, gid, ret);
}

/* Take a line of the answer; an empty one means unknown. */
static char *take_line(char **text)
{
	char *line = strsep(text, "\n");

	return line && *line ? xstrdup(line) : NULL;
}

static void ask(uid_t uid, gid_t gid, struct account *a)
{
	char uid_text[16], gid_text[16], answer[ANSWER_MAX];
	char *const argv[] = { (char *)PROGRAM, uid_text, gid_text, NULL };
	auto_free char *path = program_path(PROGRAM);
	auto_call(account_done) struct account got = { 0 };
	char *text = answer;
	int status;
	ssize_t n;

	snprintf(uid_text, sizeof(uid_text), "%u", (unsigned)uid);
	snprintf(gid_text, sizeof(gid_text), "%u", (unsigned)gid);
	n = program_ask(path, argv, answer, sizeof(answer) - 1, &status);
	if (n < 0) {
		mlr_debug("'%s': %s", path, strerror((int)-n));
		return;
	}
	answer[n] = '\0';
	got.user = take_line(&text);
	got.home = take_line(&text);
	got.group = take_line(&text);
	if (!a->user) {
		a->user = take_ptr(&got.user);
		a->home = take_ptr(&got.home);
	}
	if (!a->group)
		a->group = take_ptr(&got.group);
}

void account_find(uid_t uid, gid_t gid, struct account *ret)
{
	account_read("/etc/passwd", uid, "/etc/group", gid, ret);
	if (!ret->user || !ret->group)
		ask(uid, gid, ret);
}

void account_find_user(uid_t uid, struct account *ret)
{
	account_read("/etc/passwd", uid, NULL, 0, ret);
	if (!ret->user)
		ask(uid, 0, ret);
}

int account_others_write(const struct stat *st)
{
	auto_call(account_done) struct account a = { 0 };

	if ((st->st_mode & S_IWOTH) || !(st->st_mode & S_IWGRP))
		return (st->st_mode & S_IWOTH) != 0;
	account_read("/etc/passwd", geteuid(), "/etc/group", st->st_gid, &a);
	return st->st_gid != getegid() || !a.is_private;
}
