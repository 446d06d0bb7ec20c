#include "gpu/choice/wish.h"

#include "gpu/choice/choice.h"
#include "gpu/choice/variable.h"
#include "gpu/vendor.h"
#include "job/job.h"

/* The highest channel number (libnvidia-container, src/nvc_internal.h). */
#define IMEX_MAX ((1u << 20) - 1)

#define OUR_CLASS "nvidia.com/gpu=" /* CDI's prefix for the devices of --gpu */

static const struct {
	const char *name;
	unsigned bit;
} capabilities[] = {
	{ "compute", GPU_COMPUTE },
	{ "compat32", GPU_COMPAT32 },
	{ "graphics", GPU_GRAPHICS },
	{ "utility", GPU_UTILITY },
	{ "video", GPU_VIDEO },
	{ "display", GPU_DISPLAY },
	{ "ngx", GPU_NGX },
};

static const struct {
	const char *variable;
	unsigned bit;
} extras[] = {
	{ "NVIDIA_GDS", GPU_EXTRA_GDS },
	{ "NVIDIA_MOFED", GPU_EXTRA_MOFED },
	{ "NVIDIA_NVSWITCH", GPU_EXTRA_NVSWITCH },
	{ "NVIDIA_GDRCOPY", GPU_EXTRA_GDRCOPY },
};

void gpu_wish_done(struct gpu_wish *w)
{
	strv_done(&w->devices);
	strv_done(&w->cdi);
	strv_done(&w->imex);
	strv_done(&w->requirements);
	strv_done(&w->remarks);
	free(w->who);
	free(w->caps_who);
	*w = (struct gpu_wish)GPU_WISH_INIT;
}

char *gpu_capabilities_print(unsigned caps)
{
	auto_strv struct strv names = STRV_INIT;

	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (caps & capabilities[i].bit)
			strv_add(&names, capabilities[i].name);
	return strv_join(&names, names.n, ",");
}

static int is_users(enum plan_origin origin)
{
	return origin == PLAN_FROM_USER;
}

static char *who_word(const struct gpu_request *q)
{
	enum plan_origin origin = q->origin ? q->origin : PLAN_FROM_USER;

	if (origin == PLAN_FROM_SITE)
		return xasprintf("the site's gpu = %s", q->word);
	if (origin == PLAN_FROM_CONFIG)
		return xasprintf("the configuration's gpu = %s", q->word);
	return gpu_variable_print(origin == PLAN_FROM_CALLER ? "MLRUN_GPU"
			: origin == PLAN_FROM_IMAGE          ? "org.mlrun.gpu"
							     : "--gpu",
		q->word);
}

static void add_once(struct strv *l, const char *item)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcasecmp(l->v[i], item) == 0)
			return;
	strv_add(l, item);
}

/* Is it "vendor/class=name" (CDI's SPEC.md)? "MIG-GPU-…/1/0" is not. */
static int is_cdi(const char *item)
{
	const char *slash = strchr(item, '/');

	return slash && strchr(slash, '=');
}

static void set_list(const struct strv *items, struct gpu_wish *w)
{
	w->kind = GPU_WISH_LIST;
	for (size_t i = 0; i < items->n; i++) {
		const char *item = items->v[i];

		if (strncmp(item, OUR_CLASS, strlen(OUR_CLASS)) == 0)
			add_once(&w->devices, item + strlen(OUR_CLASS));
		else
			add_once(is_cdi(item) ? &w->cdi : &w->devices, item);
	}
	if (strv_has(&w->devices, "all")) {
		w->kind = GPU_WISH_ALL;
		strv_done(&w->devices);
	}
}

