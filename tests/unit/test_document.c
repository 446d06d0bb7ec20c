#include "unit.h"
#include "oci/config.h"
#include "oci/manifest.h"
#include "oci/platform.h"

#define D0 "sha256:0000000000000000000000000000000000000000000000000000000000000000"
#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:2222222222222222222222222222222222222222222222222222222222222222"

#define OCI_M    "application/vnd.oci.image.manifest.v1+json"
#define OCI_I    "application/vnd.oci.image.index.v1+json"
#define DOCKER_M "application/vnd.docker.distribution.manifest.v2+json"
#define DOCKER_I "application/vnd.docker.distribution.manifest.list.v2+json"

#define OCI_CONFIG                                                                     \
	"{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"" D0 \
	"\",\"size\":7}"
#define LAYER(type)      "{\"mediaType\":\"" type "\",\"digest\":\"" D1 "\",\"size\":100}"
#define GZIP_LAYER       LAYER("application/vnd.oci.image.layer.v1.tar+gzip")
#define MANIFEST(layers) "{\"schemaVersion\":2,\"config\":" OCI_CONFIG ",\"layers\":[" layers "]}"
#define ENTRY(platform) \
	"{\"mediaType\":\"" OCI_M "\",\"digest\":\"" D1 "\",\"size\":5,\"platform\":{" platform "}}"
#define INDEX(entries) "{\"schemaVersion\":2,\"manifests\":[" entries "]}"

static int parse(const char *json, const char *served, const char *announced,
	struct oci_document *d, struct mlr_error *err)
{
	return oci_document_parse(json, strlen(json), served, announced, d, err);
}

static void refused(
	const char *json, const char *served, const char *announced, int code, const char *why)
{
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int r = parse(json, served, announced, &d, &err);

	if (r != -code)
		fail_msg("%s: %d instead of %d: %s", json, r, -code, err.text);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say: %s", err.text, why);
	assert_null(d.media_type);
}

static void malformed(const char *json, const char *why)
{
	refused(json, OCI_M, NULL, EPROTO, why);
}

static void unsupported(const char *json, const char *why)
{
	refused(json, OCI_M, NULL, ENOTSUP, why);
}

static void an_oci_manifest_gives_its_layers_lowest_first(void **state)
{
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(parse(MANIFEST(GZIP_LAYER
				       ",{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\","
				       "\"digest\":\"" D2 "\",\"size\":23}"),
				 OCI_M "; charset=utf-8", NULL, &d, &err),
		0);
	assert_int_equal(d.kind, OCI_MANIFEST);
	assert_string_equal(d.media_type, OCI_M);
	assert_string_equal(d.config.digest, D0);
	assert_int_equal(d.n_layers, 2);
	assert_string_equal(d.layers[0].blob.digest, D1);
	assert_int_equal(d.layers[0].compression, OCI_GZIP);
	assert_string_equal(d.layers[1].blob.digest, D2);
	assert_int_equal(d.layers[1].compression, OCI_PLAIN);
	assert_int_equal(d.size, 123);
	oci_document_done(&d);
}

static void layers_say_how_they_are_compressed(void **state)
{
	static const struct {
		const char *json;
		enum oci_compression compression;
	} cases[] = {
		{ MANIFEST(LAYER("application/vnd.oci.image.layer.v1.tar")), OCI_PLAIN },
		{ MANIFEST(LAYER("application/vnd.oci.image.layer.v1.tar+gzip")), OCI_GZIP },
		{ MANIFEST(LAYER("application/vnd.oci.image.layer.v1.tar+zstd")), OCI_ZSTD },
		{ MANIFEST(LAYER("application/vnd.docker.image.rootfs.diff.tar.zstd")), OCI_ZSTD },
	};
	struct oci_document d = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(parse(cases[i].json, OCI_M, NULL, &d, NULL), 0);
		assert_int_equal(d.layers[0].compression, cases[i].compression);
		oci_document_done(&d);
	}
}

