#include "unit.h"
#include "base/yaml.h"
#include "cdi/spec.h"

static json_t *yaml(const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;
	json_t *v = NULL;

	if (mlr_yaml_load(text, strlen(text), MLR_YAML_TYPES, NULL, &v, &err) < 0)
		fail_msg("%s", err.text);
	return v;
}

static void yaml_is(const char *text, const char *json)
{
	json_auto_t *is = yaml(text), *wanted = json_loads(json, JSON_DECODE_ANY, NULL);

	assert_non_null(wanted);
	if (!json_equal(is, wanted))
		fail_msg("%s is %s", text, json_dumps(is, JSON_ENCODE_ANY));
}

static void yaml_fails(const char *text, const char *why)
{
	struct mlr_error err = MLR_ERROR_INIT;
	json_t *v = NULL;

	assert_int_equal(
		mlr_yaml_load(text, strlen(text), MLR_YAML_TYPES, NULL, &v, &err), -EPROTO);
	assert_null(v);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not tell of '%s'", err.text, why);
}

static void plain_scalars_are_what_go_reads_and_quoted_ones_are_text(void **state)
{
	yaml_is("[0, 195, -3, +7, 0x1F, 0666, 0o17, 0b101, 1_000]",
		"[0, 195, -3, 7, 31, 438, 15, 5, 1000]");
	yaml_is("['0', \"195\", !!str 7, ! 8]", "[\"0\", \"195\", \"7\", \"8\"]");
	yaml_is("[true, Yes, on, False, no, OFF]", "[true, true, true, false, false, false]");
	yaml_is("- ~\n- null\n-\n- ''\n", "[null, null, null, \"\"]");
	yaml_is("[1.5, 1e3, .5, 08]", "[1.5, 1000.0, 0.5, 8.0]");
	yaml_is("[0:0, 1.2.3, GPU-1, -, 2026-11-20, 99999999999999999999x]",
		"[\"0:0\", \"1.2.3\", \"GPU-1\", \"-\", \"2026-11-20\", \"99999999999999999999x\"]");
	yaml_is("a: |\n  b\n  c\nd: >-\n  e\n  f\n", "{\"a\": \"b\\nc\\n\", \"d\": \"e f\"}");
}

static void aliases_and_merges_are_what_they_stand_for(void **state)
{
	yaml_is("a: &x [1, 2]\nb: *x\n", "{\"a\": [1, 2], \"b\": [1, 2]}");
	yaml_is("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  p: 3\n",
		"{\"a\": {\"p\": 1, \"q\": 2}, \"b\": {\"p\": 3, \"q\": 2}}");
	yaml_is("a: &x {p: 1}\nc: &y {p: 2, r: 4}\nb:\n  <<: [*x, *y]\n",
		"{\"a\": {\"p\": 1}, \"c\": {\"p\": 2, \"r\": 4}, \"b\": {\"p\": 1, \"r\": 4}}");
}

static void yaml_that_is_wrong_is_refused_with_its_line(void **state)
{
	char deep[200] = "", text[4000] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
	size_t at = strlen(text);

	yaml_fails("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' appears twice");
	yaml_fails("a: *b\n", "line 1: alias of an unknown anchor");
	yaml_fails("a: &b [*b]\n", "alias of an unknown anchor");
	yaml_fails("a: 1\n---\nb: 2\n", "line 2: second document");
	yaml_fails("a: !!python/object x\n", "line 1: unsupported tag");
	yaml_fails("a: \"x\\0y\"\n", "NUL");
	yaml_fails("a: [1, 2\nb: c", "line 2");
	yaml_fails("[a]: 1\n", "key is not a string");
	yaml_fails("a: \xff\xfe\n", "line 1");
	yaml_fails("", "it is empty");
	memset(deep, '[', 100);
	yaml_fails(deep, "nested too deeply");
	for (int i = 1; i < 9; i++)
		at += (size_t)sprintf(text + at,
			"a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i - 1,
			i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
	yaml_fails(text, "too many values");
}

static void spec_reads(const char *text, struct cdi_spec *s)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (cdi_spec_parse(text, strlen(text), s, &err) < 0)
		fail_msg("%s", err.text);
}

static void spec_fails(const char *text, int code, const char *why)
{
	struct cdi_spec s = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(cdi_spec_parse(text, strlen(text), &s, &err), -code);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not tell of '%s'", err.text, why);
}

