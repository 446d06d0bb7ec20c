/* Machines as JSON and back. */
#include "unit.h"
#include "gpu/profile.h"

static struct gpu_node node(const char *path, int error)
{
	return (struct gpu_node){ xstrdup(path), 195, 7, 1001, 1002, 0640, error };
}

/* One in which nothing is as it is in another: every field has a value of its own. */
static void make(struct gpu_machine *m)
{
	struct gpu_file *f;
	struct gpu *g;

	*m = (struct gpu_machine)GPU_MACHINE_INIT;
	m->driver = GPU_DRIVER_TEGRA;
	m->refused = xstrdup("a Jetson");
	m->driver_root = xstrdup("/run/nvidia/driver");
	m->driver_text = xstrdup("535.104.05");
	m->driver_version = (struct gpu_version){ { 535, 104, 5 } };
	m->cuda = (struct gpu_version){ { 12, 2 } };
	m->is_open = 1;
	f = gpu_machine_add_file(m);
	*f = (struct gpu_file){ GPU_SOCKET, GPU_AMD, GPU_CAPABILITIES_ALL & ~GPU_VIDEO,
		xstrdup("/run/a"), xstrdup("/run/b"), 32, xstrdup("libx.so.1"), xstrdup("libx.so"),
		{ { 2, 38 } } };
	f = gpu_machine_add_file(m);
	*f = (struct gpu_file){ GPU_LIBRARY, GPU_NVIDIA, 0, xstrdup("/usr/lib/liby.so"), NULL, 64,
		NULL, NULL, { { 0 } } };
	strv_add(&m->missing, "libz.so");
	g = gpu_machine_add_gpu(m);
	g->vendor = GPU_AMD;
	g->index = 3;
	g->bus_id = xstrdup("10000:3b:00.0");
	g->proc_dir = xstrdup("/proc/driver/nvidia/gpus/10000:3b:00.0");
	g->uuid = xstrdup("GPU-1");
	g->model = xstrdup("Model \"\xe2\x84\xa2\"");
	g->minor = 17;
	g->node = node("/dev/nvidia17", EPERM);
	*gpu_node_add(&g->drm, &g->n_drm) = node("/dev/dri/card1", 0);
	g->mig = xgrow(NULL, 0, sizeof(*g->mig));
	g->mig[g->n_mig++] =
		(struct gpu_mig){ 4, 5, xstrdup("MIG-1"), xstrdup("/proc/gi"), xstrdup("/proc/ci"),
			node("/dev/nvidia-caps/nvidia-cap1", ENXIO), { .path = NULL } };
	g->memory = 85899345920;
	g->brand = xstrdup("Tesla");
	g->arch = (struct gpu_version){ { 9, 0, 10 } };
	g = gpu_machine_add_gpu(m);
	g->bus_id = xstrdup("");
	*gpu_node_add(&m->nodes, &m->n_nodes) = node("/dev/nvidiactl", EACCES);
	*gpu_node_add(&m->fabric, &m->n_fabric) = node("/dev/gdrdrv", ENOENT);
	m->has_caps = 1;
	strv_add(&m->warnings, "odd");
	strv_add(&m->warnings, "odder");
}

static json_t *made(void)
{
	auto_call(gpu_machine_done) struct gpu_machine m;

	make(&m);
	return gpu_machine_to_json(&m);
}

static void a_machine_is_printed_with_all_that_it_has(void **state)
{
	static const char want[] =
		"{'driver':'tegra','refused':'a Jetson','driver_root':'/run/nvidia/driver','driver_text':'535.104.05',"
		"'driver_version':'535.104.5','cuda':'12.2','open':true,"
		"'files':[{'kind':'socket','vendor':'amd',"
		"'capabilities':['compute','compat32','graphics','utility','display','ngx'],'path':'/run/a',"
		"'target':'/run/b','bits':32,'soname':'libx.so.1','dev_link':'libx.so','glibc':'2.38'},"
		"{'kind':'library','vendor':'nvidia','capabilities':[],'path':'/usr/lib/liby.so','target':null,"
		"'bits':64,'soname':null,'dev_link':null,'glibc':null}],"
		"'missing':['libz.so'],"
		"'gpus':[{'vendor':'amd','index':3,'bus_id':'10000:3b:00.0',"
		"'proc_dir':'/proc/driver/nvidia/gpus/10000:3b:00.0','uuid':'GPU-1','model':'Model \\'\xe2\x84\xa2\\'',"
		"'minor':17,'node':{'path':'/dev/nvidia17','major':195,'minor':7,'uid':1001,'gid':1002,'mode':416,"
		"'error':'EPERM'},'drm':[{'path':'/dev/dri/card1','major':195,'minor':7,'uid':1001,'gid':1002,"
		"'mode':416,'error':null}],'mig':[{'gi':4,'ci':5,'uuid':'MIG-1','gi_access':'/proc/gi',"
		"'ci_access':'/proc/ci','gi_node':{'path':'/dev/nvidia-caps/nvidia-cap1','major':195,'minor':7,"
		"'uid':1001,'gid':1002,'mode':416,'error':'ENXIO'},'ci_node':null}],'memory':85899345920,"
		"'brand':'Tesla','arch':'9.0.10'},"
		"{'vendor':'nvidia','index':null,'bus_id':null,'proc_dir':null,'uuid':null,'model':null,'minor':0,"
		"'node':null,'drm':[],'mig':[],'memory':null,'brand':null,'arch':null}],"
		"'nodes':[{'path':'/dev/nvidiactl','major':195,'minor':7,'uid':1001,'gid':1002,'mode':416,"
		"'error':'EACCES'}],'fabric':[{'path':'/dev/gdrdrv','major':195,'minor':7,'uid':1001,'gid':1002,"
		"'mode':416,'error':'ENOENT'}],'has_caps':true,'warnings':['odd','odder']}";
	auto_free char *text = xstrdup(want), *have = NULL;
	json_t *j = made();

	for (char *s = text; *s; s++)
		if (*s == '\'')
			*s = '"';
	have = json_dumps(j, JSON_COMPACT);
	assert_string_equal(have, text);
	json_decref(j);
}