static void dockers_schema_2_is_the_same_under_other_names(void **state)
{
	static const char json[] =
		"{\"schemaVersion\":2,\"mediaType\":\"" DOCKER_M "\",\"config\":{\"mediaType\":"
		"\"application/vnd.docker.container.image.v1+json\",\"digest\":\"" D0
		"\",\"size\":7},\"layers\":[" LAYER(
			"application/vnd.docker.image.rootfs.diff.tar.gzip") "]}";
	struct oci_document d = { 0 };

	assert_int_equal(parse(json, DOCKER_M, NULL, &d, NULL), 0);
	assert_string_equal(d.media_type, DOCKER_M);
	assert_int_equal(d.layers[0].compression, OCI_GZIP);
	oci_document_done(&d);
	/* What a server cannot say binds nothing. */
	assert_int_equal(parse(json, "application/json", DOCKER_M, &d, NULL), 0);
	oci_document_done(&d);
	assert_int_equal(parse(json, NULL, NULL, &d, NULL), 0);
	oci_document_done(&d);
}

static void a_document_is_what_everyone_says_it_is(void **state)
{
	refused("{\"schemaVersion\":2,\"mediaType\":\"" OCI_M "\",\"config\":" OCI_CONFIG
		",\"layers\":[]}",
		OCI_I, NULL, EPROTO, "served as '" OCI_I "' but says that it is '" OCI_M "'");
	refused(MANIFEST(GZIP_LAYER), OCI_M, OCI_I, EPROTO,
		"announced as '" OCI_I "' but is '" OCI_M "'");
	refused(MANIFEST(GZIP_LAYER), OCI_I, NULL, EPROTO, "the contents are not those of");
	malformed(INDEX(""), "the contents are not those of");
	malformed("{\"schemaVersion\":2,\"config\":" OCI_CONFIG ",\"layers\":[],\"manifests\":[]}",
		"a manifest and an index at once");
	refused("{\"schemaVersion\":2,\"layers\":[],\"manifests\":[]}", OCI_I, NULL, EPROTO,
		"a manifest and an index at once");
	malformed("{\"schemaVersion\":2,\"schemaVersion\":2}", "not JSON: line 1: duplicate");
	refused(MANIFEST(""), "text/html", NULL, ENOTSUP, "'text/html' is neither");
}

static void what_cannot_be_unpacked_is_refused_by_name(void **state)
{
	refused("{\"schemaVersion\":1,\"name\":\"x\",\"fsLayers\":[]}", NULL, NULL, ENOTSUP,
		"Docker's schema 1");
	refused("{\"schemaVersion\":2,\"config\":" OCI_CONFIG ",\"layers\":[]}",
		"application/vnd.docker.distribution.manifest.v1+prettyjws", NULL, ENOTSUP,
		"Docker's schema 1");
	unsupported(MANIFEST(LAYER("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")),
		"layer 1: foreign layers");
	unsupported(MANIFEST(GZIP_LAYER
			    "," LAYER("application/vnd.oci.image.layer.nondistributable.v1.tar")),
		"layer 2: foreign layers");
	unsupported(MANIFEST(LAYER("application/vnd.oci.image.layer.v1.tar+gzip+encrypted")),
		"layer 1: encrypted layers");
	unsupported(MANIFEST(LAYER("application/vnd.wasm.content.layer.v1+wasm")),
		"layers of media type 'application/vnd.wasm.content.layer.v1+wasm'");
	unsupported(
		"{\"schemaVersion\":2,\"layers\":[],\"config\":{\"mediaType\":\"application/vnd.cncf.helm.config.v1"
		"+json\",\"digest\":\"" D0 "\",\"size\":7}}",
		"this is a Helm chart, not a container image");
}

#define ARTIFACT(config, more)                                                           \
	"{\"schemaVersion\":2," more "\"layers\":[],\"config\":{\"mediaType\":\"" config \
	"\",\"digest\":\"" D0 "\",\"size\":2}}"

