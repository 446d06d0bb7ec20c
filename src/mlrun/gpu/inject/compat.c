#include "gpu/inject/compat.h"

#include "gpu/elf.h"

#include <jansson.h>

#define COMPAT_DIR "/usr/local/cuda/compat" /* path of NVIDIA's packages cuda-compat-… */
#define STEM       "libcuda.so."
#define NOTE_MAX   (64u << 10) /* bytes */
#define NAMES_MAX  64          /* NVIDIA's packages have a dozen */

/* The library's claim about the drivers that it works with. */
struct claim {
	struct gpu_version cuda; /* zero: no claim */
	int has_drivers;
	int names_driver; /* it lists this machine's branch */
};

void gpu_compat_done(struct gpu_compat *c)
{
	free(c->dir);
	free(c->version);
	free(c->why);
	strv_done(&c->libraries);
	*c = (struct gpu_compat){ 0 };
}

/* Is it "libcuda.so.550.54.15", not libcuda.so.1 or another name? */
static int is_driver(const char *name, struct gpu_version *ret)
{
	size_t n = strlen(STEM);

	return strncmp(name, STEM, n) == 0 && strchr(name + n, '.') &&
		gpu_version_parse(name + n, ret) == 0;
}

/* Keep the names of libraries. Returns the number of drivers among them. */
static size_t sort_out(const struct strv *names, struct gpu_compat *c, struct gpu_version *version)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++) {
		const char *name = names->v[i];

		if (strncmp(name, "lib", 3) != 0 || !strstr(name, ".so"))
			continue;
		strv_add(&c->libraries, name);
		if (is_driver(name, version)) {
			set_ptr(&c->version, xstrdup(name + strlen(STEM)));
			n++;
		}
	}
	strv_sort(&c->libraries);
	return n;
}

static int read_claim(const char *text, unsigned major, struct claim *ret)
{
	json_t *root = json_loads(text, 0, NULL), *v;
	const char *cuda = json_string_value(json_object_get(root, "CUDA Version"));
	json_t *drivers = json_object_get(root, "Driver");
	int is_object = json_is_object(root);
	size_t i;

	if (cuda)
		gpu_version_parse(cuda, &ret->cuda);
	ret->has_drivers = json_array_size(drivers) > 0;
	json_array_foreach(drivers, i, v)
		ret->names_driver |= json_integer_value(v) == (json_int_t)major;
	json_decref(root);
	return is_object ? 0 : -EPROTO;
}

/* Read the note. Returns 1, 0 without one, or -errno. */
static int read_note(const struct gpu_image *image, const struct gpu_compat *c, unsigned major,
	struct claim *ret)
{
	auto_free char *path = xasprintf("%s/" STEM "%s", c->dir, c->version), *text = NULL;
	auto_close int fd = image->open(image->ctx, path);
	int r = fd < 0 ? fd
		       : gpu_elf_note(fd, ".note.cuda.fwd_compatibility", "NVIDIA Corporation",
				 NOTE_MAX, &text);

	if (r == -ENOENT && fd >= 0)
		return 0;
	if (r == 0)
		r = read_claim(text, major, ret);
	return r < 0 ? r : 1;
}

/* Set the decision and its reason. */
static void judge(struct gpu_compat *c, int use, const char *because)
{
	c->use = use;
	c->why = xasprintf("forward compatibility: the image's driver libraries %s in '%s' %s: %s",
		c->version, c->dir, use ? "are used in place of the host's" : "are not used",
		because);
}

static void decide(const struct gpu_machine *m, const struct claim *claim, int has_note,
	const struct gpu_version *version, struct gpu_compat *c)
{
	char ours[GPU_VERSION_TEXT], theirs[GPU_VERSION_TEXT];
	auto_free char *because = NULL;
	int knows_cuda = gpu_version_is_known(&claim->cuda) && gpu_version_is_known(&m->cuda);
	int newer = has_note && knows_cuda ? gpu_version_compare(&claim->cuda, &m->cuda) > 0
		: has_note                 ? gpu_version_compare(version, &m->driver_version) > 0
					   : version->part[0] > m->driver_version.part[0];

	gpu_version_print(&m->cuda, ours);
	gpu_version_print(&claim->cuda, theirs);
	if (has_note && claim->has_drivers && !claim->names_driver)
		because = xasprintf("they do not know the host's driver %s", m->driver_text);
	else if (has_note && !claim->has_drivers && !knows_cuda)
		because = xasprintf("they name no driver that they work with");
	else if (has_note && knows_cuda)
		because = xasprintf("they bring CUDA %s, the host's driver %s has %s", theirs,
			m->driver_text, ours);
	else
		because = xasprintf("the host's driver is %s", m->driver_text);
	if (has_note &&
		((claim->has_drivers && !claim->names_driver) ||
			(!claim->has_drivers && !knows_cuda)))
		newer = 0;
	judge(c, newer, because);
}

static int find(const struct gpu_image *image, struct gpu_compat *c, struct gpu_version *version)
{
	auto_strv struct strv names = STRV_INIT;
	int r = image->list(image->ctx, COMPAT_DIR, &names);
	size_t n;

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0) {
		c->why = xasprintf("forward compatibility: '" COMPAT_DIR
				   "' in the image cannot be read (%s), so nothing of it is used",
			strerror(-r));
		return 0;
	}
	n = sort_out(&names, c, version);
	if (n == 0)
		return 0;
	c->dir = xstrdup(COMPAT_DIR);
	if (n == 1 && c->libraries.n <= NAMES_MAX)
		return 1;
	if (n == 1) {
		c->why = xasprintf(
			"forward compatibility: '" COMPAT_DIR
			"' in the image has %zu libraries, more than any package of NVIDIA's, so none is used",
			c->libraries.n);
		return 0;
	}
	c->why = xasprintf(
		"forward compatibility: '" COMPAT_DIR
		"' in the image has %zu libcuda.so with versions of their own, so none is used",
		n);
	return 0;
}

void gpu_compat_expect(const struct gpu_image *image)
{
	image->expect(image->ctx, GPU_LOOK_LIST, COMPAT_DIR);
}

int gpu_compat_read(
	const struct gpu_image *image, const struct gpu_machine *m, struct gpu_compat *ret)
{
	struct gpu_version version = { { 0 } };
	struct claim claim = { 0 };
	int r;

	if (!find(image, ret, &version))
		return 0;
	if (!gpu_version_is_known(&m->driver_version) || !m->driver_text) {
		judge(ret, 0, "the host driver's version is unknown");
		return 0;
	}
	r = read_note(image, ret, m->driver_version.part[0], &claim);
	if (r < 0)
		judge(ret, 0,
			r == -EPROTO || r == -ENOEXEC ? "they cannot be understood" : strerror(-r));
	else
		decide(m, &claim, r, &version, ret);
	return 0;
}
