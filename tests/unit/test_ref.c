#include "unit.h"
#include "oci/digest.h"
#include "oci/ref.h"

#define HEX    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define DIGEST "sha256:" HEX

/* Names and their one spelling; most are from the tests of github.com/distribution/reference. */
static const struct {
	const char *text, *registry, *repository, *tag, *digest;
} good[] = {
	{ "debian", "docker.io", "library/debian", "latest", NULL },
	{ "debian:12", "docker.io", "library/debian", "12", NULL },
	{ "docker://debian:12", "docker.io", "library/debian", "12", NULL },
	{ "docker.io/debian", "docker.io", "library/debian", "latest", NULL },
	{ "index.docker.io/library/debian", "docker.io", "library/debian", "latest", NULL },
	{ "tensorflow/tensorflow:2.15.0", "docker.io", "tensorflow/tensorflow", "2.15.0", NULL },
	{ "a/b/c/d", "docker.io", "a/b/c/d", "latest", NULL },
	{ "localhost/x", "localhost", "x", "latest", NULL },
	{ "localhost:5000/x", "localhost:5000", "x", "latest", NULL },
	{ "localhost:5000", "docker.io", "library/localhost", "5000", NULL },
	{ "127.0.0.1:5000/team/image:1.0", "127.0.0.1:5000", "team/image", "1.0", NULL },
	{ "[::1]:5000/x:y", "[::1]:5000", "x", "y", NULL },
	{ "[2001:db8::1]/x", "[2001:db8::1]", "x", "latest", NULL },
	{ "nvcr.io/nvidia/pytorch:24.01-py3", "nvcr.io", "nvidia/pytorch", "24.01-py3", NULL },
	{ "xn--n3h.com/myimage:xn--n3h.com", "xn--n3h.com", "myimage", "xn--n3h.com", NULL },
	{ "Registry.Example.COM:443/x", "Registry.Example.COM:443", "x", "latest", NULL },
	{ "a--b/c__d/e.f/g_h/i---j", "docker.io", "a--b/c__d/e.f/g_h/i---j", "latest", NULL },
	{ "debian@" DIGEST, "docker.io", "library/debian", NULL, DIGEST },
	{ "debian:12@" DIGEST, "docker.io", "library/debian", "12", DIGEST },
	{ "127.0.0.1:5000/x@" DIGEST, "127.0.0.1:5000", "x", NULL, DIGEST },
	{ HEX ":tag", "docker.io", "library/" HEX, "tag", NULL },
	{ HEX "@" DIGEST, "docker.io", "library/" HEX, NULL, DIGEST },
	{ "docker.io/" HEX, "docker.io", "library/" HEX, "latest", NULL },
	{ "x:_A.b-C", "docker.io", "library/x", "_A.b-C", NULL },
};

static const struct {
	const char *text, *why;
} bad[] = {
	{ "", "the name is empty" },
	{ "docker://", "the name is empty" },
	{ ":tag", "the name is empty" },
	{ "@" DIGEST, "the name is empty" },
	{ "Debian",
		"repository names are lower case: 'library/Debian' should perhaps be 'library/debian'" },
	{ "docker/Docker", "'docker/Docker' should perhaps be 'docker/docker'" },
	{ "Foo/bar", "repository names are lower case" },
	{ "https://github.com/docker/docker", "a name has no 'https://' before it" },
	{ "-debian", "'-debian' is not a part of a repository name" },
	{ "debian-", "'debian-' is not a part of a repository name" },
	{ "a..b", "'a..b' is not a part of a repository name" },
	{ "a___b", "'a___b' is not a part of a repository name" },
	{ "a._b", "'a._b' is not a part of a repository name" },
	{ "a/_b", "'_b' is not a part of a repository name" },
	{ "docker///docker", "has an empty part" },
	{ "docker/", "has an empty part" },
	{ "/docker", "has an empty part" },
	{ "docker.io/", "has an empty part" },
	{ "127.0.0.1:5000/", "has an empty part" },
	{ "-docker.io/docker/docker", "'-docker.io' is not a registry" },
	{ "a..b/x", "'a..b' is not a registry" },
	{ "foo_bar.com/x", "'foo_bar.com' is not a registry" },
	{ "host:/x", "'host:' is not a registry" },
	{ "host:0/x", "'host:0' is not a registry" },
	{ "host:65536/x", "'host:65536' is not a registry" },
	{ "host:80a/x", "'host:80a' is not a registry" },
	{ "user:pass@host/x", "is not a digest" },
	{ "[fc00::1]", "is not" },
	{ "[fc00::1]:5000", "is not" },
	{ "fc00::1:5000/debian", "'fc00::1:5000' is not a registry" },
	{ "[fe80::1%eth0]:5000/debian", "is not a registry" },
	{ "[2001:db8:3:4::192.0.2.33]:5000/debian", "is not a registry" },
	{ "[:::]/x", "is not a registry" },
	{ "[::1/x", "is not a registry" },
	{ "[::1]5000/x", "is not a registry" },
	{ HEX, "64 hexadecimal digits are an image's id" },
	{ "x:", "nothing follows the ':'" },
	{ "x:.hidden", "'.hidden' is not a tag" },
	{ "x:-dash", "'-dash' is not a tag" },
	{ "x:a b", "no spaces" },
	{ "x\n", "no spaces" },
	{ "d\xc3\xa9"
	  "bian",
		"no characters beyond ASCII" },
	{ "x:a:b", "is not a part of a repository name" },
	{ "x@", "'' is not a digest" },
	{ "x@sha256:abc", "has not 64 lower-case hexadecimal digits" },
	{ "x@sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
		"has not 64 lower-case hexadecimal digits" },
	{ "x@" DIGEST "0", "has not 64 lower-case hexadecimal digits" },
	{ "x@" DIGEST "@" DIGEST, "has not 64 lower-case hexadecimal digits" },
	{ "x@md5:d41d8cd98f00b204e9800998ecf8427e", "only sha256 is supported" },
	{ "x@sha256:../../../../etc/passwd", "has not 64 lower-case hexadecimal digits" },
	{ "../x", "'..' is not a registry" },
	{ "x/../y", "'..' is not a part of a repository name" },
};

