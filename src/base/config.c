#include "base/config.h"

#include "base/base.h"
#include "base/account.h"
#include "base/home.h"

#include <ini.h>

#define CONFIG_MAX (1u << 20) /* bytes of a file */
#define REGISTRY   "registry"
#define SITES_FILE SYSCONFDIR "/mlrun/mlrun.conf"

/* All keys, in the order of mlrun.conf(5). */
static const struct config_key keys[] = {
	{ "", "store", CONFIG_PATH, 0, "MLRUN_STORE", NULL },
	{ "", "additional_stores", CONFIG_PATHS, 1, "MLRUN_STORES", NULL },
	{ "", "runs", CONFIG_PATH, 0, "MLRUN_RUNS", NULL },
	{ "exec", "volume", CONFIG_VOLUME, 1, NULL, NULL },
	{ "exec", "env", CONFIG_VARIABLE, 1, NULL, NULL },
	{ "exec", "unset_env", CONFIG_TEXT, 1, NULL, NULL },
	{ "exec", "ca", CONFIG_PATH, 0, NULL, NULL },
	{ "build", "volume", CONFIG_VOLUME, 1, NULL, NULL },
	{ "build", "env", CONFIG_VARIABLE, 1, NULL, NULL },
	{ "build", "ca", CONFIG_PATH, 0, NULL, NULL },
	{ "exec", "gpu", CONFIG_GPU, 0, "MLRUN_GPU", "auto" },
	{ "exec", "home", CONFIG_TRUTH, 0, "MLRUN_HOME", "false" },
	{ "exec", "mpi", CONFIG_MPI, 0, "MLRUN_MPI", "auto" },
	{ "exec", "pull", CONFIG_PULL, 0, "MLRUN_PULL", "missing" },
	{ "exec", "record", CONFIG_TRUTH, 0, "MLRUN_RECORD", "true" },
	{ "mpi", "libraries", CONFIG_PATHS, 1, NULL, NULL },
	{ "mpi", "compatibility", CONFIG_LEVEL, 0, NULL, "major" },
	{ "apptainer", "library", CONFIG_TEXT, 0, NULL, NULL },
	{ REGISTRY, "mirror", CONFIG_HOST, 1, NULL, NULL },
	{ REGISTRY, "token_server", CONFIG_HOST, 1, NULL, NULL },
	{ REGISTRY, "timeout", CONFIG_SECONDS, 0, NULL, "30" },
	{ REGISTRY, "insecure", CONFIG_TRUTH, 0, NULL, "false" },
	{ REGISTRY, "ca", CONFIG_PATH, 0, NULL, NULL },
	{ REGISTRY, "client_cert", CONFIG_PATH, 0, NULL, NULL },
	{ REGISTRY, "client_key", CONFIG_PATH, 0, NULL, NULL },
};

/* The state of parsing one file; libinih gets a line at a time. */
struct parse {
	struct config *c;
	const char *file, *text, *end;
	int line, is_sites;
	int failed;  /* described in *err */
	int pending; /* the last line is not empty, and take_value() has not got it */
	char *section;
	struct mlr_error *err;
};

static int fail_at(struct parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fail_at(struct parse *p, const char *fmt, ...)
{
	auto_free char *words = NULL;
	va_list ap;

	va_start(ap, fmt);
	words = xvasprintf(fmt, ap);
	va_end(ap);
	if (!p->failed)
		mlr_fail(p->err, EPROTO, "%s:%d: %s", p->file, p->line, words);
	p->failed = 1;
	return 0; /* means failure to libinih */
}

/* Does a section's name, as in struct config_value, belong to this kind of section? */
static int is_of(const char *section, const char *kind)
{
	size_t n = strlen(kind);

	return strncasecmp(section, kind, n) == 0 &&
		(!section[n] || (section[n] == ' ' && strcmp(kind, REGISTRY) == 0));
}

static const struct config_key *find_key(const char *section, const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (is_of(section, keys[i].section) && strcmp(keys[i].key, key) == 0)
			return &keys[i];
	return NULL;
}

/* The section that a key belongs to, or NULL for an unknown key. */
static const char *section_of(const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(keys[i].key, key) == 0)
			return keys[i].section;
	return NULL;
}

/* The ']' at a section's end, or NULL. Only a comment may follow it. Brackets around an IPv6
 * address come before it. */
static const char *find_close(const char *line, size_t len)
{
	const char *end = line + len;

	for (const char *s = line; s < end; s++) {
		const char *next = s + 1;

		while (next < end && isspace((unsigned char)*next))
			next++;
		if (*s == ']' && (next == end || *next == ';' || *next == '#'))
			return s;
	}
	return NULL;
}

/* "HOST", "HOST:PORT" or an IPv6 address in brackets: the part of an image's name before the first
 * '/'. */
static int is_host(const char *s, size_t n)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";

	return n > 0 && strspn(s, letters) >= n;
}

/* Parse "[exec]", "[build]", "[mpi]", "[apptainer]" or "[registry HOST]", ignoring spaces; libinih
 * would cut section names at 49 bytes. */
