#include "oci/name.h"

#define BASE_MAX 100 /* characters of a file's name that go into an image's name */

static const char *const prefixes[] = {
	[OCI_REGISTRY] = "",
	[OCI_LAYOUT] = "oci:",
	[OCI_ARCHIVE] = "oci-archive:",
	[OCI_DOCKER_ARCHIVE] = "docker-archive:",
	[OCI_DIRECTORY] = "rootfs:",
	[OCI_SQUASHFS] = "squashfs:",
	[OCI_ANY_FILE] = "",
	[OCI_SIF] = "sif:",
};

const char *oci_transport_prefix(enum oci_transport t)
{
	return prefixes[t];
}

enum oci_transport oci_transport_of(const char *text, const char **rest)
{
	for (size_t t = 0; t < ARRAY_LEN(prefixes); t++) {
		size_t n = strlen(prefixes[t]);

		if (n == 0 || strncmp(text, prefixes[t], n) != 0)
			continue;
		if (rest)
			*rest = text + n;
		return t == OCI_SIF ? OCI_SQUASHFS : (enum oci_transport)t;
	}
	if (rest)
		*rest = text;
	return OCI_REGISTRY;
}

int oci_transport_is_root(enum oci_transport t)
{
	return t == OCI_DIRECTORY || t == OCI_SQUASHFS;
}

void oci_name_done(struct oci_name *n)
{
	oci_ref_done(&n->ref);
	free(n->path);
	free(n->which);
	*n = (struct oci_name)OCI_NAME_INIT;
}

int oci_place_parse(const char *text, struct oci_name *ret, struct mlr_error *err)
{
	const char *path, *colon;
	enum oci_transport t = oci_transport_of(text, &path);
	size_t n = strcspn(path, ":");

	if (t == OCI_REGISTRY || oci_transport_is_root(t))
		return 0;
	colon = path[n] ? path + n : NULL;
	if (n == 0 || (colon && colon[1] == '\0')) {
		mlr_fail(err, EINVAL, "'%.200s': %s", text,
			n == 0 ? "a path is missing" : "nothing follows the last ':'");
		return mlr_hint(err, "write %s%s[:REF]", prefixes[t],
			t == OCI_LAYOUT ? "DIRECTORY" : "FILE");
	}
	ret->transport = t;
	ret->path = xstrndup(path, n);
	ret->which = colon ? xstrdup(colon + 1) : NULL;
	return 0;
}

enum ending { END_NONE, END_ROOT, END_TAR };

static enum ending ending_of(const char *text)
{
	static const struct {
		const char *ending;
		enum ending kind;
	} known[] = { { ".sif", END_ROOT }, { ".simg", END_ROOT }, { ".sqsh", END_ROOT },
		{ ".sqfs", END_ROOT }, { ".squashfs", END_ROOT }, { ".tar", END_TAR },
		{ ".tar.gz", END_TAR }, { ".tgz", END_TAR }, { ".tar.xz", END_TAR },
		{ ".tar.zst", END_TAR } };
	size_t len = strlen(text);

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t n = strlen(known[i].ending);

		if (len > n && strcasecmp(text + len - n, known[i].ending) == 0)
			return known[i].kind;
	}
	return END_NONE;
}

int oci_name_ends_as_file(const char *text)
{
	return ending_of(text) != END_NONE;
}

int oci_name_ends_as_root(const char *text)
{
	return ending_of(text) == END_ROOT;
}

int oci_name_is_path(const char *text)
{
	return text[strspn(text, ".~")] == '/';
}

int oci_name_refuse_path(const char *text, struct mlr_error *err)
{
	mlr_fail(err, EINVAL, "'%.200s' is a path, not an image's name", text);
	switch (ending_of(text)) {
	case END_ROOT:
		return mlr_hint(err, "mlrun exec %s runs it as it is", text);
	case END_TAR:
		return mlr_hint(err,
			"mlrun import %s NAME brings it into the store; then mlrun exec NAME",
			text);
	default:
		return mlr_hint(err,
			"rootfs:%s is the image that is a plain directory, oci:%s one that is an OCI layout",
			text, text);
	}
}