static void artifacts_that_are_no_images_are_called_by_their_names(void **state)
{
	unsupported(ARTIFACT("application/vnd.oci.empty.v1+json",
			    "\"artifactType\":\"application/vnd.dev.cosign.x\","),
		"this is a signature, not a container image (it is of type");
	unsupported(ARTIFACT("application/vnd.oci.empty.v1+json", ""),
		"this is an artifact without a configuration");
	unsupported(ARTIFACT("application/vnd.sylabs.sif.config.v1+json", ""), "Singularity image");
	unsupported(ARTIFACT("application/vnd.unknown.config.v1+json", ""), "pushed by ORAS");
	unsupported(ARTIFACT("text/x-odd", ""),
		"this is something else, not a container image (its configuration is 'text/x-odd')");
	malformed(ARTIFACT("text/x-odd", "\"artifactType\":7,"),
		"artifactType: expected a string, found 7");
	refused("{\"schemaVersion\":2,\"blobs\":[]}",
		"application/vnd.oci.artifact.manifest.v1+json", NULL, ENOTSUP,
		"this is an artifact, not a container image");
}

static void other_places_for_the_bytes_are_not_looked_at(void **state)
{
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(
		parse(MANIFEST(
			      "{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"" D2
			      "\",\"size\":23,\"urls\":[\"http://127.0.0.1/\"],\"data\":\"aGVsbG8=\"}"),
			OCI_M, NULL, &d, &err),
		0);
	assert_string_equal(d.layers[0].blob.digest, D2);
	assert_int_equal(d.layers[0].blob.size, 23);
	oci_document_done(&d);
}

static void a_key_that_stands_twice_is_refused(void **state)
{
	refused("{\"schemaVersion\":2,\"schemaVersion\":2,\"manifests\":[]}", OCI_I, NULL, EPROTO,
		"duplicate");
	refused(INDEX("{\"mediaType\":\"" OCI_M "\",\"digest\":\"" D1 "\",\"digest\":\"" D2
		      "\",\"size\":5}"),
		OCI_I, NULL, EPROTO, "duplicate");
}

static void numbers_beyond_64_bits_are_nobodys_concern_where_nobody_reads_them(void **state)
{
	static const char odd[] =
		"{\"schemaVersion\":2,\"x\":18446744073709551616,\"y\":[-9223372036854775809,1e400,\"\\\"1e400\"],"
		"\"config\":" OCI_CONFIG
		",\"layers\":[{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"" D1
		"\",\"size\":4398046511104,\"z\":99999999999999999999}]}";
	auto_call(oci_document_done) struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (oci_document_parse(odd, strlen(odd), OCI_M, NULL, &d, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(d.layers[0].blob.size, 4398046511104);
	malformed(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"" D1
			   "\",\"size\":18446744073709551716}"),
		"size: expected a whole number");
	malformed("{\"schemaVersion\":2,\"x\":18446744073709551616,,}", "not JSON: line 1");
	malformed("{\"schemaVersion\":2,\"x\":018446744073709551616}", "not JSON: line 1");
}

static void malformed_documents_are_told_where(void **state)
{
	malformed("", "not JSON");
	malformed("[]", "not an object");
	malformed("{}", "\"schemaVersion\" is not 2");
	malformed("{\"schemaVersion\":\"2\"}", "\"schemaVersion\" is not 2");
	malformed("{\"schemaVersion\":2}", "config: missing");
	malformed("{\"schemaVersion\":2,\"config\":" OCI_CONFIG "}", "layers: missing");
	refused("{\"schemaVersion\":2}", OCI_I, NULL, EPROTO, "manifests: missing");
	malformed(MANIFEST("7"), "layers: [0]: expected an object, found 7");
	malformed(
		MANIFEST("{\"digest\":\"" D1 "\",\"size\":1}"), "layers: [0]: mediaType: missing");
	malformed(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"sha256:../../x\",\"size\":1}"),
		"'sha256:../../x' is not a digest");
	unsupported(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"sha512:00\",\"size\":1}"),
		"only sha256");
	malformed(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"" D1 "\",\"size\":-1}"),
		"size: expected a whole number from 0 to 4398046511104, found -1");
	malformed(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"" D1
			   "\",\"size\":9223372036854775807}"),
		"found 9223372036854775807");
	malformed(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"" D1 "\",\"size\":1.5}"),
		"size: expected a whole number");
	malformed(MANIFEST("{\"mediaType\":\"x\",\"digest\":\"" D1 "\"}"), "size: missing");
	malformed(MANIFEST("{\"mediaType\":\"a\\nb\",\"digest\":\"" D1 "\",\"size\":1}"),
		"contains control characters");
	refused(INDEX("{}"), OCI_I, NULL, EPROTO, "manifests: [0]: mediaType: missing");
}

