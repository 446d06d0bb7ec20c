#include "shifter/udiroot.h"

#define UDIROOT_MAX (1u << 20) /* bytes */
#define MODULE      "module_"

/* --- keys --------------------------------------------------------------------- */

enum kind { LIST, FILE_SYSTEMS, WORD, SWITCH_OFF };

struct key {
	const char *name;
	enum kind kind;
	size_t at;
};

/* Of the site and, after "module_<name>_", of a module. */
static const struct key set_keys[] = {
	{ "siteFs", FILE_SYSTEMS, offsetof(struct udiroot_set, fs) },
	{ "siteEnv", LIST, offsetof(struct udiroot_set, env) },
	{ "siteEnvAppend", LIST, offsetof(struct udiroot_set, append) },
	{ "siteEnvPrepend", LIST, offsetof(struct udiroot_set, prepend) },
	{ "siteEnvUnset", LIST, offsetof(struct udiroot_set, unset) },
};

static const struct key site_keys[] = {
	{ "defaultModules", LIST, offsetof(struct udiroot, standard_modules) },
	{ "defaultImageType", WORD, offsetof(struct udiroot, image_type) },
};

static const struct key module_keys[] = {
	{ "conflict", LIST, offsetof(struct udiroot_module, conflicts) },
	{ "copyPath", WORD, offsetof(struct udiroot_module, copy_path) },
	{ "userhook", WORD, offsetof(struct udiroot_module, user_hook) },
	{ "roothook", WORD, offsetof(struct udiroot_module, root_hook) },
	{ "enabled", SWITCH_OFF, offsetof(struct udiroot_module, is_off) },
};

/* Shifter's own; here they change nothing: images, mounts and their format are mlrun's, and nothing
 * runs as root. */
static const char *const other_keys[] = { "udiMount", "loopMount", "imagePath", "udiRootPath",
	"perNodeCachePath", "perNodeCacheSizeLimit", "perNodeCacheAllowedFsType", "usersToImport",
	"sitePreMountHook", "sitePostMountHook", "optUdiImage", "etcPath", "allowLocalChroot",
	"allowLibcPwdCalls", "optionalSshdAsRoot", "populateEtcDynamically", "autoLoadKernelModule",
	"mountPropagationStyle", "mountUdiRootWritable", "maxGroupCount", "modprobePath",
	"insmodPath", "cpPath", "mvPath", "chmodPath", "ddPath", "mkfsXfsPath", "rootfsType",
	"gatewayTimeout", "kmodBasePath", "kmodCacheFile", "imageGateway", "batchType", "system",
	"nodeContextPrefix", "ldconfigPath", "mountPath" };

static const struct key *find_key(const struct key *keys, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static int is_other(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(other_keys); i++)
		if (strcmp(other_keys[i], name) == 0)
			return 1;
	return 0;
}

/* --- values -------------------------------------------------------------------- */

static void add_words(struct strv *to, char *value, const char *between)
{
	char *rest = value, *word;

	while ((word = strsep(&rest, between))) {
		word += strspn(word, " \t");
		if (*word)
			strv_add(to, word);
	}
}

static void set_value(void *object, const struct key *key, char *value)
{
	void *field = (char *)object + key->at;

	switch (key->kind) {
	case LIST:
		add_words(field, value, " \t");
		break;
	case FILE_SYSTEMS:
		add_words(field, value, ";");
		break;
	case WORD:
		free(*(char **)field);
		*(char **)field = *value ? xstrdup(value) : NULL;
		break;
	case SWITCH_OFF:
		*(int *)field = strcmp(value, "0") == 0 || strcasecmp(value, "false") == 0;
		break;
	}
}

static struct udiroot_module *get_module(struct udiroot *u, const char *name, size_t len)
{
	struct udiroot_module *m;

	for (size_t i = 0; i < u->n_modules; i++)
		if (strlen(u->modules[i].name) == len &&
			strncmp(u->modules[i].name, name, len) == 0)
			return &u->modules[i];
	u->modules = xreallocarray(u->modules, u->n_modules + 1, sizeof(*u->modules));
	m = &u->modules[u->n_modules++];
	*m = (struct udiroot_module){ .name = xstrndup(name, len) };
	return m;
}

