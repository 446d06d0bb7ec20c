#include "oci/platform.h"

#include <sys/utsname.h>

/* The kernel's and the distributions' names of architectures, and Go's (containerd's
 * platforms/database.go). */
static const struct {
	const char *name, *arch, *variant;
} aliases[] = {
	{ "x86_64", "amd64", "" },
	{ "x86-64", "amd64", "" },
	{ "aarch64", "arm64", "" },
	{ "armhf", "arm", "v7" },
	{ "armel", "arm", "v6" },
	{ "armv7l", "arm", "v7" },
	{ "armv6l", "arm", "v6" },
	{ "armv5tel", "arm", "v5" },
	{ "armv8l", "arm", "v7" }, /* a 32-bit userland on a 64-bit machine */
	{ "i386", "386", "" },
	{ "i486", "386", "" },
	{ "i586", "386", "" },
	{ "i686", "386", "" },
	{ "loongarch64", "loong64", "" },
	{ "ppc64el", "ppc64le", "" },
};

static void put(char *out, size_t room, const char *s)
{
	/* A truncated word could be another platform's name; "?" cannot. */
	if (strlen(s) >= room)
		s = "?";
	snprintf(out, room, "%s", s);
}

/* The number in "v7" or "7", or the architecture's default without a variant; -1 for other words.
 */
static int level(const struct oci_platform *p)
{
	const char *s = p->variant;

	if (*s == '\0')
		return strcmp(p->arch, "arm64") == 0 ? 8 : strcmp(p->arch, "arm") == 0 ? 7 : 1;
	if (*s == 'v')
		s++;
	if (*s < '1' || *s > '9' || s[strspn(s, "0123456789")] != '\0' || strlen(s) > 2)
		return -1;
	return atoi(s);
}

void oci_platform_set(struct oci_platform *p, const char *os, const char *arch, const char *variant)
{
	put(p->os, sizeof(p->os), os ? os : "");
	put(p->arch, sizeof(p->arch), arch ? arch : "");
	put(p->variant, sizeof(p->variant), variant ? variant : "");
	for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
		if (strcmp(p->arch, aliases[i].name) != 0)
			continue;
		put(p->arch, sizeof(p->arch), aliases[i].arch);
		if (*p->variant == '\0')
			put(p->variant, sizeof(p->variant), aliases[i].variant);
		break;
	}
	if (strcmp(p->arch, "arm64") == 0 && level(p) == 8)
		*p->variant = '\0';
	if (*p->variant >= '1' && *p->variant <= '9' && level(p) > 0)
		snprintf(p->variant, sizeof(p->variant), "v%d", level(p));
}

void oci_platform_host(struct oci_platform *ret)
{
	struct utsname u;

	uname(&u); /* cannot fail with a valid address */
	oci_platform_set(ret, "linux", u.machine, NULL);
}

int oci_platform_parse(const char *text, struct oci_platform *ret, struct mlr_error *err)
{
	char buf[OCI_PLATFORM_SIZE];
	char *part[3] = { buf, NULL, NULL };
	size_t n = 1;

	if (strlen(text) >= sizeof(buf))
		goto bad;
	strcpy(buf, text);
	for (char *s = buf; *s; s++) {
		if (*s != '/') {
			if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", *s))
				goto bad;
			continue;
		}
		if (n == ARRAY_LEN(part))
			goto bad;
		*s = '\0';
		part[n++] = s + 1;
	}
	if (n < 2)
		goto bad;
	for (size_t i = 0; i < n; i++)
		if (*part[i] == '\0' || strlen(part[i]) >= sizeof(ret->os))
			goto bad;
	oci_platform_set(ret, part[0], part[1], part[2]);
	return 0;
bad:
	mlr_fail(err, EINVAL, "'%.80s' is not a platform", text);
	mlr_hint(err, "a platform is OS/ARCH[/VARIANT], as in linux/amd64 or linux/arm/v7");
	return -EINVAL;
}

int oci_platform_match(const struct oci_platform *want, const struct oci_platform *have)
{
	int w = level(want), h = level(have);

	if (strcmp(want->os, have->os) != 0 || strcmp(want->arch, have->arch) != 0)
		return 0;
	if (w < 0 || h < 0)
		return strcmp(want->variant, have->variant) == 0;
	return h > w ? 0 : h; /* the newest one that still runs */
}

void oci_platform_print(const struct oci_platform *p, char out[OCI_PLATFORM_SIZE])
{
	snprintf(out, OCI_PLATFORM_SIZE, "%s/%s%s%s", p->os, p->arch, *p->variant ? "/" : "",
		p->variant);
}