static void a_document_beyond_4_mib_is_not_looked_at(void **state)
{
	size_t len = OCI_DOCUMENT_MAX + 1;
	auto_free char *big = xmalloc(len);
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	memset(big, ' ', len);
	assert_int_equal(oci_document_parse(big, len, OCI_M, NULL, &d, &err), -EFBIG);
	assert_non_null(strstr(err.text, "the limit is 4194304"));
}

static void more_layers_than_linux_mounts_are_refused(void **state)
{
	char *layers = xstrdup(GZIP_LAYER);

	for (int i = 0; i < OCI_LAYERS_MAX; i++) {
		char *more = xasprintf("%s," GZIP_LAYER, layers);

		free(layers);
		layers = more;
	}
	auto_free char *json = xasprintf(
		"{\"schemaVersion\":2,\"config\":" OCI_CONFIG ",\"layers\":[%s]}", layers);

	free(layers);
	unsupported(json, "501 layers, the limit is 500");
}

static const struct oci_index_entry *choose(
	struct oci_document *d, const char *json, const char *platform, struct mlr_error *err)
{
	const struct oci_index_entry *e = NULL;
	struct oci_platform want;

	assert_int_equal(parse(json, OCI_I, NULL, d, err), 0);
	assert_int_equal(oci_platform_parse(platform, &want, err), 0);
	return oci_index_choose(d, &want, &e, err) == 0 ? e : NULL;
}

static void an_index_is_searched_for_the_platform(void **state)
{
	static const char json[] = INDEX(
		ENTRY("\"os\":\"windows\",\"architecture\":\"amd64\"") "," ENTRY("\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v6\"") "," ENTRY("\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v7\"") "," ENTRY(
			"\"os\":\"linux\",\"architecture\":\"arm64\",\"variant\":\"v8\"") "," ENTRY("\"os\":\"linux\",\"architecture\":\"amd64\""));
	static const struct {
		const char *want;
		int entry;
	} cases[] = {
		{ "linux/amd64", 4 },
		{ "linux/x86_64", 4 },
		{ "linux/amd64/v3", 4 },
		{ "linux/arm64", 3 },
		{ "linux/arm", 2 },
		{ "linux/arm/v7", 2 },
		{ "linux/arm/v6", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct oci_document d = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;
		const struct oci_index_entry *e = choose(&d, json, cases[i].want, &err);

		assert_non_null(e);
		assert_int_equal(e - d.entries, cases[i].entry);
		oci_document_done(&d);
	}
}

static void an_absent_platform_is_told_with_those_that_exist(void **state)
{
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_null(choose(&d,
		INDEX(ENTRY("\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v7\"") "," ENTRY(
			"\"os\":\"linux\",\"architecture\":\"s390x\"")),
		"linux/arm/v6", &err));
	assert_string_equal(err.text,
		"the image does not exist for linux/arm/v6; it does for: linux/arm/v7, linux/s390x");
	oci_document_done(&d);
}

static void attestations_and_strange_entries_are_passed_over(void **state)
{
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_null(choose(&d,
		INDEX(ENTRY(
			"\"os\":\"unknown\",\"architecture\":\"unknown\"") ","
									   "{\"mediaType\":\"" OCI_M
									   "\",\"digest\":\"" D1
									   "\",\"size\":5,"
									   "\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"},"
									   "\"annotations\":{\"vnd.docker.reference.type\":\"attestation-manifest\"}},"
									   "{\"mediaType\":\"application/vnd.example.signature\",\"digest\":\"" D1
									   "\",\"size\":5}"),
		"linux/amd64", &err));
	assert_int_equal(d.n_entries, 0);
	assert_non_null(strstr(err.text, "it does for: nothing"));
	oci_document_done(&d);
}