static void begin_section(struct parse *p, const char *line, size_t len)
{
	static const char *const plain[] = { "exec", "build", "mpi", "apptainer" };
	const char *close = find_close(line, len), *word, *host;
	auto_free char *name = NULL;
	size_t n, host_n;

	free(p->section);
	p->section = NULL;
	if (!close) {
		fail_at(p, "a section's name ends with ']'");
		return;
	}
	name = xstrndup(line + 1, (size_t)(close - line - 1));
	word = name + strspn(name, " \t");
	n = strcspn(word, " \t");
	host = word + n + strspn(word + n, " \t");
	host_n = strcspn(host, " \t");
	for (size_t i = 0; i < ARRAY_LEN(plain) && !*host; i++)
		if (n == strlen(plain[i]) && strncasecmp(word, plain[i], n) == 0)
			p->section = xstrdup(plain[i]);
	if (p->section)
		return;
	if (n == strlen(REGISTRY) && strncasecmp(word, REGISTRY, n) == 0 && is_host(host, host_n) &&
		!host[host_n + strspn(host + host_n, " \t")])
		p->section = xasprintf(REGISTRY " %.*s", (int)host_n, host);
	else
		fail_at(p,
			"unknown section '%.60s': use [exec], [build], [mpi], [apptainer] or [registry HOST]",
			name);
}

/*
 * Give libinih the next line: without leading spaces, which would make it a continuation of the
 * line above, and never cut in two, which libinih would do silently.
 */
static char *next_line(char *buf, int size, void *ctx)
{
	struct parse *p = ctx;
	const char *line = p->text, *eol;
	size_t len;

	if (p->pending)
		fail_at(p, "neither 'KEY = VALUE' nor a [section]");
	if (p->text == p->end || p->failed)
		return NULL;
	eol = memchr(line, '\n', (size_t)(p->end - line));
	p->text = eol ? eol + 1 : p->end;
	len = (size_t)((eol ? eol : p->end) - line);
	p->line++;
	while (len > 0 && isspace((unsigned char)*line)) {
		line++;
		len--;
	}
	if (memchr(line, '\0', len)) {
		fail_at(p, "a NUL byte: not a text file");
		return NULL;
	}
	if (len > 0 && *line == '[') {
		begin_section(p, line, len);
		len = 0;
	}
	if (len > 0 && strchr(";#", *line))
		len = 0;
	if (len > (size_t)size - 2) {
		fail_at(p, "longer than %d bytes; a list may be given as several lines", size - 2);
		return NULL;
	}
	p->pending = len > 0;
	memcpy(buf, line, len);
	memcpy(buf + len, "\n", 2);
	return buf;
}

static int fail_misplaced(struct parse *p, const char *key)
{
	const char *section = section_of(key);

	if (!section)
		return fail_at(p, "mlrun knows no setting '%s'", key);
	if (!*section)
		return fail_at(p, "'%s' stands above the first section", key);
	return fail_at(p, "'%s' belongs under %s", key,
		strcmp(section, REGISTRY) == 0 ? "a [registry HOST]" : "[exec]");
}

static int take_value(void *ctx, const char *section, const char *key, const char *value)
{
	struct parse *p = ctx;
	const struct config_key *k = find_key(p->section ? p->section : "", key);
	struct mlr_error why = MLR_ERROR_INIT;
	auto_free char *judged = NULL;
	struct config_value *v;

	p->pending = 0;
	if (p->failed)
		return 0;
	if (!k)
		return fail_misplaced(p, key);
	if (!*value)
		return fail_at(p, "'%s' has no value", key);
	judged = config_judge(k->kind, value, &why);
	if (!judged)
		return fail_at(p, "%s", why.text);
	v = xadd(p->c->v, p->c->n);
	*v = (struct config_value){ xstrdup(p->section ? p->section : ""), xstrdup(key),
		take_ptr(&judged), xstrdup(p->file), p->line, p->is_sites };
	return 1;
}

static int parse_text(struct config *ret, const char *text, size_t len, const char *file,
	int is_sites, struct mlr_error *err)
{
	struct parse p = { .c = ret,
		.file = file,
		.text = text,
		.end = text + len,
		.is_sites = is_sites,
		.err = err };
	int r;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		p.text += 3; /* the byte-order mark that some editors write */
	r = ini_parse_stream(next_line, &p, take_value, &p);
	free(p.section);
	if (p.failed)
		return -EPROTO;
	return r < 0 ? mlr_fail(err, ENOMEM, "%s: no memory to read it", file) : 0;
}

int config_parse(
	struct config *ret, const char *text, size_t len, const char *file, struct mlr_error *err)
{
	return parse_text(ret, text, len, file, 0, err);
}

/* A file that other users may write to could name their registries and stores. /dev/null is
 * safe. */