/* Read --gpu, or the setting of the same meaning. */
static int read_word(const struct gpu_request *q, struct gpu_wish *w, struct mlr_error *err)
{
	static const char *const alone[] = { "auto", "none", "all" };
	auto_strv struct strv items = STRV_INIT;

	w->who = who_word(q);
	w->must = is_users(q->origin ? q->origin : PLAN_FROM_USER);
	gpu_variable_items(q->word, &items);
	if (items.n == 0)
		return mlr_fail(
			err, EINVAL, "%s: expected auto, all, none or a list of GPUs", w->who);
	for (size_t i = 0; i < ARRAY_LEN(alone); i++)
		if (items.n > 1 && strv_has(&items, alone[i]))
			return mlr_fail(err, EINVAL, "%s: '%s' cannot be combined with others",
				w->who, alone[i]);
	if (strcmp(items.v[0], "none") != 0)
		set_list(&items, w);
	return 0;
}

/* Remark if the image's or caller's variable contradicts the option: who won. */
static void remark_word(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w)
{
	struct gpu_variable v = gpu_variable_get(q, p, "NVIDIA_VISIBLE_DEVICES");
	auto_free char *other = v.value ? gpu_variable_who(&v) : NULL;

	if (other)
		strv_addf(&w->remarks, "%s wins over %s", w->who, other);
}

static void read_visible(const struct gpu_variable *v, struct gpu_wish *w)
{
	auto_strv struct strv items = STRV_INIT;

	w->who = gpu_variable_who(v);
	w->must = is_users(v->origin);
	gpu_variable_items(v->value, &items);
	if (items.n == 0 || strv_has(&items, "void"))
		strv_addf(&w->remarks, "%s: it asks for no GPU; --gpu=all brings them", w->who);
	else if (items.n == 1 && strcmp(items.v[0], "none") == 0)
		w->kind = GPU_WISH_DRIVER;
	else
		set_list(&items, w);
}

static int image_has_directory(const struct gpu_image *image, const char *path)
{
	auto_strv struct strv names = STRV_INIT;

	return image && image->list && image->list(image->ctx, path, &names) == 0;
}

/* Return a sign that the image is for GPUs, to free(), or NULL. */
static char *carried(const struct gpu_request *q)
{
	for (int v = 0; v < GPU_VENDORS; v++) {
		const char *name = gpu_vendors[v].image_variable;
		const char *value = strv_env_get(strv_argv(q->image_env), name);

		if (value && *value)
			return xasprintf("%s=%s", name, value);
	}
	for (int v = 0; v < GPU_VENDORS; v++)
		if (image_has_directory(q->image, gpu_vendors[v].image_directory))
			return xstrdup(gpu_vendors[v].image_directory);
	return NULL;
}

/* CUDA's images up to 9.0 (nvidia-container-toolkit, internal/config/image: IsLegacy). */
static const char *first_kind(const struct gpu_request *q)
{
	char *const *env = strv_argv(q->image_env);
	const char *version = strv_env_get(env, "CUDA_VERSION");

	return version && *version && !strv_env_get(env, "NVIDIA_REQUIRE_CUDA") ? version : NULL;
}

/* Neither option nor variable is set. */
static void read_nothing(const struct gpu_request *q, struct gpu_wish *w)
{
	const char *first = first_kind(q);
	int is_job = job_system(q->caller) != NULL;
	auto_free char *sign = first || is_job ? NULL : carried(q);

	w->kind = GPU_WISH_ALL;
	if (first)
		w->who =
			xasprintf("the image's CUDA_VERSION=%s without NVIDIA_REQUIRE_CUDA", first);
	else if (is_job)
		w->who = xstrdup("--gpu=auto in a job");
	else if (sign)
		w->who = xasprintf("--gpu=auto and the image's %s", sign);
	else {
		w->kind = GPU_WISH_NOTHING;
		w->who = xstrdup("--gpu=auto");
		strv_add(&w->remarks,
			"nothing asks for a GPU: there is neither a job nor NVIDIA_VISIBLE_DEVICES, and the "
			"image carries no CUDA; --gpu=all brings them");
	}
}

const char *gpu_wish_word(const struct gpu_request *q, const struct plan *p)
{
	enum plan_origin origin = plan_env_origin(p, "NVIDIA_VISIBLE_DEVICES");

	if (!q->word || strcmp(q->word, "auto") == 0)
		return NULL;
	/* -e concerns this container, a setting all of them. */
	if (q->origin && !is_users(q->origin) && origin && is_users(origin))
		return NULL;
	return q->word;
}

