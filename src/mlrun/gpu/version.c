#include "gpu/version.h"

#include "base/base.h"

int gpu_version_parse(const char *text, struct gpu_version *ret)
{
	struct gpu_version v = { { 0 } };

	for (size_t i = 0; i < GPU_VERSION_PARTS; i++) {
		size_t digits = strspn(text, "0123456789");

		if (digits == 0 || digits > 8)
			return -EINVAL;
		v.part[i] = (unsigned)strtoul(text, NULL, 10);
		text += digits;
		if (!*text) {
			*ret = v;
			return 0;
		}
		if (*text++ != '.')
			return -EINVAL;
	}
	return -EINVAL;
}

int gpu_version_compare(const struct gpu_version *a, const struct gpu_version *b)
{
	for (size_t i = 0; i < GPU_VERSION_PARTS; i++)
		if (a->part[i] != b->part[i])
			return a->part[i] < b->part[i] ? -1 : 1;
	return 0;
}

int gpu_version_is_known(const struct gpu_version *v)
{
	static const struct gpu_version unknown;

	return gpu_version_compare(v, &unknown) != 0;
}

const char *gpu_version_print(const struct gpu_version *v, char text[GPU_VERSION_TEXT])
{
	size_t n = GPU_VERSION_PARTS, at = 0;

	if (!gpu_version_is_known(v))
		return strcpy(text, "unknown");
	while (n > 2 && v->part[n - 1] == 0)
		n--;
	for (size_t i = 0; i < n; i++)
		at += (size_t)snprintf(
			text + at, GPU_VERSION_TEXT - at, "%s%u", i ? "." : "", v->part[i]);
	return text;
}
