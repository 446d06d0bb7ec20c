#include "oci/enroot.h"

#include "base/escape.h"

#define HOOK "/etc/rc.local" /* a script of the user's that /etc/rc reads, where it is */

/* --- reading ------------------------------------------------------------------------------ */

int oci_enroot_is_rc(const char *text)
{
	return strstr(text, HOOK) && strstr(text, "exec ");
}

/* Append what a backslash in $'…' stands for. Returns the rest of the text, or NULL. */
static const char *escape(const char *s, FILE *to)
{
	static const char names[] = "nt'\\\"", values[] = "\n\t'\\\"";
	const char *at = *s ? strchr(names, *s) : NULL;
	unsigned code;
	int used;

	if (at) {
		fputc(values[at - names], to);
		return s + 1;
	}
	if (sscanf(s, "%3o%n", &code, &used) != 1 || code == 0 || code > 255)
		return NULL;
	fputc((int)code, to);
	return s + used;
}

/* Append what stands in quotes that were opened before s: ' or ", or $' as '$'. Returns the rest
 * after the closing one, or NULL. */
static const char *quoted(const char *s, char how, FILE *to)
{
	char end = how == '"' ? '"' : '\'';

	while (s && *s && *s != end)
		if (how == '$' && *s == '\\')
			s = escape(s + 1, to);
		else if (how == '"' && strchr("$`\\", *s))
			return NULL;
		else
			fputc(*s++, to);
	return s && *s ? s + 1 : NULL;
}

/*
 * Take the next word of a line of the shell's. Only what is the same in every environment is known:
 * plain letters and quotes.
 *
 * Returns 1 and the word to free(); 0 at the end of the command; -1 for anything else.
 */
static int next_word(const char **line, char **ret)
{
	auto_free char *word = NULL;
	const char *s = *line + strspn(*line, " \t");
	size_t size;
	FILE *to;

	if (strchr("\n;&|", *s))
		return 0;
	to = open_memstream(&word, &size);
	if (!to)
		mlr_oom();
	while (s && !strchr(" \t\n;&|", *s))
		if (*s == '\'')
			s = quoted(s + 1, '\'', to);
		else if (*s == '"')
			s = quoted(s + 1, '"', to);
		else if (*s == '$' && s[1] == '\'')
			s = quoted(s + 2, '$', to);
		else if (*s == '\\' && s[1])
			fputc(s[1], to), s += 2;
		else if (strchr("$`(){}<>*?[~", *s))
			s = NULL;
		else
			fputc(*s++, to);
	fclose(to);
	if (!s)
		return -1;
	*line = s;
	*ret = take_ptr(&word);
	return 1;
}

/* Take the words of a command; up to "$@", where it has that. Returns 1 if it has, 0, or -1 if they
 * cannot be told. */
static int words(const char **line, struct strv *ret)
{
	char *word;
	int r;

	for (;;) {
		*line += strspn(*line, " \t");
		if (strncmp(*line, "\"$@\"", 4) == 0)
			return 1;
		r = next_word(line, &word);
		if (r <= 0)
			return r;
		strv_take(ret, word);
	}
}

/* Go past these letters, if they come next. */
static int comes(const char **line, const char *what)
{
	size_t n = strlen(what);
	int yes = strncmp(*line, what, n) == 0;

	*line += yes ? n : 0;
	return yes;
}

/* "# NAME VALUE". The first line says where the image came from: its name ends with ':'. */
static void read_label(const char *line, struct oci_config *ret)
{
	size_t name = strcspn(line, " \n");

	if (name == 0 || line[name] != ' ' || line[name - 1] == ':')
		return;
	strv_take(&ret->labels, xstrndup(line, name));
	strv_take(&ret->labels, xstrndup(line + name + 1, strcspn(line + name + 1, "\n")));
}

/* "exec ENTRYPOINT… "$@"", and Enroot's other one: "exec ENTRYPOINT… COMMAND…". */
static void read_exec(const char **line, struct oci_config *ret)
{
	auto_strv struct strv all = STRV_INIT;
	int has_arguments = words(line, &all);

	if (has_arguments == 1 && ret->entrypoint.n == 0)
		strv_add_all(&ret->entrypoint, &all);
	else if (has_arguments == 0 && ret->cmd.n == 0)
		for (size_t i = ret->entrypoint.n; i < all.n; i++)
			strv_add(&ret->cmd, all.v[i]);
}