static int read_kind(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w,
	struct mlr_error *err)
{
	struct gpu_variable v = gpu_variable_get(q, p, "NVIDIA_VISIBLE_DEVICES");
	int r;

	if (gpu_wish_word(q, p)) {
		r = read_word(q, w, err);
		if (r == 0)
			remark_word(q, p, w);
		return r;
	}
	if (!v.value) {
		read_nothing(q, w);
		return 0;
	}
	read_visible(&v, w);
	if (q->word && strcmp(q->word, "auto") != 0) {
		auto_free char *setting = who_word(q);

		strv_addf(&w->remarks, "%s wins over %s", w->who, setting);
	}
	return 0;
}

static int add_capability(const char *name, struct gpu_wish *w)
{
	if (strcmp(name, "all") == 0) {
		w->caps = GPU_CAPABILITIES_ALL;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
		if (strcmp(name, capabilities[i].name) == 0) {
			w->caps |= capabilities[i].bit;
			return 0;
		}
	return -EINVAL;
}

static int read_capabilities(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w,
	struct mlr_error *err)
{
	struct gpu_variable v = gpu_variable_get(q, p, "NVIDIA_DRIVER_CAPABILITIES");
	auto_strv struct strv names = STRV_INIT;

	if (v.value)
		gpu_variable_items(v.value, &names);
	if (!v.value && first_kind(q)) {
		w->caps = GPU_CAPABILITIES_ALL;
		w->caps_who = xstrdup("an image of CUDA's first kind");
		return 0;
	}
	if (names.n == 0) {
		w->caps = GPU_UTILITY | GPU_COMPUTE;
		w->caps_who = xstrdup("the default");
		return 0;
	}
	w->caps_who = gpu_variable_who(&v);
	for (size_t i = 0; i < names.n; i++) {
		if (add_capability(names.v[i], w) == 0)
			continue;
		auto_free char *known = gpu_capabilities_print(GPU_CAPABILITIES_ALL);

		mlr_fail(err, EINVAL, "%s: unknown driver capability '%s': use all, %s",
			w->caps_who, names.v[i], known);
		return mlr_hint(err, "-e NVIDIA_DRIVER_CAPABILITIES=all says it otherwise");
	}
	return 0;
}

/* "7" for "7" and "channel7", to free(); NULL: not a channel. */
static char *channel(const char *item)
{
	static const char word[] = "channel";
	char *end;
	unsigned long number;

	if (strncmp(item, word, strlen(word)) == 0)
		item += strlen(word);
	if (!isdigit((unsigned char)*item) || strlen(item) > 8)
		return NULL;
	number = strtoul(item, &end, 10);
	return *end || number > IMEX_MAX ? NULL : xasprintf("%lu", number);
}

static int read_imex(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w,
	struct mlr_error *err)
{
	struct gpu_variable v = gpu_variable_get(q, p, "NVIDIA_IMEX_CHANNELS");
	auto_free char *owner = v.value ? gpu_variable_who(&v) : NULL;
	auto_strv struct strv items = STRV_INIT;

	if (v.value)
		gpu_variable_items(v.value, &items);
	for (size_t i = 0; i < items.n; i++) {
		auto_free char *number = channel(items.v[i]);

		if (number)
			add_once(&w->imex, number);
		else if (strcmp(items.v[i], "all") == 0)
			strv_addf(&w->remarks,
				"%s: ignored 'all', like NVIDIA's toolkit: name channels by number",
				owner);
		else
			return mlr_fail(err, EINVAL,
				"%s: invalid channel '%s': use a number up to %u, or channel and a number",
				owner, items.v[i], IMEX_MAX);
	}
	return 0;
}

static void read_extras(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w)
{
	for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
		struct gpu_variable v = gpu_variable_get(q, p, extras[i].variable);

		if (!v.value || strcmp(v.value, "enabled") != 0)
			continue;
		if (w->kind == GPU_WISH_DRIVER)
			strv_addf(
				&w->remarks, "%s=enabled is for containers that have a GPU", v.key);
		else
			w->extras |= extras[i].bit;
	}
}

