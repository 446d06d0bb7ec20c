#include "exec/users_mounts.h"

#define DEFAULT_MODE "1777" /* Docker's */

/* tmpfs(5): a number with k, m or g, or a percentage of the memory; Docker's "b" means bytes. */
static char *size_value(const char *s)
{
	static const char units[] = "kKmMgG";
	size_t digits = strspn(s, "0123456789");
	const char *unit = s[digits] ? strchr(units, s[digits]) : NULL;
	unsigned long long n;

	if (digits == 0 || digits > 18 || (s[digits] && s[digits + 1]))
		return NULL;
	n = strtoull(s, NULL, 10);
	if (n == 0)
		return NULL;
	if (s[digits] == '%')
		return n <= 100 ? xstrdup(s) : NULL;
	if (s[digits] == 'b' || s[digits] == 'B')
		return xstrndup(s, digits);
	if (s[digits] && (!unit || n >> (62 - 10 * ((unit - units) / 2 + 1))))
		return NULL;
	return xstrdup(s);
}

static char *mode_value(const char *s)
{
	char *end;
	unsigned long mode = strtoul(s, &end, 8);

	return *s >= '0' && *s <= '7' && !*end && mode <= 07777 ? xasprintf("%lo", mode) : NULL;
}

static char *number_value(const char *s)
{
	size_t digits = strspn(s, "0123456789");

	return digits > 0 && digits < 19 && !s[digits] ? xstrdup(s) : NULL;
}

/* tmpfs(5) */
static char *huge_value(const char *s)
{
	static const char *const known[] = { "always", "within_size", "advise", "never" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(s, known[i]) == 0)
			return xstrdup(s);
	return NULL;
}

int tmpfs_option(const char *word, struct strv *options, struct mlr_error *err)
{
	static const struct {
		const char *key;
		char *(*value)(const char *s);
		const char *wanted;
	} known[] = {
		{ "size", size_value, "a size such as 512m, 2g or 50%" },
		{ "mode", mode_value, "an octal mode such as 1777 or 700" },
		{ "nr_inodes", number_value, "a number" },
		{ "huge", huge_value, "always, within_size, advise or never" },
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t len = strlen(known[i].key);

		if (strncmp(word, known[i].key, len) != 0 || word[len] != '=')
			continue;
		auto_free char *value = known[i].value(word + len + 1);

		if (!value)
			return mlr_fail(err, EINVAL, "%s takes %s, not '%s'", known[i].key,
				known[i].wanted, word + len + 1);
		strv_addf(options, "%s=%s", known[i].key, value);
		return 0;
	}
	return -ENOENT;
}

int tmpfs_add(const char *target, const struct strv *options, unsigned flags, struct plan *p,
	struct mlr_error *err)
{
	auto_free char *text = xstrdup("mode=" DEFAULT_MODE);

	TRY(plan_mount_add(p, PLAN_TMPFS, NULL, target, flags, PLAN_FROM_USER, err));
	/* The kernel takes the last of repeated options. */
	for (size_t i = 0; i < options->n; i++) {
		char *more = xasprintf("%s,%s", text, options->v[i]);

		free(text);
		text = more;
	}
	p->mounts[p->n_mounts - 1].options = take_ptr(&text);
	return 0;
}

static int parse_options(char *s, struct strv *options, unsigned *flags, struct mlr_error *err)
{
	char *save = NULL;

	for (char *word = strtok_r(s, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		int r = tmpfs_option(word, options, err);

		if (r == -ENOENT) {
			r = volume_flag(word, strlen(word), flags, err);
			if (r == -EINVAL)
				mlr_fail(err, EINVAL,
					"invalid tmpfs option '%s': use size=, mode=, nr_inodes=, huge=, ro, "
					"noexec, nosuid or nodev",
					word);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int tmpfs_plan(const char *text, struct plan *p, struct mlr_error *err)
{
	const char *colon = strchr(text, ':');
	auto_free char *target = colon ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
	auto_free char *rest = xstrdup(colon ? colon + 1 : "");
	auto_strv struct strv options = STRV_INIT;
	unsigned flags = 0;
	int r;

	r = parse_options(rest, &options, &flags, err);
	if (r == 0)
		r = tmpfs_add(target, &options, flags, p, err);
	return r < 0 ? mlr_wrap(err, "--tmpfs '%s'", text) : 0;
}