/* "module_<name>_<key>": a module's name may contain '_', its keys do not. */
static int set_module(struct udiroot *u, const char *key, char *value)
{
	const char *name = key + strlen(MODULE), *last = strrchr(name, '_');
	const struct key *k;

	if (!last || last == name)
		return 0;
	k = find_key(set_keys, ARRAY_LEN(set_keys), last + 1);
	if (k) {
		set_value(&get_module(u, name, (size_t)(last - name))->set, k, value);
		return 1;
	}
	k = find_key(module_keys, ARRAY_LEN(module_keys), last + 1);
	if (k)
		set_value(get_module(u, name, (size_t)(last - name)), k, value);
	return k != NULL;
}

/* Returns whether the key is known. */
static int set(struct udiroot *u, const char *key, char *value)
{
	const struct key *k = find_key(set_keys, ARRAY_LEN(set_keys), key);

	if (k) {
		set_value(&u->site, k, value);
		return 1;
	}
	k = find_key(site_keys, ARRAY_LEN(site_keys), key);
	if (k) {
		set_value(u, k, value);
		return 1;
	}
	if (strncmp(key, MODULE, strlen(MODULE)) == 0)
		return set_module(u, key, value);
	return is_other(key);
}

/* --- the file ------------------------------------------------------------------ */

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	for (n = strlen(s); n > 0 && isspace((unsigned char)s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

/* Cut the next line off, with those that continue it; *number counts lines. */
static char *next_line(char **rest, int *number)
{
	char *line = *rest, *end = line;

	if (!line)
		return NULL;
	for (;;) {
		end += strcspn(end, "\n");
		++*number;
		if (!*end || end == line || end[-1] != '\\')
			break;
		end[-1] = *end = ' ';
	}
	*rest = *end ? end + 1 : NULL;
	*end = '\0';
	return line;
}

int udiroot_parse(const char *text, const char *path, struct udiroot *ret, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *line;
	int number = 0;

	while ((line = next_line(&rest, &number))) {
		char *key = trim(line), *equals = strchr(key, '=');

		if (!*key || *key == '#')
			continue;
		if (!equals)
			return mlr_fail(err, EPROTO, "%s:%d: expected KEY=VALUE", path, number);
		*equals = '\0';
		key = trim(key);
		if (!set(ret, key, trim(equals + 1)))
			return mlr_fail(err, EPROTO, "%s:%d: '%.60s' is no key of udiRoot.conf",
				path, number, key);
	}
	return 0;
}

static int check_owner(const char *path, struct mlr_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return mlr_fail_errno(err, "%s", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return mlr_fail(err, EACCES,
			"%s: other users may write to it; it must be root's, of mode 644", path);
	return 0;
}

int udiroot_load(const char *path, struct udiroot *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	int r = file_read(AT_FDCWD, path, UDIROOT_MAX, &text, NULL, err);

	if (r == 0)
		r = check_owner(path, err);
	if (r == 0)
		r = udiroot_parse(text, path, ret, err);
	if (r < 0 && r != -ENOENT)
		return r;
	if (!ret->image_type)
		ret->image_type = xstrdup("docker");
	return 0;
}

static void set_done(struct udiroot_set *s)
{
	strv_done(&s->fs);
	strv_done(&s->env);
	strv_done(&s->append);
	strv_done(&s->prepend);
	strv_done(&s->unset);
}

void udiroot_done(struct udiroot *u)
{
	for (size_t i = 0; i < u->n_modules; i++) {
		struct udiroot_module *m = &u->modules[i];

		set_done(&m->set);
		strv_done(&m->conflicts);
		free(m->name);
		free(m->copy_path);
		free(m->user_hook);
		free(m->root_hook);
	}
	free(u->modules);
	set_done(&u->site);
	strv_done(&u->standard_modules);
	free(u->image_type);
	*u = (struct udiroot){ 0 };
}

const struct udiroot_module *udiroot_module_named(const struct udiroot *u, const char *name)
{
	for (size_t i = 0; i < u->n_modules; i++)
		if (strcmp(u->modules[i].name, name) == 0)
			return &u->modules[i];
	return NULL;
}
