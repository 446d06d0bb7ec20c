#include "base/config.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/home.h"
#include "base/log.h"
#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define CONFIG_MAX  (1u << 20) /* bytes of a file */
#define SECONDS_MAX 3600
#define REGISTRY    "registry "

enum kind { HOST, TRUTH, SECONDS, PATH, PATHS };

/* Every key there is. */
static const struct known {
	const char *key;
	int of_registry;
	enum kind kind;
} known_keys[] = {
	{ "store", 0, PATH },
	{ "additional_stores", 0, PATHS },
	{ "mirror", 1, HOST },
	{ "token_server", 1, HOST },
	{ "timeout", 1, SECONDS },
	{ "insecure", 1, TRUTH },
	{ "ca", 1, PATH },
	{ "client_cert", 1, PATH },
	{ "client_key", 1, PATH },
};

/* One file on its way through libinih, which gets a line at a time. */
struct parse {
	struct config *c;
	const char *file, *text, *end;
	int line;
	int failed;  /* told in *err */
	int pending; /* the last line is not empty, and take_value() has not seen it */
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
	return 0; /* libinih's word for failure */
}

static const struct known *find_known(const char *key, int of_registry)
{
	for (size_t i = 0; i < ARRAY_LEN(known_keys); i++)
		if (known_keys[i].of_registry == of_registry && strcmp(known_keys[i].key, key) == 0)
			return &known_keys[i];
	return NULL;
}

/* The ']' at a section's end, or NULL: nothing but a comment may follow it. Those around an IPv6
 * address are within. */
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

/* "[registry HOST]", blanks aside; libinih would cut names of sections at 49 bytes. */
static void begin_section(struct parse *p, const char *line, size_t len)
{
	const char *close = find_close(line, len), *host;
	auto_free char *name = NULL;
	size_t n = 0;

	free(p->section);
	p->section = NULL;
	if (!close) {
		fail_at(p, "a section's name ends with ']'");
		return;
	}
	name = xstrndup(line + 1, (size_t)(close - line - 1));
	host = name + strspn(name, " \t");
	if (strncasecmp(host, REGISTRY, strlen(REGISTRY)) == 0) {
		host += strlen(REGISTRY);
		host += strspn(host, " \t");
		n = strcspn(host, " \t");
	}
	if (n == 0 || host[n + strspn(host + n, " \t")])
		fail_at(p, "section '%.60s' is none of mlrun's: only [registry HOST] is", name);
	else
		p->section = xasprintf(REGISTRY "%.*s", (int)n, host);
}

/*
 * The next line, for libinih: without blanks before it, which would make it a continuation of the
 * line above, and never cut in two, which libinih would do in silence.
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
		fail_at(p, "a NUL byte: this is no text file");
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

/* The environment variable that "NAME…" or "{NAME}…" begins with; *s moves behind it. */
static const char *variable(struct parse *p, const char **s)
{
	int braces = **s == '{';
	const char *name = *s + braces;
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
	auto_free char *copy = xstrndup(name, n);
	const char *value = n > 0 ? getenv(copy) : NULL;

	*s = name + n + braces;
	if (n == 0 || (braces && name[n] != '}'))
		fail_at(p, "a '$' without the name of an environment variable");
	else if (!value || !*value)
		fail_at(p, "the environment variable %s is not set", copy);
	return p->failed ? NULL : value;
}

/* A file's name with its variables replaced, or NULL after a failure. */
static char *expand(struct parse *p, const char *s)
{
	auto_free char *out = xstrdup("");

	if (s[0] == '~' && s[1] == '/') {
		struct mlr_error err = MLR_ERROR_INIT;
		char *home = home_dir(&err);

		if (!home) {
			fail_at(p, "%s", err.text);
			return NULL;
		}
		free(out);
		out = home;
		s++;
	}
	while (*s) {
		size_t n = *s == '$' ? 0 : strcspn(s, "$");
		const char *more = s;
		char *longer;

		if (n == 0) {
			s++;
			more = variable(p, &s);
			if (!more)
				return NULL;
			n = strlen(more);
		} else {
			s += n;
		}
		longer = xasprintf("%s%.*s", out, (int)n, more);
		free(out);
		out = longer;
	}
	return take_ptr(&out);
}

int config_truth(const char *word)
{
	static const char *const yes[] = { "true", "yes", "on", "1" },
				 *const no[] = { "false", "no", "off", "0" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcasecmp(word, yes[i]) == 0)
			return 1;
		if (strcasecmp(word, no[i]) == 0)
			return 0;
	}
	return -1;
}

static char *truth(struct parse *p, const char *value)
{
	int is = config_truth(value);

	if (is < 0)
		fail_at(p, "'%s' is neither true nor false", value);
	return is < 0 ? NULL : xstrdup(is ? "true" : "false");
}

static char *absolute_path(struct parse *p, const char *value)
{
	auto_free char *path = expand(p, value);

	if (path && path[0] != '/')
		fail_at(p, "'%s' is not an absolute path", path);
	return p->failed ? NULL : take_ptr(&path);
}

static char *absolute_paths(struct parse *p, const char *value)
{
	auto_free char *all = xstrdup(""), *copy = xstrdup(value);
	char *at = NULL;

	for (char *s = strtok_r(copy, ":", &at); s; s = strtok_r(NULL, ":", &at)) {
		auto_free char *one = absolute_path(p, s);
		char *longer;

		if (!one)
			return NULL;
		longer = xasprintf("%s%s%s", all, *all ? ":" : "", one);
		free(all);
		all = longer;
	}
	if (!*all)
		fail_at(p, "'%s' names no directory", value);
	return p->failed ? NULL : take_ptr(&all);
}