static void every_field_of_a_file_is_read(void **state)
{
	static const char text[] =
		"cdiVersion: v1.1.0\nkind: vendor.com/net.dev\nannotations: {a: b}\n"
		"devices:\n- name: 0\n  annotations: {c: d}\n  containerEdits:\n"
		"    env: [A=1, B=]\n"
		"    deviceNodes:\n    - path: /dev/a\n      hostPath: /dev/b\n      type: c\n"
		"      major: 195\n      minor: 3\n      fileMode: 0660\n      permissions: rw\n"
		"      uid: 5\n      gid: 6\n"
		"    mounts:\n    - hostPath: /h\n      containerPath: /c\n      type: bind\n"
		"      options: [ro, rbind]\n"
		"    hooks:\n    - hookName: createContainer\n      path: /usr/bin/x\n"
		"      args: [x, z]\n      env: [Q=1]\n      timeout: 4\n"
		"    additionalGIDs: [44, 0]\n"
		"    netDevices:\n    - {hostInterfaceName: eth0, name: net0}\n"
		"    intelRdt: {closID: c, schemata: [s], enableMonitoring: true}\n"
		"containerEdits:\n  env: [Z=9]\n";
	auto_call(cdi_spec_done) struct cdi_spec s = { 0 };
	const struct cdi_edits *e;

	spec_reads(text, &s);
	e = &s.devices[0].edits;
	assert_string_equal(s.kind, "vendor.com/net.dev");
	assert_string_equal(s.devices[0].name, "0");
	assert_string_equal(e->env.v[1], "B=");
	assert_string_equal(e->nodes[0].host_path, "/dev/b");
	assert_string_equal(e->nodes[0].type, "c");
	assert_int_equal(e->nodes[0].major, 195);
	assert_int_equal(e->nodes[0].minor, 3);
	assert_int_equal(e->nodes[0].file_mode, 0660);
	assert_string_equal(e->nodes[0].permissions, "rw");
	assert_int_equal(e->nodes[0].uid, 5);
	assert_int_equal(e->nodes[0].gid, 6);
	assert_string_equal(e->mounts[0].container_path, "/c");
	assert_string_equal(e->mounts[0].type, "bind");
	assert_string_equal(e->mounts[0].options.v[1], "rbind");
	assert_string_equal(e->hooks[0].args.v[1], "z");
	assert_string_equal(e->hooks[0].env.v[0], "Q=1");
	assert_int_equal(e->hooks[0].timeout, 4);
	assert_int_equal(e->n_gids, 2);
	assert_int_equal(e->gids[0], 44);
	assert_string_equal(e->net_devices.v[0], "eth0");
	assert_true(e->has_rdt);
	assert_string_equal(s.edits.env.v[0], "Z=9");
}

#define DEVICE(edits) "{\"name\":\"a\",\"containerEdits\":{" edits "}}"
#define FILE_OF(version, device) \
	"{\"cdiVersion\":\"" version "\",\"kind\":\"v.com/c\",\"devices\":[" device "]}"
#define ENV "\"env\":[\"A=1\"]"