static void what_is_printed_is_read_as_the_same(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	json_t *j = made(), *again;

	if (gpu_machine_from_json(j, &m, &err) < 0)
		fail_msg("%s", err.text);
	again = gpu_machine_to_json(&m);
	assert_true(json_equal(j, again));
	assert_int_equal(m.gpus[0].node.error, EPERM);
	assert_int_equal(m.gpus[0].node.mode, 0640);
	assert_int_equal(m.gpus[1].index, -1);
	assert_string_equal(m.gpus[1].bus_id, "");
	assert_null(m.gpus[0].mig[0].ci_node.path);
	json_decref(j);
	json_decref(again);
}

/* Every key of an object is one that is missed, and of no kind is everything. */
static void check_keys(json_t *whole, json_t *object)
{
	json_t *copy = json_copy(object);
	const char *key;
	json_t *value;

	json_object_foreach(copy, key, value) {
		auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
		auto_free char *missing = xasprintf("%s: missing", key),
			       *kind = xasprintf("%s: ", key);
		struct mlr_error err = MLR_ERROR_INIT;

		json_object_del(object, key);
		assert_int_equal(gpu_machine_from_json(whole, &m, &err), -EPROTO);
		if (!strstr(err.text, missing))
			fail_msg("'%s' does not say \"%s\"", err.text, missing);
		json_object_set_new(object, key, json_real(0.5));
		assert_int_equal(gpu_machine_from_json(whole, &m, &err), -EPROTO);
		if (!strstr(err.text, kind) || strstr(err.text, missing))
			fail_msg("'%s' does not say \"%s\"", err.text, kind);
		json_object_set(object, key, value);
		assert_int_equal(gpu_machine_from_json(whole, &m, &err), 0);
	}
	json_decref(copy);
}

static json_t *at(json_t *o, const char *key)
{
	return json_array_get(json_object_get(o, key), 0);
}

static void a_key_that_is_missing_or_of_another_kind_is_named(void **state)
{
	json_t *j = made(), *gpu = at(j, "gpus");

	check_keys(j, j);
	check_keys(j, at(j, "files"));
	check_keys(j, gpu);
	check_keys(j, json_object_get(gpu, "node"));
	check_keys(j, at(gpu, "drm"));
	check_keys(j, at(gpu, "mig"));
	check_keys(j, json_object_get(at(gpu, "mig"), "gi_node"));
	check_keys(j, at(j, "nodes"));
	check_keys(j, at(j, "fabric"));
	json_decref(j);
}

static void refused(const char *path, const char *key, json_t *value, const char *words)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	json_t *j = made(), *o = j;

	if (strcmp(path, "mig") == 0)
		o = at(at(j, "gpus"), "mig");
	else if (*path)
		o = at(j, path);
	json_object_set_new(o, key, value);
	assert_int_equal(gpu_machine_from_json(j, &m, &err), -EPROTO);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say \"%s\"", err.text, words);
	json_decref(j);
}

static void values_out_of_range_are_refused_with_their_place(void **state)
{
	refused("gpus", "index", json_integer(-2),
		"gpus: [0]: index: expected a whole number from 0 to 2147483647, found -2");
	refused("gpus", "minor", json_integer(1ll << 40),
		"gpus: [0]: minor: expected a whole number from 0 to");
	refused("gpus", "memory", json_integer(-1),
		"gpus: [0]: memory: expected a whole number from 0 to");
	refused("mig", "gi", json_integer(-1),
		"gpus: [0]: mig: [0]: gi: expected a whole number from 0 to");
	refused("mig", "gi_access", json_string("proc"),
		"gpus: [0]: mig: [0]: gi_access: 'proc' is no absolute path");
	refused("nodes", "mode", json_integer(010000),
		"nodes: [0]: mode: expected a whole number from 0 to 4095, found 4096");
	refused("nodes", "error", json_string("EWHAT"), "nodes: [0]: error: unknown error");
	refused("files", "path", json_null(), "files: [0]: path: empty");
	refused("files", "target", json_null(), "files: [0]: target: missing");
	refused("files", "glibc", json_string("2.x"), "files: [0]: glibc: '2.x' is no version");
	refused("files", "capabilities", json_pack("[s]", "flying"),
		"files: [0]: capabilities: [0]: expected one of compute");
	refused("", "missing", json_pack("[i]", 1), "missing: [0]: expected a string, found 1");
	refused("", "driver", json_stringn("nvidia\0x", 8), "driver: expected one of ");
	refused("", "refused", json_stringn("a\0b", 3), "refused: a string with a zero byte");
	refused("", "gpus", json_pack("[i]", 1), "gpus: [0]: expected an object, found 1");
}

static void what_is_no_object_is_refused(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	json_t *j = json_array();

	assert_int_equal(gpu_machine_from_json(j, &m, &err), -EPROTO);
	assert_int_equal(gpu_machine_from_json(NULL, &m, &err), -EPROTO);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_is_printed_with_all_that_it_has),
		cmocka_unit_test(what_is_printed_is_read_as_the_same),
		cmocka_unit_test(a_key_that_is_missing_or_of_another_kind_is_named),
		cmocka_unit_test(values_out_of_range_are_refused_with_their_place),
		cmocka_unit_test(what_is_no_object_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
