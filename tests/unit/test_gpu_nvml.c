#include "unit.h"
#include "gpu/nvidia/nvml.h"

static const char query[] =
	"{\"driver\":\"535.104.05\",\"cuda\":\"12.2\",\"gpus\":["
	"{\"bus_id\":\"0000:3b:00.0\",\"uuid\":\"GPU-a\",\"name\":\"NVIDIA H200\",\"brand\":\"Nvidia\","
	"\"arch\":\"9.0\",\"memory_total\":150754820096,\"mig\":true,"
	"\"parts\":[{\"uuid\":\"MIG-one\",\"gi\":1,\"ci\":0},{\"uuid\":\"MIG-two\",\"gi\":2,\"ci\":0}],\"error\":null},"
	"{\"bus_id\":\"0000:d8:00.0\",\"uuid\":null,\"name\":null,\"brand\":null,\"arch\":null,"
	"\"memory_total\":null,\"mig\":null,\"parts\":[],\"error\":\"GPU is lost\"},"
	"{\"bus_id\":null,\"error\":\"GPU is lost\"}]}";

static struct gpu *add_gpu(struct gpu_machine *m, const char *bus_id)
{
	struct gpu *g = gpu_machine_add_gpu(m);

	g->bus_id = xstrdup(bus_id);
	return g;
}

static void what_is_not_known_is_filled_in_and_what_is_known_stays(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct gpu *g = add_gpu(&m, "0000:3b:00.0");
	char text[GPU_VERSION_TEXT];

	g->model = xstrdup("by the kernel");
	assert_int_equal(gpu_nvml_read_query(query, &m, &err), 0);
	g = &m.gpus[0];
	assert_string_equal(g->uuid, "GPU-a");
	assert_string_equal(g->model, "by the kernel");
	assert_string_equal(g->brand, "Nvidia");
	assert_string_equal(gpu_version_print(&g->arch, text), "9.0");
	assert_true(g->memory == 150754820096u);
	assert_string_equal(gpu_version_print(&m.cuda, text), "12.2");
}

static void a_part_is_found_by_its_numbers(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct gpu *g = add_gpu(&m, "0000:3b:00.0");

	g->mig = xcalloc(2, sizeof(*g->mig));
	g->n_mig = 2;
	g->mig[0].gi = 2;
	g->mig[1].gi = 1;
	assert_int_equal(gpu_nvml_read_query(query, &m, &err), 0);
	assert_string_equal(m.gpus[0].mig[0].uuid, "MIG-two");
	assert_string_equal(m.gpus[0].mig[1].uuid, "MIG-one");
}

static void a_broken_gpu_is_a_warning_and_the_others_are_filled_in(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	add_gpu(&m, "0000:d8:00.0");
	add_gpu(&m, "0000:3b:00.0");
	assert_int_equal(gpu_nvml_read_query(query, &m, &err), 0);
	assert_null(m.gpus[0].uuid);
	assert_string_equal(m.gpus[1].uuid, "GPU-a");
	assert_int_equal(m.warnings.n, 2);
	assert_non_null(strstr(m.warnings.v[0], "GPU 0000:d8:00.0 is broken: GPU is lost"));
	assert_non_null(strstr(m.warnings.v[1], "GPU without a bus id is broken"));
}

static void an_amd_gpu_at_the_same_place_is_left_alone(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	add_gpu(&m, "0000:3b:00.0")->vendor = GPU_AMD;
	assert_int_equal(gpu_nvml_read_query(query, &m, &err), 0);
	assert_null(m.gpus[0].uuid);
}

static void the_library_s_failure_is_told_with_the_way_out(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(
		gpu_nvml_read_query(
			"{\"error\":\"the driver is gone\",\"hint\":\"reboot\"}", &m, &err),
		-EIO);
	assert_string_equal(err.text, "the driver is gone\nhint: reboot");
	assert_int_equal(gpu_nvml_read_query("{\"error\":\"x\",\"hint\":null}", &m, NULL), -EIO);
}