static void what_is_wrong_in_a_file_is_named_by_its_key(void **state)
{
	static const struct {
		const char *text, *why;
		int code;
	} cases[] = {
		{ "[]", "expected an object, found []", EPROTO },
		{ "{", "line 1", EPROTO },
		{ " ", "it is empty", EPROTO },
		{ "{\"kind\":\"v.com/c\",\"devices\":[" DEVICE(ENV) "]}", "cdiVersion: missing",
			EPROTO },
		{ FILE_OF("2.0.0", DEVICE(ENV)),
			"version '2.0.0' is not supported: use 0.3.0 to 1.1.0", ENOTSUP },
		{ FILE_OF("0.2.0", DEVICE(ENV)), "version '0.2.0' is not supported", ENOTSUP },
		{ FILE_OF("0.5.0", ""), "devices: the list is empty", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("")), "device 'a' has nothing in containerEdits",
			EPROTO },
		{ FILE_OF("0.5.0", "{\"name\":\"a\"}"), "has nothing in containerEdits", EPROTO },
		{ FILE_OF("0.5.0", DEVICE(ENV) "," DEVICE(ENV)),
			"devices: [1]: the name 'a' appears twice", EPROTO },
		{ FILE_OF("0.5.0",
			  DEVICE(ENV) ",{\"name\":\"b\",\"containerEdits\":{" ENV
				      "}}," DEVICE(ENV)),
			"devices: [2]: the name 'a' appears twice", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"evn\":[]")),
			"devices: [0]: 'a': containerEdits: unknown key 'evn'", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"env\":[\"A\"]")),
			"env: [0]: 'A' is not of the form NAME=VALUE", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"env\":\"A=1\"")), "env: expected a list, found ",
			EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"env\":[[1]]")), "env: [0]: expected a string",
			EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"deviceNodes\":[{}]")),
			"deviceNodes: [0]: path: missing", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"deviceNodes\":[{\"path\":\"\"}]")), "path: empty",
			EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"deviceNodes\":[{\"path\":\"/x\",\"type\":\"q\"}]")),
			"type: invalid type 'q'", EPROTO },
		{ FILE_OF("0.5.0",
			  DEVICE("\"deviceNodes\":[{\"path\":\"/x\",\"permissions\":\"x\"}]")),
			"permissions: invalid 'x'", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"deviceNodes\":[{\"path\":\"/x\",\"major\":\"195\"}]")),
			"major: expected a whole number", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"deviceNodes\":[{\"path\":\"/x\",\"major\":-1}]")),
			"major: expected a whole number from 0 to 2147483647, found -1", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"mounts\":[{\"hostPath\":\"/x\"}]")),
			"containerPath: missing", EPROTO },
		{ FILE_OF("0.5.0", DEVICE("\"hooks\":[{\"hookName\":\"x\",\"path\":\"/x\"}]")),
			"hookName: unknown hook 'x'", EPROTO },
		{ FILE_OF("0.4.0", "{\"name\":\"0\",\"containerEdits\":{" ENV "}}"),
			"version 0.4.0 lacks some of the fields, use 0.5.0", EPROTO },
		{ FILE_OF("0.4.0",
			  DEVICE("\"deviceNodes\":[{\"path\":\"/x\",\"hostPath\":\"/y\"}]")),
			"use 0.5.0", EPROTO },
		{ FILE_OF("0.3.0",
			  DEVICE("\"mounts\":[{\"hostPath\":\"/x\",\"containerPath\":\"/x\",\"type\":\"b\"}]")),
			"use 0.4.0", EPROTO },
		{ FILE_OF("0.6.0", DEVICE("\"additionalGids\":[4]")), "use 0.7.0", EPROTO },
		{ FILE_OF("1.0.0",
			  DEVICE("\"netDevices\":[{\"hostInterfaceName\":\"a\",\"name\":\"b\"}]")),
			"use 1.1.0", EPROTO },
		{ "{\"cdiVersion\":\"0.5.0\",\"kind\":\"v.com/c.d\",\"devices\":[" DEVICE(ENV) "]}",
			"use 0.6.0", EPROTO },
		{ "{\"cdiVersion\":\"0.5.0\",\"kind\":\"vendor\",\"devices\":[" DEVICE(ENV) "]}",
			"kind: 'vendor'", EPROTO },
		{ FILE_OF("0.5.0", "{\"name\":\"a b\",\"containerEdits\":{" ENV "}}"),
			"invalid device name 'a b'", EPROTO },
		{ FILE_OF("0.5.0", DEVICE(ENV "," ENV)), "duplicate", EPROTO },
		{ FILE_OF("0.5.0", DEVICE(ENV ",\"ENV\":[]")), "the key 'env' appears twice",
			EPROTO },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		spec_fails(cases[i].text, cases[i].code, cases[i].why);
}

static void a_version_that_is_enough_is_taken(void **state)
{
	static const char *const texts[] = {
		FILE_OF("0.3.0", DEVICE(ENV)), FILE_OF("v0.5.0", DEVICE(ENV)),
		FILE_OF("0.8.0", DEVICE("\"additionalGids\":[4],\"env\":null")),
		FILE_OF("0.3.0", DEVICE("\"ENV\":[\"A=1\"]")),
		"{cdiVersion: 0.5.0, kind: v.com/c, devices: [{name: a, containerEdits: {env: [A=1]}}]}"
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_call(cdi_spec_done) struct cdi_spec s = { 0 };

		spec_reads(texts[i], &s);
	}
}

static void a_file_beyond_four_mebibytes_is_not_read(void **state)
{
	struct cdi_spec s = { 0 };
	auto_free char *big = xmalloc(GPU_CDI_FILE_MAX + 1);

	memset(big, ' ', GPU_CDI_FILE_MAX + 1);
	assert_int_equal(cdi_spec_parse(big, GPU_CDI_FILE_MAX + 1, &s, NULL), -EFBIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_scalars_are_what_go_reads_and_quoted_ones_are_text),
		cmocka_unit_test(aliases_and_merges_are_what_they_stand_for),
		cmocka_unit_test(yaml_that_is_wrong_is_refused_with_its_line),
		cmocka_unit_test(every_field_of_a_file_is_read),
		cmocka_unit_test(what_is_wrong_in_a_file_is_named_by_its_key),
		cmocka_unit_test(a_version_that_is_enough_is_taken),
		cmocka_unit_test(a_file_beyond_four_mebibytes_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
