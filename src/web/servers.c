#include "web/web.h"

#include "base/home.h"
#include "base/json.h"
#include "base/record.h"

#include <sys/random.h>

static const struct record_row rows[] = {
	{ "url", RECORD_TEXT, RECORD_AT(struct server, url), .flags = RECORD_MUST },
	{ "socket", RECORD_TEXT, RECORD_AT(struct server, socket) },
	{ "header_file", RECORD_TEXT, RECORD_AT(struct server, header), .flags = RECORD_MUST },
	{ "pid", RECORD_NUMBER, RECORD_AT(struct server, pid) },
	{ "node", RECORD_TEXT, RECORD_AT(struct server, node) },
	{ "directories", RECORD_TEXTS, RECORD_AT(struct server, roots) },
	{ NULL },
};

void server_done(struct server *s)
{
	record_done(rows, s);
	free(s->directory);
	*s = (struct server){ 0 };
}

void server_list_done(struct server_list *l)
{
	free_all(l->v, l->n, server_done);
	*l = (struct server_list){ 0 };
}

json_t *server_json(const struct server *s)
{
	return record_write(rows, s);
}

void server_random(char hex[65])
{
	unsigned char bytes[32];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		abort(); /* never for so few bytes: random(4) */
	for (size_t i = 0; i < sizeof(bytes); i++)
		sprintf(hex + 2 * i, "%02x", bytes[i]);
}

/* The directory of this node's servers; to free(). */
static char *servers_directory(struct mlr_error *err)
{
	auto_free char *runtime = home_runtime_dir(), *cache = NULL;
	char node[HOST_NAME_MAX + 1] = "";

	if (runtime)
		return xasprintf("%s/mlrun-web", runtime);
	cache = home_xdg_dir("XDG_CACHE_HOME", ".cache", err);
	gethostname(node, sizeof(node) - 1);
	return cache ? xasprintf("%s/mlrun/web/%s", cache, node) : NULL;
}

static int lock_of(const char *directory, int flags)
{
	auto_free char *path = xasprintf("%s/lock", directory);

	return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* The process that has a server's lock; 0: it has ended. */
static pid_t holder(const char *directory)
{
	auto_close int fd = lock_of(directory, O_RDWR);
	struct flock lock = { .l_type = F_WRLCK };

	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0)
		return 0;
	return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

int server_make(struct server *ret, struct mlr_error *err)
{
	auto_free char *top = servers_directory(err);
	struct flock lock = { .l_type = F_WRLCK };
	struct server s = { .pid = getpid() };
	auto_free char *keys = NULL;
	int fd;

	if (!top)
		return -err->code;
	s.directory = xasprintf("%s/%d", top, (int)s.pid);
	keys = xasprintf("%s/keys", s.directory);
	file_remove_tree(AT_FDCWD, s.directory, NULL);
	if (file_mkdir_p(AT_FDCWD, keys, 0700, err) < 0) {
		server_done(&s);
		return -err->code;
	}
	fd = lock_of(s.directory, O_RDWR | O_CREAT); /* open as long as this process */
	if (fd < 0 || fcntl(fd, F_SETLK, &lock) < 0) {
		server_done(&s);
		return mlr_fail_errno(err, "lock '%s'", top);
	}
	*ret = s;
	return 0;
}

int server_write(const struct server *s, const char *token, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/server.json", s->directory),
		       *header = xasprintf("Authorization: Bearer %s\n", token),
		       *text = mlr_json_print(server_json(s), JSON_INDENT(2));

	TRY(file_replace(AT_FDCWD, s->header, header, strlen(header), 0600, err));
	return file_replace(AT_FDCWD, path, text, strlen(text), 0600, err);
}

void server_remove(const struct server *s)
{
	if (s->directory)
		file_remove_tree(AT_FDCWD, s->directory, NULL);
}

/* Read one. Returns 1, or 0 if it has ended or was never whole. */
static int read_one(const char *directory, struct server *ret)
{
	const struct record_reader reader = { 0 };
	auto_free char *text = NULL, *path = xasprintf("%s/server.json", directory);
	struct server s = { 0 };
	pid_t pid = holder(directory);
	size_t len;
	json_t *o;
	int r;

	if (!pid) {
		file_remove_tree(AT_FDCWD, directory, NULL);
		return 0;
	}
	if (file_read_regular(AT_FDCWD, path, RUN_TEXT_MAX, &text, &len, NULL) < 0)
		return 0;
	o = json_loadb(text, len, 0, NULL);
	r = record_read(&reader, rows, o, &s);
	json_decref(o);
	s.pid = pid;
	s.directory = xstrdup(directory);
	if (r == 0)
		*ret = s;
	else
		server_done(&s);
	return r == 0;
}

int server_list_read(struct server_list *ret, struct mlr_error *err)
{
	auto_free char *top = servers_directory(err);
	auto_strv struct strv names = STRV_INIT;

	if (!top)
		return -err->code;
	file_list(AT_FDCWD, top, O_NOFOLLOW, &names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *directory = xasprintf("%s/%s", top, names.v[i]);
		struct server s;

		if (read_one(directory, &s))
			*xadd(ret->v, ret->n) = s;
	}
	return 0;
}

/* --- keys of links ----------------------------------------------------------------------- */

int server_key_make(const struct server *s, char key[65], struct mlr_error *err)
{
	auto_free char *path = NULL;

	server_random(key);
	key[32] = '\0'; /* it is typed, now and then */
	path = xasprintf("%s/keys/%s", s->directory, key);
	return file_create(AT_FDCWD, path, "", 0, 0600, err);
}

int server_key_take(const char *keys, const char *key)
{
	auto_free char *path = xasprintf("%s/%s", keys, key);
	struct stat st;

	if (strlen(key) != 32 || strspn(key, "0123456789abcdef") != 32 || lstat(path, &st) < 0 ||
		unlink(path) < 0)
		return 0;
	return mlr_epoch() - (double)st.st_mtime < WEB_KEY_S;
}