static void an_entry_without_a_platform_is_the_last_resort(void **state)
{
	static const char nested[] =
		"{\"mediaType\":\"" OCI_I "\",\"digest\":\"" D2 "\",\"size\":5}";
	struct oci_document d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	const struct oci_index_entry *e;
	auto_free char *both =
		xasprintf("{\"schemaVersion\":2,\"manifests\":[%s," ENTRY(
				  "\"os\":\"linux\",\"architecture\":\"amd64\"") "]}",
			nested);

	e = choose(&d, both, "linux/amd64", &err);
	assert_int_equal(e->kind, OCI_MANIFEST);
	oci_document_done(&d);
	e = choose(&d, both, "linux/arm64", &err);
	assert_int_equal(e->kind, OCI_INDEX);
	oci_document_done(&d);
}

static void platforms_are_read_and_printed(void **state)
{
	static const struct {
		const char *text, *printed;
	} cases[] = {
		{ "linux/amd64", "linux/amd64" },
		{ "linux/aarch64", "linux/arm64" },
		{ "linux/arm64/v8", "linux/arm64" },
		{ "linux/arm64/8", "linux/arm64" },
		{ "linux/arm/7", "linux/arm/v7" },
		{ "linux/armhf", "linux/arm/v7" },
		{ "linux/armel", "linux/arm/v6" },
		{ "windows/amd64", "windows/amd64" },
	};
	static const char *const bad[] = { "", "linux", "linux/", "/amd64", "linux/a/b/c",
		"linux/amd 64", "Linux/AMD64", "linux/averyveryverylongarchitecture" };
	struct oci_platform p;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[OCI_PLATFORM_SIZE];

		assert_int_equal(oci_platform_parse(cases[i].text, &p, NULL), 0);
		oci_platform_print(&p, out);
		assert_string_equal(out, cases[i].printed);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(oci_platform_parse(bad[i], &p, &err), -EINVAL);
		assert_non_null(strstr(
			err.text, "is not a platform\nhint: a platform is OS/ARCH[/VARIANT]"));
	}
	oci_platform_host(&p);
	assert_string_equal(p.os, "linux");
}

static void an_older_variant_runs_on_a_newer_machine_only(void **state)
{
	struct oci_platform v1, v3, v8, odd;

	oci_platform_set(&v1, "linux", "amd64", NULL);
	oci_platform_set(&v3, "linux", "amd64", "v3");
	oci_platform_set(&v8, "linux", "arm64", "v8");
	oci_platform_set(&odd, "linux", "arm64", "a-variant-much-too-long-to-be-one");
	assert_true(oci_platform_match(&v3, &v1) > 0);
	assert_true(oci_platform_match(&v3, &v3) > oci_platform_match(&v3, &v1));
	assert_int_equal(oci_platform_match(&v1, &v3), 0);
	assert_int_equal(oci_platform_match(&v8, &v1), 0);
	assert_int_equal(oci_platform_match(&v8, &odd), 0);
}

#define FULL_CONFIG                                                                                             \
	"{\"os\":\"linux\",\"architecture\":\"arm64\",\"variant\":\"v8\",\"created\":\"2024-01-01T00:00:00Z\"," \
	"\"config\":{\"Env\":[\"PATH=/bin\",\"A=1\",\"PATH=/usr/bin\",\"odd\",\"=x\",\"E=\"],"                  \
	"\"Entrypoint\":[\"/init\",\"a b\"],\"Cmd\":null,\"User\":\"\",\"WorkingDir\":\"/w\"},"                 \
	"\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" D1 "\",\"" D2 "\"]}}"

static void a_configuration_gives_what_exec_needs(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct oci_config c = { 0 };

	assert_int_equal(oci_config_parse(FULL_CONFIG, strlen(FULL_CONFIG), &c, &err), 0);
	assert_string_equal(c.os, "linux");
	assert_string_equal(c.architecture, "arm64");
	assert_string_equal(c.variant, "v8");
	assert_string_equal(c.created, "2024-01-01T00:00:00Z");
	assert_int_equal(c.env.n, 3);
	assert_string_equal(c.env.v[0], "PATH=/usr/bin");
	assert_string_equal(c.env.v[1], "A=1");
	assert_string_equal(c.env.v[2], "E=");
	assert_string_equal(c.entrypoint.v[1], "a b");
	assert_int_equal(c.cmd.n, 0);
	assert_null(c.user);
	assert_string_equal(c.working_dir, "/w");
	assert_int_equal(c.diff_ids.n, 2);
	assert_string_equal(c.diff_ids.v[0], D1);
	oci_config_done(&c);
}