/* Refuse the transports of Docker, podman, Enroot and Apptainer that mlrun does not support. */
static int refuse_transport(const char *text, struct mlr_error *err)
{
	static const char *const daemons[] = { "docker-daemon:", "containers-storage:",
		"dockerd://", "podman://" },
				 *const libraries[] = { "library://", "shub://", "oras://" };

	for (size_t i = 0; i < ARRAY_LEN(daemons); i++)
		if (strncmp(text, daemons[i], strlen(daemons[i])) == 0) {
			mlr_fail(err, EINVAL,
				"'%.200s': mlrun does not look into stores of other programs",
				text);
			return mlr_hint(
				err, "docker save IMAGE | mlrun import -, and podman save alike");
		}
	for (size_t i = 0; i < ARRAY_LEN(libraries); i++)
		if (strncmp(text, libraries[i], strlen(libraries[i])) == 0) {
			mlr_fail(
				err, EINVAL, "'%.200s' names an Apptainer image, a SIF file", text);
			return mlr_hint(
				err, "apptainer pull FILE.sif %s, then mlrun exec FILE.sif", text);
		}
	return 0;
}

int oci_name_refuse_place(const char *text, struct mlr_error *err)
{
	enum oci_transport t = oci_transport_of(text, NULL);

	return t == OCI_REGISTRY
		? 0
		: mlr_fail(err, EPERM,
			  "'%s' is a place on this machine: only the caller may name one", text);
}

int oci_name_parse(const char *text, struct oci_name *ret, struct mlr_error *err)
{
	int r = oci_place_parse(text, ret, err);

	if (r < 0 || ret->transport != OCI_REGISTRY)
		return r;
	/* No image's name begins like this. */
	if (oci_name_is_path(text))
		return oci_name_refuse_path(text, err);
	if (refuse_transport(text, err) < 0)
		return -EINVAL;
	return oci_ref_parse(text, &ret->ref, err);
}

char *oci_name_print(const struct oci_name *n)
{
	if (n->transport == OCI_REGISTRY)
		return oci_ref_canonical(&n->ref);
	return xasprintf("%s%s%s%s", prefixes[n->transport], n->path, n->which ? ":" : "",
		n->which ? n->which : "");
}

/* The last component of a path, without an archive's suffixes. */
static char *base_of(const char *path)
{
	static const char *const endings[] = { ".gz", ".zst", ".xz", ".bz2", ".tgz", ".tar",
		".oci" };
	auto_free char *copy = xstrdup(path);
	char *base;
	size_t n = strlen(copy);

	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	base = strrchr(copy, '/');
	base = base ? base + 1 : copy;
	for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
		size_t len = strlen(base), end = strlen(endings[i]);

		if (len > end && strcasecmp(base + len - end, endings[i]) == 0)
			base[len - end] = '\0';
	}
	return xstrndup(base, BASE_MAX);
}

/* Make a repository's last component of any text: runs of a-z0-9, joined by one '.', '_' or '-'. */
static char *repository_of(const char *path)
{
	auto_free char *base = base_of(path);
	char *out = xcalloc(strlen(base) + sizeof("image"), 1), *o = out;

	for (const char *s = base; *s;) {
		size_t n = 0;

		while (isascii(*s) && isalnum(*s))
			*o++ = (char)tolower(*s++);
		while (s[n] && !(isascii(s[n]) && isalnum(s[n])))
			n++;
		if (n > 0 && s[n] && o > out)
			*o++ = (char)(n == 1 && strchr("._", *s) ? *s : '-');
		s += n;
	}
	if (o == out)
		strcpy(out, "image");
	return out;
}

/* Parse the text as a reference. A digest is dropped, since it would be that of another form of the
 * image. */
static int take(const char *registry, const char *text, struct oci_ref *ret)
{
	auto_free char *full = xasprintf("%s%s", registry, text);

	if (strchr(full, '@'))
		*strchr(full, '@') = '\0';
	return oci_ref_parse(full, ret, NULL);
}

void oci_name_stored(enum oci_transport t, const char *path, const char *said, struct oci_ref *ret)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_free char *base = repository_of(path), *tagged = NULL;
	int is_name = said && strpbrk(said, "/:@");

	if (said && (is_name || t == OCI_DOCKER_ARCHIVE) && take("", said, &ref) == 0) {
		if (!ref.short_name || t == OCI_DOCKER_ARCHIVE) {
			*ret = take_struct(&ref, { 0 });
			return;
		}
		if (take("localhost/", said, ret) == 0)
			return;
	}
	tagged = xasprintf("%s:%s", base, said && !is_name ? said : "latest");
	if (take("localhost/", tagged, ret) == 0)
		return;
	/* The text is not even a valid tag. */
	take("localhost/", base, ret);
}