/* Only an administrator may change or monitor all parts of a GPU (nvidia-container-toolkit refuses
 * this to unprivileged containers). */
static int refuse_mig_rights(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w,
	struct mlr_error *err)
{
	static const char *const variables[] = { "NVIDIA_MIG_CONFIG_DEVICES",
		"NVIDIA_MIG_MONITOR_DEVICES" };
	static const char why[] =
		"only root may have all of a GPU's MIG capabilities, and a container "
		"of mlrun's is an ordinary user's";

	for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
		struct gpu_variable v = gpu_variable_get(q, p, variables[i]);
		auto_free char *owner = v.value && *v.value ? gpu_variable_who(&v) : NULL;

		if (!owner)
			continue;
		if (is_users(v.origin)) {
			mlr_fail(err, ENOTSUP, "%s: %s", owner, why);
			return mlr_hint(err,
				"an administrator does that on the machine itself: nvidia-smi mig");
		}
		strv_addf(&w->remarks, "%s is not obeyed: %s", owner, why);
	}
	return 0;
}

/* True as for Go's strconv.ParseBool(). */
static int is_true(const char *text)
{
	static const char *const words[] = { "1", "t", "T", "TRUE", "true", "True" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0)
			return 1;
	return 0;
}

/* An image of the first kind requires the CUDA that it was built with. */
static void require_version(const char *version, struct gpu_wish *w)
{
	size_t major = strspn(version, "0123456789"),
	       minor = version[major] == '.' ? strspn(version + major + 1, "0123456789") : 0;

	if (major && minor)
		strv_addf(&w->requirements, "CUDA_VERSION=cuda>=%.*s", (int)(major + 1 + minor),
			version);
	else
		strv_addf(&w->remarks,
			"the image's CUDA_VERSION=%s is not a version and requires nothing",
			version);
}

static void read_requirements(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w)
{
	static const char prefix[] = "NVIDIA_REQUIRE_", jetpack[] = "NVIDIA_REQUIRE_JETPACK";
	struct gpu_variable disable = gpu_variable_get(q, p, "NVIDIA_DISABLE_REQUIRE");
	const char *first = first_kind(q);

	if (disable.value && is_true(disable.value)) {
		auto_free char *owner = gpu_variable_who(&disable);

		strv_addf(&w->remarks, "%s: did not check the image's requirements of the driver",
			owner);
		return;
	}
	if (disable.value && *disable.value)
		strv_addf(&w->remarks, "NVIDIA_DISABLE_REQUIRE=%s is not true: 1 or true is",
			disable.value);
	for (size_t i = 0; i < p->n_env; i++) {
		const char *key = p->env[i].key;

		if (strncmp(key, prefix, strlen(prefix)) != 0 ||
			strncmp(key, jetpack, strlen(jetpack)) == 0)
			continue;
		strv_addf(&w->requirements, "%s=%s", key, gpu_variable_get(q, p, key).value);
	}
	if (first)
		require_version(first, w);
	strv_sort(&w->requirements);
}

static int read_all(const struct gpu_request *q, const struct plan *p, struct gpu_wish *w,
	struct mlr_error *err)
{
	int r = read_kind(q, p, w, err);

	if (r < 0 || w->kind == GPU_WISH_NOTHING)
		return r;
	TRY(refuse_mig_rights(q, p, w, err));
	TRY(read_capabilities(q, p, w, err));
	TRY(read_imex(q, p, w, err));
	read_extras(q, p, w);
	read_requirements(q, p, w);
	return 0;
}

int gpu_wish_read(const struct gpu_request *q, const struct plan *p, struct gpu_wish *ret,
	struct mlr_error *err)
{
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;

	TRY(read_all(q, p, &w, err));
	*ret = take_struct(&w, GPU_WISH_INIT);
	return 0;
}