static void a_configuration_without_a_config_object_is_fine(void **state)
{
	static const char json[] =
		"{\"os\":\"linux\",\"architecture\":\"amd64\",\"config\":null,\"rootfs\":{\"type\":"
		"\"layers\",\"diff_ids\":[]}}";
	struct oci_config c = { 0 };

	assert_int_equal(oci_config_parse(json, strlen(json), &c, NULL), 0);
	assert_int_equal(c.env.n, 0);
	oci_config_done(&c);
}

static void hostile_configurations_are_refused(void **state)
{
	static const struct {
		const char *json;
		int code;
		const char *why;
	} cases[] = {
		{ "{}", EPROTO, "os: missing" },
		{ "{\"os\":\"linux\",\"architecture\":\"\"}", EPROTO, "architecture: empty" },
		{ "{\"os\":7}", EPROTO, "os: expected a string, found 7" },
		{ "{\"os\":\"linux\",\"architecture\":\"amd64\"}", EPROTO, "rootfs: missing" },
		{ "{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"squash\"}}",
			ENOTSUP, "of type 'squash'" },
		{ "{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"../"
		  "../x\"]}}",
			EPROTO, "diff_ids: entry 1: '../../x' is not a digest" },
		{ "{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[1]}}",
			EPROTO, "diff_ids: [0]: expected a string, found 1" },
		{ "{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"layers\"},\"config\":{"
		  "\"Cmd\":\"sh\"}}",
			EPROTO, "Cmd: expected a list, found \"sh\"" },
		{ "{\"os\":\"linux\",\"architecture\":\"amd64\",\"rootfs\":{\"type\":\"layers\"},\"config\":{"
		  "\"User\":\"a\\u001b[31m\"}}",
			EPROTO, "User: contains control characters" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct oci_config c = { 0 };

		assert_int_equal(oci_config_parse(cases[i].json, strlen(cases[i].json), &c, &err),
			-cases[i].code);
		if (!strstr(err.text, cases[i].why))
			fail_msg("'%s' does not say: %s", err.text, cases[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_oci_manifest_gives_its_layers_lowest_first),
		cmocka_unit_test(layers_say_how_they_are_compressed),
		cmocka_unit_test(dockers_schema_2_is_the_same_under_other_names),
		cmocka_unit_test(a_document_is_what_everyone_says_it_is),
		cmocka_unit_test(what_cannot_be_unpacked_is_refused_by_name),
		cmocka_unit_test(artifacts_that_are_no_images_are_called_by_their_names),
		cmocka_unit_test(other_places_for_the_bytes_are_not_looked_at),
		cmocka_unit_test(a_key_that_stands_twice_is_refused),
		cmocka_unit_test(
			numbers_beyond_64_bits_are_nobodys_concern_where_nobody_reads_them),
		cmocka_unit_test(malformed_documents_are_told_where),
		cmocka_unit_test(a_document_beyond_4_mib_is_not_looked_at),
		cmocka_unit_test(more_layers_than_linux_mounts_are_refused),
		cmocka_unit_test(an_index_is_searched_for_the_platform),
		cmocka_unit_test(an_absent_platform_is_told_with_those_that_exist),
		cmocka_unit_test(attestations_and_strange_entries_are_passed_over),
		cmocka_unit_test(an_entry_without_a_platform_is_the_last_resort),
		cmocka_unit_test(platforms_are_read_and_printed),
		cmocka_unit_test(an_older_variant_runs_on_a_newer_machine_only),
		cmocka_unit_test(a_configuration_gives_what_exec_needs),
		cmocka_unit_test(a_configuration_without_a_config_object_is_fine),
		cmocka_unit_test(hostile_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