/* The first directory is the image's: mkdir(1) makes what cd goes to. */
static void read_directory(const char **line, struct oci_config *ret)
{
	char *word;

	if (next_word(line, &word) != 1)
		return;
	if (ret->working_dir)
		free(word);
	else
		ret->working_dir = word;
}

void oci_enroot_read_rc(const char *text, struct oci_config *ret)
{
	const char *at = text;

	while (*at) {
		at += strspn(at, " \t");
		if (comes(&at, "# "))
			read_label(at, ret);
		else if (comes(&at, "mkdir -p ") || comes(&at, "cd "))
			read_directory(&at, ret);
		else if (comes(&at, "[ $# -gt 0 ] || set -- "))
			words(&at, &ret->cmd);
		else if (comes(&at, "exec "))
			read_exec(&at, ret);
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
}

void oci_enroot_read_environment(const char *text, struct oci_config *ret)
{
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t len = strcspn(line, "\n"), name = strcspn(line, "=\n");

		if (*line != '#' && name > 0 && line[name] == '=')
			strv_take(&ret->env, xstrndup(line, len));
	}
}

void oci_enroot_read_exports(const char *text, struct oci_config *ret)
{
	for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char *word = NULL;

		at += strspn(at, " \t");
		if (!comes(&at, "export "))
			continue;
		while (next_word(&at, &word) == 1 && strchr(word + (*word == '='), '='))
			strv_take(&ret->env, take_ptr(&word));
		free(word);
	}
}

/* --- writing ------------------------------------------------------------------------------ */

static void put_word(const char *word, FILE *to)
{
	auto_free char *quoted = escape_for_sh(word);

	fputs(quoted, to);
}

static void put_words(const struct strv *v, FILE *to)
{
	for (size_t i = 0; i < v->n; i++) {
		put_word(v->v[i], to);
		fputc(' ', to);
	}
}

/* A comment is one line. */
static void put_comment(const char *name, const char *value, FILE *to)
{
	fprintf(to, "# %s ", name);
	for (; *value; value++)
		fputc(*value == '\n' ? ' ' : *value, to);
	fputc('\n', to);
}

/* Put all but the command. */
static void put_start(const struct oci_config *c, const char *origin, FILE *to)
{
	const char *dir = c->working_dir && *c->working_dir ? c->working_dir : "/";

	put_comment("mlrun-image:", origin, to);
	for (size_t i = 0; i + 1 < c->labels.n; i += 2)
		put_comment(c->labels.v[i], c->labels.v[i + 1], to);
	fputs("mkdir -p ", to);
	put_word(dir, to);
	fputs(" 2>/dev/null\ncd ", to);
	put_word(dir, to);
	fputs(" && unset OLDPWD || exit 1\n[ ! -s " HOOK " ] || . " HOOK "\n", to);
}

char *oci_enroot_rc(const struct oci_config *c, const char *origin)
{
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		mlr_oom();
	if (origin)
		put_start(c, origin, to);
	fputs("[ $# -gt 0 ] || set -- ", to);
	if (c->cmd.n == 0 && c->entrypoint.n == 0)
		put_word("/bin/sh", to);
	put_words(&c->cmd, to);
	fputs("\nexec ", to);
	put_words(&c->entrypoint, to);
	fputs("\"$@\"\n", to);
	if (fclose(to) != 0)
		mlr_oom();
	return text;
}

char *oci_enroot_environment(const struct oci_config *c, struct strv *omitted)
{
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		mlr_oom();
	for (size_t i = 0; i < c->env.n; i++)
		if (strchr(c->env.v[i], '\n'))
			strv_take(omitted, xstrndup(c->env.v[i], strcspn(c->env.v[i], "=")));
		else
			fprintf(to, "%s\n", c->env.v[i]);
	if (fclose(to) != 0)
		mlr_oom();
	return text;
}