static void good_names_come_apart_as_docker_takes_them(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct oci_ref ref = { 0 };

		if (oci_ref_parse(good[i].text, &ref, &err) != 0)
			fail_msg("%s", err.text);
		assert_string_equal(ref.registry, good[i].registry);
		assert_string_equal(ref.repository, good[i].repository);
		if (good[i].tag)
			assert_string_equal(ref.tag, good[i].tag);
		else
			assert_null(ref.tag);
		if (good[i].digest)
			assert_string_equal(ref.digest, good[i].digest);
		else
			assert_null(ref.digest);
		oci_ref_done(&ref);
	}
}

static void bad_names_are_refused_with_the_reason(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct oci_ref ref = { 0 };

		if (oci_ref_parse(bad[i].text, &ref, &err) != -EINVAL)
			fail_msg("'%s' was taken for a name", bad[i].text);
		if (!strstr(err.text, bad[i].why))
			fail_msg("'%s': '%s' does not say: %s", bad[i].text, err.text, bad[i].why);
		assert_non_null(strstr(err.text, "is not an image name: "));
		assert_non_null(strstr(err.text, "\nhint: a name is "));
		assert_null(ref.registry);
	}
}

static void the_canonical_spelling_parses_to_itself(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct oci_ref ref = { 0 }, again = { 0 };
		auto_free char *name = NULL, *second = NULL;

		assert_int_equal(oci_ref_parse(good[i].text, &ref, NULL), 0);
		name = oci_ref_canonical(&ref);
		assert_int_equal(oci_ref_parse(name, &again, NULL), 0);
		second = oci_ref_canonical(&again);
		assert_string_equal(name, second);
		oci_ref_done(&ref);
		oci_ref_done(&again);
	}
}

static void lengths_have_limits(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct oci_ref ref = { 0 };
	char text[2000];

	memset(text, 'a', sizeof(text));
	text[255 - strlen("library/")] = '\0';
	assert_int_equal(oci_ref_parse(text, &ref, &err), 0);
	oci_ref_done(&ref);

	text[strlen(text)] = 'a';
	text[256 - strlen("library/")] = '\0';
	assert_int_equal(oci_ref_parse(text, &ref, &err), -EINVAL);
	assert_non_null(strstr(err.text, "the repository has 256 characters, the limit is 255"));

	memset(text, 'a', sizeof(text));
	text[1] = ':';
	text[2 + 129] = '\0';
	assert_int_equal(oci_ref_parse(text, &ref, &err), -EINVAL);
	assert_non_null(strstr(err.text, "the tag has 129 characters, the limit is 128"));

	memset(text, 'a', sizeof(text));
	text[1999] = '\0';
	assert_int_equal(oci_ref_parse(text, &ref, &err), -EINVAL);
	assert_non_null(strstr(err.text, "1999 characters, the limit is 1024"));
}

static void loopback_registries_are_known_by_their_address(void **state)
{
	static const char *const yes[] = { "localhost", "LOCALHOST:1", "127.0.0.1",
		"127.255.3.4:5000", "[::1]", "[::1]:5000" };
	static const char *const no[] = { "docker.io", "128.0.0.1", "localhost.example.com",
		"10.0.0.1:5000", "[::2]:5000", "127.0.0.1.example.com", "127" };

	for (size_t i = 0; i < ARRAY_LEN(yes); i++)
		assert_true(oci_ref_is_loopback(&(struct oci_ref){ .registry = (char *)yes[i] }));
	for (size_t i = 0; i < ARRAY_LEN(no); i++)
		assert_false(oci_ref_is_loopback(&(struct oci_ref){ .registry = (char *)no[i] }));
}

static void only_whole_sha256_digests_pass(void **state)
{
	assert_int_equal(oci_digest_check(DIGEST, NULL), 0);
	assert_string_equal(oci_digest_hex(DIGEST), HEX);
	assert_int_equal(oci_digest_check("", NULL), -EINVAL);
	assert_int_equal(oci_digest_check(HEX, NULL), -EINVAL);
	assert_int_equal(oci_digest_check("sha256:", NULL), -EINVAL);
	assert_int_equal(oci_digest_check(DIGEST "/", NULL), -EINVAL);
	assert_int_equal(oci_digest_check("SHA256:" HEX, NULL), -EINVAL);
	assert_int_equal(oci_digest_check("sha256:/../" HEX, NULL), -EINVAL);
	assert_int_equal(oci_digest_check("sha512:" HEX HEX, NULL), -ENOTSUP);
	assert_int_equal(oci_digest_check("sha256+b64:abc", NULL), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_names_come_apart_as_docker_takes_them),
		cmocka_unit_test(bad_names_are_refused_with_the_reason),
		cmocka_unit_test(the_canonical_spelling_parses_to_itself),
		cmocka_unit_test(lengths_have_limits),
		cmocka_unit_test(loopback_registries_are_known_by_their_address),
		cmocka_unit_test(only_whole_sha256_digests_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
