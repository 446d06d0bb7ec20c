#include "backend/cuda/product/choice.h"

#include "base/home.h"
#include "config.h"

#define CHOICES_MAX 4096

struct choice {
	char *key;
	int engine; /* or CHOICE_OWN */
};

static struct {
	char *dir, *path;
	char head[256]; /* the first line that fits this machine */
	struct choice *choice;
	size_t n;
} known;

static struct choice *find(const char *key)
{
	for (size_t i = 0; i < known.n; i++)
		if (strcmp(known.choice[i].key, key) == 0)
			return &known.choice[i];
	return NULL;
}

int choice_find(const char *key)
{
	const struct choice *c = find(key);

	return c ? c->engine : CHOICE_UNKNOWN;
}

void choice_set(const char *key, int engine)
{
	struct choice *c = find(key);

	if (!c && known.n == CHOICES_MAX)
		return;
	if (!c) {
		known.choice = xgrow(known.choice, known.n, sizeof(*known.choice));
		c = &known.choice[known.n++];
		c->key = xstrdup(key);
	}
	c->engine = engine;
}

static void forget(void)
{
	while (known.n > 0)
		free(known.choice[--known.n].key);
}

/* "own", or "library" and an engine. */
static int parse_engine(const char *text)
{
	unsigned engine;
	char end;

	if (strcmp(text, "own") == 0)
		return CHOICE_OWN;
	return sscanf(text, "library %1u%c", &engine, &end) == 1 && engine < CHOICE_ENGINES
		? (int)engine
		: CHOICE_UNKNOWN;
}

/* Every line must be one, or none counts. */
static int parse(char *text)
{
	char *line = strsep(&text, "\n");

	if (strcmp(line, known.head) != 0)
		return -ESTALE;
	while ((line = strsep(&text, "\n"))) {
		char *key = strsep(&line, "\t");

		if (!line && !*key && !text)
			return 0; /* the end of the last line */
		if (!line || parse_engine(line) == CHOICE_UNKNOWN)
			return -EPROTO;
		choice_set(key, parse_engine(line));
	}
	return -EPROTO; /* the last line is not whole */
}

/* The file's name has of the device's only what is harmless in one. Returns 0 when it is the one
 * that is known already. */
static int name_file(const struct device *device, const char *cache)
{
	auto_free char *dir = xasprintf("%s/mlrun", cache), *path = NULL;
	char name[sizeof(device->name)];
	size_t n = 0;

	for (const char *p = device->name; *p; p++)
		if ((*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') ||
			(*p >= '0' && *p <= '9'))
			name[n++] = *p;
	name[n] = '\0';
	path = xasprintf("%s/cuda-%s.choices", dir, name);
	if (known.path && strcmp(known.path, path) == 0)
		return 0;
	forget();
	free(known.dir);
	free(known.path);
	known.dir = take_ptr(&dir);
	known.path = take_ptr(&path);
	snprintf(known.head, sizeof(known.head), "%s\tdriver %d\tmltrain %s", device->name,
		device->driver, PACKAGE_VERSION);
	return 1;
}

void choice_load(const struct device *device)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *cache = home_xdg_dir("XDG_CACHE_HOME", ".cache", &err), *text = NULL;
	size_t len;
	int r;

	if (!cache) {
		mlr_debug("cuda: no cache of choices: %s", err.text);
		return;
	}
	if (!name_file(device, cache))
		return;
	r = file_read(AT_FDCWD, known.path, CHOICE_FILE_MAX, &text, &len, &err);
	if (r < 0) {
		if (r != -ENOENT)
			mlr_debug("cuda: %s, ignoring", err.text);
		return;
	}
	r = strlen(text) == len ? parse(text) : -EPROTO;
	if (r < 0) {
		mlr_debug("cuda: '%s' is %s, ignoring", known.path,
			r == -ESTALE ? "of another machine" : "damaged");
		forget();
	}
}

int choice_save(struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len = 0;
	FILE *f;

	if (!known.path)
		return mlr_fail(err, ENOENT, "there is no directory for caches");
	f = open_memstream(&text, &len);
	if (!f)
		return mlr_fail_errno(err, "open_memstream");
	fprintf(f, "%s\n", known.head);
	for (size_t i = 0; i < known.n; i++)
		if (known.choice[i].engine == CHOICE_OWN)
			fprintf(f, "%s\town\n", known.choice[i].key);
		else
			fprintf(f, "%s\tlibrary %d\n", known.choice[i].key, known.choice[i].engine);
	fclose(f);
	TRY(file_mkdir_p(AT_FDCWD, known.dir, 0755, err));
	return file_replace(AT_FDCWD, known.path, text, len, 0644, err);
}
