#include "oci/ref.h"

#include "oci/digest.h"

#include <arpa/inet.h>

/* Letters must not depend on the locale, so isalpha() is not used. */
#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

#define TEXT_MAX       1024 /* registry, repository, tag, digest and their separators */
#define HOST_MAX       253  /* RFC 1035, 2.3.4 */
#define REPOSITORY_MAX 255  /* reference.go, RepositoryNameTotalLengthMax */
#define TAG_MAX        128

#define DOCKER_REGISTRY "docker.io"

static int is_in(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* Parse a dot-separated label of a host name: letters, digits, dashes inside. */
static int check_label(const char *s, size_t n)
{
	if (n == 0 || s[0] == '-' || s[n - 1] == '-')
		return 0;
	return strspn(s, LOWER UPPER DIGITS "-") >= n;
}

static int check_host_name(const char *host)
{
	for (const char *s = host;; s++) {
		size_t n = strcspn(s, ".");

		if (!check_label(s, n))
			return 0;
		s += n;
		if (*s == '\0')
			return strlen(host) <= HOST_MAX;
	}
}

static int check_port(const char *port)
{
	size_t n = strspn(port, DIGITS);

	return n > 0 && n <= 5 && port[n] == '\0' && atoi(port) > 0 && atoi(port) <= 65535;
}

/* host, host:port, [v6] or [v6]:port; in brackets no zone and no IPv4 tail. */
static int check_registry(const char *text)
{
	auto_free char *host = xstrdup(text);
	struct in6_addr v6;
	char *port, *end;

	if (host[0] == '[') {
		end = strchr(host, ']');
		if (!end)
			return 0;
		*end = '\0';
		if (strspn(host + 1, DIGITS "abcdefABCDEF:") != strlen(host + 1) ||
			inet_pton(AF_INET6, host + 1, &v6) != 1)
			return 0;
		return end[1] == '\0' || (end[1] == ':' && check_port(end + 2));
	}
	port = strchr(host, ':');
	if (port) {
		*port++ = '\0';
		if (!check_port(port))
			return 0;
	}
	return check_host_name(host);
}

/* A path component: runs of a-z0-9 joined by one '.', one or two '_', or any number of '-'. */
static int check_component(const char *s, size_t n)
{
	size_t i = 0;

	for (;;) {
		size_t run = strspn(s + i, LOWER DIGITS), sep = 0;

		if (run == 0 || i + run > n)
			return 0;
		i += run;
		if (i == n)
			return 1;
		if (s[i] == '.')
			sep = 1;
		else if (s[i] == '_')
			sep = s[i + 1] == '_' ? 2 : 1;
		else
			sep = strspn(s + i, "-");
		if (sep == 0)
			return 0;
		i += sep;
	}
}

static int check_repository(const char *repo, struct mlr_error *err)
{
	if (strpbrk(repo, UPPER)) {
		auto_free char *lower = xstrdup(repo);

		for (char *p = lower; *p; p++)
			if (is_in(*p, UPPER))
				*p += 'a' - 'A';
		return mlr_fail(err, EINVAL,
			"repository names are lower case: '%.255s' should perhaps be '%.255s'",
			repo, lower);
	}
	if (strlen(repo) > REPOSITORY_MAX)
		return mlr_fail(err, EINVAL, "the repository has %zu characters, the limit is %d",
			strlen(repo), REPOSITORY_MAX);
	for (const char *s = repo;; s++) {
		size_t n = strcspn(s, "/");

		if (n == 0)
			return mlr_fail(err, EINVAL, "the repository '%s' has an empty part", repo);
		if (!check_component(s, n))
			return mlr_fail(err, EINVAL,
				"'%.*s' is not a part of a repository name: letters a-z and "
				"digits, joined by single '.', '_', '__' or dashes",
				(int)n, s);
		s += n;
		if (*s == '\0')
			return 0;
	}
}

static int check_tag(const char *tag, struct mlr_error *err)
{
	size_t n = strlen(tag);

	if (n == 0)
		return mlr_fail(err, EINVAL, "nothing follows the ':' of the tag");
	if (n > TAG_MAX)
		return mlr_fail(
			err, EINVAL, "the tag has %zu characters, the limit is %d", n, TAG_MAX);
	if (is_in(tag[0], ".-") || strspn(tag, LOWER UPPER DIGITS "_.-") != n)
		return mlr_fail(err, EINVAL,
			"'%s' is not a tag: letters, digits, '_', '.', '-', the first no '.' or '-'",
			tag);
	return 0;
}

/* Does the part before the first slash name a registry rather than a directory of Docker Hub?
 * (normalize.go, splitDockerDomain) */
static int names_registry(const char *s, size_t n)
{
	return memchr(s, '.', n) || memchr(s, ':', n) || s[0] == '[' ||
		(n == 9 && strncmp(s, "localhost", 9) == 0);
}

/* Split a name that has no tag and no digest. */
static int split_name(const char *name, struct oci_ref *ref, struct mlr_error *err)
{
	const char *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : 0;

	if (!slash || !names_registry(name, n)) {
		ref->registry = xstrdup(DOCKER_REGISTRY);
		ref->repository = xstrdup(name);
		ref->short_name = xstrdup(name);
	} else {
		ref->registry = xstrndup(name, n);
		ref->repository = xstrdup(slash + 1);
		if (!check_registry(ref->registry))
			return mlr_fail(err, EINVAL,
				"'%s' is not a registry: a host or an address, :port if needed",
				ref->registry);
	}
	if (strcasecmp(ref->registry, "index.docker.io") == 0 ||
		strcasecmp(ref->registry, DOCKER_REGISTRY) == 0) {
		set_ptr(&ref->registry, xstrdup(DOCKER_REGISTRY));
		if (!strchr(ref->repository, '/')) {
			char *full = xasprintf("library/%s", ref->repository);

			set_ptr(&ref->repository, full);
		}
	}
	return 0;
}

/* An image ID alone is not a name (distribution/reference, normalize.go, ParseNormalizedNamed);
 * with a tag or a digest it is library/<64 digits>. */
static int looks_like_id(const char *name)
{
	return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64;
}

static int parse(char *text, struct oci_ref *ref, struct mlr_error *err)
{
	char *at = strchr(text, '@'), *slash, *colon;

	if (looks_like_id(text))
		return mlr_fail(
			err, EINVAL, "64 hexadecimal digits are an image's id, not its name");
	if (at) {
		*at = '\0';
		TRY(oci_digest_check(at + 1, err));
		ref->digest = xstrdup(at + 1);
	}

	slash = strrchr(text, '/');
	colon = strrchr(slash ? slash : text, ':');
	if (colon) {
		*colon = '\0';
		TRY(check_tag(colon + 1, err));
		ref->tag = xstrdup(colon + 1);
	} else if (!ref->digest) {
		ref->tag = xstrdup("latest");
	}

	if (*text == '\0')
		return mlr_fail(err, EINVAL, "the name is empty");
	TRY(split_name(text, ref, err));
	return check_repository(ref->repository, err);
}

/* Refuse some mistakes before parsing, with a better message. */
static int check_text(const char *text, struct mlr_error *err)
{
	if (strlen(text) > TEXT_MAX)
		return mlr_fail(
			err, EINVAL, "%zu characters, the limit is %d", strlen(text), TEXT_MAX);
	for (const char *s = text; *s; s++)
		if ((unsigned char)*s <= 0x20 || (unsigned char)*s >= 0x7f)
			return mlr_fail(
				err, EINVAL, "names have no spaces and no characters beyond ASCII");
	if (strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0)
		return mlr_fail(err, EINVAL, "a name has no '%.*s' before it: leave it out",
			(int)(strchr(text, '/') - text) + 2, text);
	return 0;
}

void oci_ref_done(struct oci_ref *ref)
{
	free(ref->registry);
	free(ref->repository);
	free(ref->tag);
	free(ref->digest);
	free(ref->short_name);
	*ref = (struct oci_ref){ 0 };
}

int oci_ref_parse(const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_free char *copy = NULL;
	const char *name = text;
	int r;

	if (strncmp(name, "docker://", 9) == 0)
		name += 9;
	r = check_text(name, err);
	if (r == 0) {
		copy = xstrdup(name);
		r = parse(copy, &ref, err);
	}
	if (r < 0) {
		if (err)
			err->code = EINVAL;
		mlr_wrap(err, "'%.100s' is not an image name", text);
		mlr_hint(err,
			"a name is [registry/]repository[:tag][@sha256:digest], as in debian:12 or "
			"127.0.0.1:5000/team/image:1.0");
		return -EINVAL;
	}
	*ret = take_struct(&ref, { 0 });
	return 0;
}

static char *copy_text(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

void oci_ref_copy(const struct oci_ref *from, struct oci_ref *ret)
{
	*ret = (struct oci_ref){ copy_text(from->registry), copy_text(from->repository),
		copy_text(from->tag), copy_text(from->digest), copy_text(from->short_name) };
}

void oci_ref_make_local(struct oci_ref *ref)
{
	if (!ref->short_name)
		return;
	free(ref->registry);
	free(ref->repository);
	ref->registry = xstrdup("localhost");
	ref->repository = take_ptr(&ref->short_name);
}

int oci_ref_parse_local(const char *text, struct oci_ref *ret, struct mlr_error *err)
{
	TRY(oci_ref_parse(text, ret, err));
	oci_ref_make_local(ret);
	return 0;
}

char *oci_ref_canonical(const struct oci_ref *ref)
{
	return xasprintf("%s/%s%s%s%s%s", ref->registry, ref->repository, ref->tag ? ":" : "",
		ref->tag ? ref->tag : "", ref->digest ? "@" : "", ref->digest ? ref->digest : "");
}

int oci_ref_is_same(const char *a, const char *b)
{
	auto_call(oci_ref_done) struct oci_ref x = { 0 };
	auto_call(oci_ref_done) struct oci_ref y = { 0 };
	auto_free char *one = NULL, *two = NULL;

	if (oci_ref_parse(a, &x, NULL) < 0 || oci_ref_parse(b, &y, NULL) < 0)
		return 0;
	one = oci_ref_canonical(&x);
	two = oci_ref_canonical(&y);
	return strcmp(one, two) == 0;
}

int oci_ref_is_loopback(const struct oci_ref *ref)
{
	auto_free char *host = xstrdup(ref->registry);
	struct in6_addr v6;
	struct in_addr v4;
	char *end;

	if (host[0] == '[') {
		end = strchr(host, ']');
		if (end)
			*end = '\0';
		return inet_pton(AF_INET6, host + 1, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
	}
	end = strchr(host, ':');
	if (end)
		*end = '\0';
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return strcasecmp(host, "localhost") == 0;
}