static char *seconds(struct parse *p, const char *value)
{
	char *end;
	long n = strtol(value, &end, 10);

	if (!isdigit((unsigned char)*value) || *end || n < 1 || n > SECONDS_MAX)
		fail_at(p, "'%s' is not a number of seconds from 1 to %d", value, SECONDS_MAX);
	return p->failed ? NULL : xasprintf("%ld", n);
}

static char *host_name(struct parse *p, const char *value)
{
	if (!strstr(value, "://") && value[strcspn(value, " \t@")] == '\0')
		return xstrdup(value);
	fail_at(p, "'%s' is not a host: no 'https://' and no user's name stands before one", value);
	return NULL;
}

static char *judge_value(struct parse *p, enum kind kind, const char *value)
{
	switch (kind) {
	case TRUTH:
		return truth(p, value);
	case SECONDS:
		return seconds(p, value);
	case PATH:
		return absolute_path(p, value);
	case PATHS:
		return absolute_paths(p, value);
	default:
		return host_name(p, value);
	}
}

static int take_value(void *ctx, const char *section, const char *key, const char *value)
{
	struct parse *p = ctx;
	const struct known *k = find_known(key, p->section != NULL);
	auto_free char *judged = NULL;
	struct config_value *v;

	(void)section;
	p->pending = 0;
	if (p->failed)
		return 0;
	if (!k && find_known(key, !p->section))
		return fail_at(p,
			p->section ? "'%s' stands above the first [registry HOST]"
				   : "'%s' belongs under a [registry HOST]",
			key);
	if (!k)
		return fail_at(p, "mlrun knows no setting '%s'", key);
	if (!*value)
		return fail_at(p, "'%s' has no value", key);
	judged = judge_value(p, k->kind, value);
	if (!judged)
		return 0;
	p->c->v = xreallocarray(p->c->v, p->c->n + 1, sizeof(*p->c->v));
	v = &p->c->v[p->c->n++];
	*v = (struct config_value){ xstrdup(p->section ? p->section : ""), xstrdup(key),
		take_ptr(&judged), xstrdup(p->file), p->line };
	return 1;
}

int config_parse(
	struct config *ret, const char *text, size_t len, const char *file, struct mlr_error *err)
{
	struct parse p = { .c = ret, .file = file, .text = text, .end = text + len, .err = err };
	int r;

	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		p.text += 3; /* the byte-order mark that some editors write */
	r = ini_parse_stream(next_line, &p, take_value, &p);
	free(p.section);
	if (p.failed)
		return -EPROTO;
	return r < 0 ? mlr_fail(err, ENOMEM, "%s: no memory to read it", file) : 0;
}

/* What others may write to could name registries and stores of theirs. /dev/null is no such file.
 */
static int check_owner(int fd, const char *path, int is_sites, struct mlr_error *err)
{
	struct stat sb;

	if (fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "%s", path);
	if (S_ISDIR(sb.st_mode))
		return mlr_fail(err, EISDIR, "%s: %s", path, strerror(EISDIR));
	if (!S_ISREG(sb.st_mode))
		return 0;
	if (sb.st_mode & (is_sites ? S_IWOTH : S_IWGRP | S_IWOTH)) {
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
	static int told; /* a command may load more than once */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	auto_free char *text = NULL;
	ssize_t n;
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !must)
		return 0;
	/* A home directory may be another user's, as with "su" and HOME kept. */
	if (fd < 0 && errno == EACCES && !is_sites && !must) {
		if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
			mlr_warning("configuration: %s: %s, ignoring", path, strerror(errno));
		return 0;
	}
	if (fd < 0)
		return mlr_fail_errno(err, "%s", path);
	r = check_owner(fd, path, is_sites, err);
	if (r < 0)
		return r;
	text = xmalloc(CONFIG_MAX + 1);
	n = file_read_full(fd, text, CONFIG_MAX + 1);
	if (n < 0)
		return mlr_fail(err, (int)-n, "%s: %s", path, strerror((int)-n));
	if (n > (ssize_t)CONFIG_MAX)
		return mlr_fail(err, EFBIG, "%s: larger than %u bytes", path, CONFIG_MAX);
	return config_parse(c, text, (size_t)n, path, err);
}

static int read_files(struct config *c, struct mlr_error *err)
{
	const char *named = getenv("MLRUN_CONFIG");
	auto_free char *dir = NULL, *path = NULL;
	int r;

	if (named && *named)
		return read_file(c, named, 0, 1, err);
	r = read_file(c, SYSCONFDIR "/mlrun/mlrun.conf", 1, 0, err);
	if (r < 0)
		return r;
	dir = home_xdg_dir("XDG_CONFIG_HOME", ".config", NULL);
	if (!dir)
		return 0; /* nobody at home: nothing to read */
	path = xasprintf("%s/mlrun/mlrun.conf", dir);
	return read_file(c, path, 0, 0, err);
}

int config_load(struct config *ret, struct mlr_error *err)
{
	auto_call(config_done) struct config c = CONFIG_INIT;
	int r = read_files(&c, err);

	if (r < 0) {
		mlr_wrap(err, "configuration");
		return r;
	}
	*ret = c;
	c = (struct config)CONFIG_INIT;
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
	*c = (struct config)CONFIG_INIT;
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
	const struct known *k = find_known(key, *section != '\0');

	for (size_t i = 0; i < c->n; i++) {
		auto_free char *copy = xstrdup(c->v[i].value);
		char *at = NULL;

		if (!is_it(&c->v[i], section, key))
			continue;
		if (!k || k->kind != PATHS) {
			strv_add(ret, copy);
			continue;
		}
		for (char *s = strtok_r(copy, ":", &at); s; s = strtok_r(NULL, ":", &at))
			strv_add(ret, s);
	}
}