static void what_is_no_answer_is_refused(void **state)
{
	static const char *const texts[] = { "", "[]", "{}", "{\"gpus\":3}", "{\"gpus\":[",
		"nonsense" };
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	struct gpu_sample *v = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(gpu_nvml_read_query(texts[i], &m, &err), -EPROTO);
		assert_int_equal(gpu_nvml_read_samples(texts[i], &v, &err), -EPROTO);
	}
	/* Of wrong types within: unknown. */
	assert_int_equal(
		gpu_nvml_read_samples(
			"{\"gpus\":[7,{\"bus_id\":5},{\"bus_id\":\"x\",\"busy\":\"x\",\"processes\":[3,{\"pid\":-4}]}]}",
			&v, &err),
		1);
	assert_int_equal(v[0].busy, -1);
	assert_int_equal(v[0].n_processes, 0);
	gpu_samples_free(v, 1);
}

static void samples_are_read_and_null_is_unknown(void **state)
{
	struct gpu_sample *v = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int n = gpu_nvml_read_samples(
		"{\"gpus\":[{\"bus_id\":\"0000:3b:00.0\",\"busy\":37,\"memory_busy\":12,\"memory_used\":1024,"
		"\"memory_total\":4096,\"power\":450.5,\"power_limit\":700,\"temperature\":63,\"clock\":1980,"
		"\"processes\":[{\"pid\":17,\"memory\":512},{\"pid\":18,\"memory\":null}],\"error\":null},"
		"{\"bus_id\":\"0000:d8:00.0\",\"busy\":null,\"memory_busy\":null,\"memory_used\":null,"
		"\"memory_total\":null,\"power\":null,\"power_limit\":null,\"temperature\":null,\"clock\":null,"
		"\"processes\":[],\"error\":\"GPU is lost\"}]}",
		&v, &err);

	assert_int_equal(n, 2);
	assert_string_equal(v[0].bus_id, "0000:3b:00.0");
	assert_int_equal(v[0].busy, 37);
	assert_true(v[0].memory_used == 1024 && v[0].memory_total == 4096);
	assert_true(v[0].power > 450.4 && v[0].power < 450.6 && v[0].power_limit == 700);
	assert_int_equal(v[0].temperature, 63);
	assert_int_equal(v[0].clock, 1980);
	assert_int_equal(v[0].n_processes, 2);
	assert_int_equal(v[0].processes[0].pid, 17);
	assert_true(v[0].processes[1].memory == -1);
	assert_string_equal(v[0].trouble, "");
	assert_int_equal(v[1].busy, -1);
	assert_true(v[1].memory_used == -1 && v[1].power < 0);
	assert_string_equal(v[1].trouble, "GPU is lost");
	gpu_samples_free(v, n);
}

static void say(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* As when mlrun gpu top was stopped meanwhile. */
static void of_samples_that_came_the_newest_counts_and_half_of_one_is_not_waited_for(void **state)
{
	auto_call(gpu_watch_close) struct gpu_watch w = GPU_WATCH_INIT;
	struct gpu_sample *v = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	w.from = pipes[0];
	assert_int_equal(gpu_watch_next(&w, &v, &err), -EAGAIN);
	say(pipes[1],
		"{\"gpus\":[{\"bus_id\":\"x\",\"busy\":1}]}\n{\"gpus\":[{\"bus_id\":\"x\",\"busy\":2}]}\n{\"gpus\":[{\"bus_id\":\"x\",\"bu");
	assert_int_equal(gpu_watch_next(&w, &v, &err), 1);
	assert_int_equal(v[0].busy, 2);
	gpu_samples_free(v, 1);
	assert_int_equal(gpu_watch_next(&w, &v, &err), -EAGAIN);
	say(pipes[1], "sy\":3}]}\n");
	close(pipes[1]);
	assert_int_equal(gpu_watch_next(&w, &v, &err), 1);
	assert_int_equal(v[0].busy, 3);
	gpu_samples_free(v, 1);
	assert_int_equal(gpu_watch_next(&w, &v, &err), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_known_is_filled_in_and_what_is_known_stays),
		cmocka_unit_test(a_part_is_found_by_its_numbers),
		cmocka_unit_test(a_broken_gpu_is_a_warning_and_the_others_are_filled_in),
		cmocka_unit_test(an_amd_gpu_at_the_same_place_is_left_alone),
		cmocka_unit_test(the_library_s_failure_is_told_with_the_way_out),
		cmocka_unit_test(what_is_no_answer_is_refused),
		cmocka_unit_test(
			of_samples_that_came_the_newest_counts_and_half_of_one_is_not_waited_for),
		cmocka_unit_test(samples_are_read_and_null_is_unknown),
	};

	return cmocka_run_group_tests_name("gpu_nvml", tests, NULL, NULL);
}