static int check_owner(int fd, const char *path, int is_sites, struct mlr_error *err)
{
	struct stat sb;

	if (fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "%s", path);
	if (S_ISDIR(sb.st_mode))
		return mlr_fail(err, EISDIR, "%s: %s", path, strerror(EISDIR));
	if (!S_ISREG(sb.st_mode))
		return 0;
	if (is_sites ? (sb.st_mode & S_IWOTH) != 0 : account_others_write(&sb)) {
		mlr_fail(err, EACCES, "%s: others than its owner may write to it (mode %o)", path,
			(unsigned)sb.st_mode & 07777);
		return mlr_hint(err, "chmod go-w '%s'", path);
	}
	if (!is_sites && sb.st_uid != geteuid() && sb.st_uid != 0)
		return mlr_fail(err, EACCES, "%s: belongs to user %ld", path, (long)sb.st_uid);
	return 0;
}

static int read_file(
	struct config *c, const char *path, int is_sites, int must, struct mlr_error *err)
{
	static int told; /* a command may load the files more than once */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	auto_free char *text = NULL;
	ssize_t n;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !must)
		return 0;
	/* A home directory may be another user's, as after "su" without "-". */
	if (fd < 0 && errno == EACCES && !is_sites && !must) {
		if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
			mlr_warning("configuration: %s: %s, ignoring", path, strerror(errno));
		return 0;
	}
	if (fd < 0)
		return mlr_fail_errno(err, "%s", path);
	TRY(check_owner(fd, path, is_sites, err));
	text = xmalloc(CONFIG_MAX + 1);
	n = file_read_full(fd, text, CONFIG_MAX + 1);
	if (n < 0)
		return mlr_fail(err, (int)-n, "%s: %s", path, strerror((int)-n));
	if (n > (ssize_t)CONFIG_MAX)
		return mlr_fail(err, EFBIG, "%s: larger than %u bytes", path, CONFIG_MAX);
	return parse_text(c, text, (size_t)n, path, is_sites, err);
}

/* $MLRUN_CONFIG, if set. */
static const char *named_file(void)
{
	const char *named = getenv("MLRUN_CONFIG");

	return named && *named ? named : NULL;
}

/* NULL if there is no home directory */
static char *users_file(void)
{
	auto_free char *dir = home_xdg_dir("XDG_CONFIG_HOME", ".config", NULL);

	return dir ? xasprintf("%s/mlrun/mlrun.conf", dir) : NULL;
}

static int read_files(struct config *c, struct mlr_error *err)
{
	auto_free char *users = NULL;

	if (named_file())
		return read_file(c, named_file(), 0, 1, err);
	TRY(read_file(c, SITES_FILE, 1, 0, err));
	users = users_file();
	return users ? read_file(c, users, 0, 0, err) : 0;
}

void config_files(struct strv *ret)
{
	auto_free char *users = users_file();

	if (named_file()) {
		strv_add(ret, named_file());
		return;
	}
	strv_add(ret, SITES_FILE);
	if (users)
		strv_add(ret, users);
}

int config_load(struct config *ret, struct mlr_error *err)
{
	auto_call(config_done) struct config c = { 0 };
	int r = read_files(&c, err);

	if (r < 0) {
		mlr_wrap(err, "configuration");
		return r;
	}
	*ret = take_struct(&c, { 0 });
	return 0;
}

void config_done(struct config *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->v[i].section);
		free(c->v[i].key);
		free(c->v[i].value);
		free(c->v[i].file);
	}
	free(c->v);
	*c = (struct config){ 0 };
}

const struct config_key *config_keys(size_t *n)
{
	*n = ARRAY_LEN(keys);
	return keys;
}

const char *config_origin(const struct config_value *v)
{
	return v->is_sites ? "site" : "config";
}

static int is_it(const struct config_value *v, const char *section, const char *key)
{
	return strcasecmp(v->section, section) == 0 && strcmp(v->key, key) == 0;
}

const struct config_value *config_get(const struct config *c, const char *section, const char *key)
{
	for (size_t i = c->n; i > 0; i--)
		if (is_it(&c->v[i - 1], section, key))
			return &c->v[i - 1];
	return NULL;
}

void config_list(const struct config *c, const char *section, const char *key, struct strv *ret)
{
	const struct config_key *k = find_key(section, key);

	for (size_t i = 0; i < c->n; i++) {
		auto_free char *copy = xstrdup(c->v[i].value);
		char *at = NULL;

		if (!is_it(&c->v[i], section, key))
			continue;
		if (!k || k->kind != CONFIG_PATHS) {
			strv_add(ret, copy);
			continue;
		}
		for (char *s = strtok_r(copy, ":", &at); s; s = strtok_r(NULL, ":", &at))
			strv_add(ret, s);
	}
}

int config_word(const struct config *c, const char *section, const char *key, char **ret,
	int *is_sites, struct mlr_error *err)
{
	const struct config_key *k = find_key(section, key);
	const char *env = k->variable ? getenv(k->variable) : NULL;
	const struct config_value *v;

	if (env && *env) {
		*ret = config_judge(k->kind, env, err);
		*is_sites = 0;
		return *ret ? 0 : mlr_wrap(err, "environment variable %s", k->variable);
	}
	v = c ? config_get(c, section, key) : NULL;
	*is_sites = v && v->is_sites;
	*ret = v ? xstrdup(v->value) : k->standard ? xstrdup(k->standard) : NULL;
	return 0;
}
