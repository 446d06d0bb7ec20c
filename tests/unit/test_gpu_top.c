#include "unit.h"
#include "made_machine.h"
#include "cli/top_node.h"
#include "cli/top.h"
#include "gpu/amd/amd.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static int make(void **state)
{
	setenv("TZ", "UTC0", 1);
	return make_root(state);
}

static void put_memory(void)
{
	put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 10 kB\nMemAvailable:    400 kB\n");
	put("/proc/loadavg", "1.50 0.40 0.30 1/100 4242\n");
}

/* --- the node ------------------------------------------------------------------ */

static void processors_are_busy_by_the_time_between_two_readings(void **state)
{
	struct top_node_watch *w;
	struct top_node n;

	put_memory();
	put("/proc/stat",
		"cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 50 0 50 400 0 0 0 0 0 0\ncpu1 50 0 50 400 0 0 0 0\nintr 1\n");
	w = top_node_watch_new(root, 0);
	/* cpu0 all busy, a half of it as steal; cpu1 idle or waiting for a disk. */
	put("/proc/stat",
		"cpu  150 0 100 850 50 0 0 50 9 9\ncpu0 100 0 50 400 0 0 0 50 9 9\ncpu1 50 0 50 450 50 0 0 0\nintr 2\n");
	top_node_next(w, &n);
	assert_int_equal(n.busy, 50);
	assert_int_equal(n.n_cores, 2);
	assert_true(n.load > 1.49 && n.load < 1.51);
	assert_true(n.memory_total == 1000 * 1024 && n.memory_used == 600 * 1024);
	assert_null(n.job);
	/* No time has gone by. */
	top_node_next(w, &n);
	assert_int_equal(n.busy, -1);
	/* A core has gone. */
	put("/proc/stat", "cpu  200 0 100 850 50 0 0 50 9 9\ncpu1 100 0 50 450 50 0 0 0\n");
	top_node_next(w, &n);
	assert_int_equal(n.n_cores, 1);
	assert_int_equal(n.busy, 100);
	top_node_watch_free(w);
}

static void a_machine_without_its_files_tells_nothing_and_harms_nobody(void **state)
{
	struct top_node_watch *w = top_node_watch_new("/nonexistent", 1);
	struct top_node n;

	top_node_next(w, &n);
	assert_int_equal(n.busy, -1);
	assert_int_equal(n.n_cores, 0);
	assert_true(n.memory_used == -1);
	assert_null(n.job);
	top_node_watch_free(w);
}

static void slurm_s_group_of_the_job_is_the_one_above_its_steps(void **state)
{
	struct top_node_watch *w;
	struct top_node n;

	put("/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0\n");
	put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1234/cpu.stat",
		"usage_usec 1000\nuser_usec 1\n");
	put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1234/memory.current", "5000000\n");
	put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1234/memory.max", "9000000\n");
	w = top_node_watch_new(root, 1);
	put("/sys/fs/cgroup/system.slice/slurmstepd.scope/job_1234/cpu.stat",
		"usage_usec 3601001000\nuser_usec 1\n");
	top_node_next(w, &n);
	assert_string_equal(n.job, "job_1234");
	assert_true(n.job_memory_used == 5000000 && n.job_memory_limit == 9000000);
	assert_true(n.job_busy > 0 && n.job_cores > 0);
	top_node_watch_free(w);
}

static void groups_of_the_first_version_are_found_by_their_hierarchies(void **state)
{
	struct top_node_watch *w;
	struct top_node n;

	put("/proc/self/cgroup",
		"11:memory:/slurm/uid_1000/job_77/step_batch\n"
		"4:cpu,cpuacct:/slurm/uid_1000/job_77/step_batch\n0::/user.slice\n");
	put("/sys/fs/cgroup/memory/slurm/uid_1000/job_77/memory.usage_in_bytes", "700\n");
	put("/sys/fs/cgroup/memory/slurm/uid_1000/job_77/memory.limit_in_bytes",
		"9223372036854771712\n");
	put("/sys/fs/cgroup/cpuacct/slurm/uid_1000/job_77/cpuacct.usage", "1000\n");
	w = top_node_watch_new(root, 1);
	put("/sys/fs/cgroup/cpuacct/slurm/uid_1000/job_77/cpuacct.usage", "5000001000\n");
	top_node_next(w, &n);
	assert_string_equal(n.job, "job_77");
	assert_true(n.job_memory_used == 700);
	assert_true(n.job_memory_limit == -1); /* what stands for none */
	assert_true(n.job_busy > 0);
	top_node_watch_free(w);
}

static void the_own_group_is_the_job_s_when_its_name_does_not_say_so(void **state)
{
	struct top_node_watch *w;
	struct top_node n;

	put("/proc/self/cgroup", "0::/pbs_jobs.service/jobid/42\n");
	put("/sys/fs/cgroup/pbs_jobs.service/jobid/42/memory.current", "11\n");
	put("/sys/fs/cgroup/pbs_jobs.service/jobid/42/memory.max", "max\n");
	w = top_node_watch_new(root, 1);
	top_node_next(w, &n);
	assert_string_equal(n.job, "job");
	assert_true(n.job_memory_used == 11 && n.job_memory_limit == -1);
	top_node_watch_free(w);
	w = top_node_watch_new(root, 0);
	top_node_next(w, &n);
	assert_null(n.job);
	top_node_watch_free(w);
}

/* --- AMD's ----------------------------------------------------------------------- */

#define CARD "/sys/bus/pci/devices/0000:03:00.0/"
#define KFD  "/sys/class/kfd/kfd/"

static void an_amd_gpu_is_read_from_sysfs(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	struct gpu_sample *v;
	int n;

	put(CARD "gpu_busy_percent", "87\n");
	put(CARD "mem_busy_percent", "12\n");
	put(CARD "mem_info_vram_used", "1000000\n");
	put(CARD "mem_info_vram_total", "4000000\n");
	put(CARD "hwmon/hwmon3/power1_average", "250000000\n");
	put(CARD "hwmon/hwmon3/power1_cap", "560000000\n");
	put(CARD "hwmon/hwmon3/temp1_input", "54000\n");
	put(CARD "hwmon/hwmon3/freq1_input", "1700000000\n");
	put(KFD "topology/nodes/0/gpu_id", "0\n");
	put(KFD "topology/nodes/0/properties", "location_id 0\ndomain 0\n");
	put(KFD "topology/nodes/1/gpu_id", "4711\n");
	put(KFD "topology/nodes/1/properties", "location_id 768\ndomain 0\n");
	put(KFD "proc/321/vram_4711", "77\n");
	put(KFD "proc/322/vram_1", "78\n");
	gpu_machine_add_gpu(&m)->bus_id = xstrdup("0000:01:00.0"); /* NVIDIA's */
	gpu_machine_add_gpu(&m)->bus_id = xstrdup("0000:03:00.0");
	m.gpus[1].vendor = GPU_AMD;
	assert_int_equal(gpu_dir_open(root, &d), 0);
	n = gpu_amd_sample(&d, &m, &v);
	assert_int_equal(n, 1);
	assert_string_equal(v->bus_id, "0000:03:00.0");
	assert_int_equal(v->busy, 87);
	assert_int_equal(v->memory_busy, 12);
	assert_true(v->memory_used == 1000000 && v->memory_total == 4000000);
	assert_true(v->power == 250 && v->power_limit == 560);
	assert_int_equal(v->temperature, 54);
	assert_int_equal(v->clock, 1700);
	assert_int_equal(v->n_processes, 1);
	assert_int_equal(v->processes[0].pid, 321);
	assert_true(v->processes[0].memory == 77);
	gpu_samples_free(v, n);
}

static void an_amd_gpu_that_tells_nothing_is_unknown(void **state)
{
	auto_call(gpu_machine_done) struct gpu_machine m = GPU_MACHINE_INIT;
	auto_call(gpu_dir_close) struct gpu_dir d = GPU_DIR_INIT;
	struct gpu_sample *v;

	put("/sys/bus/pci/devices/0000:04:00.0/gpu_busy_percent", "nonsense\n");
	gpu_machine_add_gpu(&m)->bus_id = xstrdup("0000:04:00.0");
	m.gpus[0].vendor = GPU_AMD;
	assert_int_equal(gpu_dir_open(root, &d), 0);
	assert_int_equal(gpu_amd_sample(&d, &m, &v), 1);
	assert_int_equal(v->busy, -1);
	assert_true(v->memory_used == -1 && v->power < 0);
	assert_int_equal(v->temperature, -1);
	assert_int_equal(v->n_processes, 0);
	gpu_samples_free(v, 1);
}

/* --- the view and the log ---------------------------------------------------------- */

static struct gpu gpus[] = { { .index = 0,
				     .model = (char *)"NVIDIA H200",
				     .uuid = (char *)"GPU-a",
				     .bus_id = (char *)"0000:3b:00.0" },
	{ .index = 1,
		.model = (char *)"NVIDIA A100-SXM4-80GB",
		.uuid = (char *)"GPU-b",
		.bus_id = (char *)"0000:d8:00.0" } };
static struct gpu_sample samples[] = { { .busy = 37,
					       .memory_busy = 1,
					       .memory_used = 40000000000,
					       .memory_total = 150800000000,
					       .power = 450.25,
					       .power_limit = 700,
					       .temperature = 63,
					       .clock = 1980 },
	{ .busy = -1,
		.memory_used = -1,
		.memory_total = -1,
		.power = -1,
		.power_limit = -1,
		.temperature = -1,
		.clock = -1 } };
static struct top_gpu shown[] = { { &gpus[0], &samples[0] }, { &gpus[1], &samples[1] } };
static struct top_process processes[] = { { 100, 0, 39000000000, (char *)"anna",
						  (char *)"python train.py --evil \033[2J\nx" },
	{ 101, 1, -1, (char *)"bo", (char *)"./b" }, { 102, 1, 5, (char *)"bo", (char *)"./c" } };

static struct top picture(void)
{
	struct top t = { .host = "gpu1",
		.time = 1700000000,
		.driver = (char *)"NVIDIA driver 535.104.05, CUDA 12.2",
		.gpus = shown,
		.n_gpus = 2,
		.processes = processes,
		.n_processes = 3 };

	t.node = (struct top_node){
		.busy = 41, .n_cores = 4, .load = 3.2, .memory_used = 600, .memory_total = 1200
	};
	return t;
}

static void the_view_shows_node_gpus_and_processes(void **state)
{
	struct top t = picture();
	auto_free char *text = top_view(&t, 80, 0);

	assert_string_equal(text,
		"gpu1  2023-11-14 22:13:20  NVIDIA driver 535.104.05, CUDA 12.2\n"
		"CPU     [####......]  41%  4 cores, load 3.20\n"
		"memory  [#####.....]  50%  600 B of 1.2 kB\n"
		"\n"
		"GPU  MODEL           BUSY               MEMORY                POWER         TEMP\n"
		"  0  H200            [####......]  37%  40.0 GB of 150.8 GB   450/700 W     63 C\n"
		"  1  A100-SXM4-80GB  [..........]   -   -                     -                -\n"
		"\n"
		"    PID  USER        GPU     MEMORY  COMMAND\n"
		"    100  anna          0    39.0 GB  python train.py --evil \\x1b[2J\\x0ax\n"
		"    101  bo            1          -  ./b\n"
		"    102  bo            1        5 B  ./c\n");
}

static void the_view_keeps_to_its_size(void **state)
{
	struct top t = picture();

	for (int width = 1; width < 140; width += 7)
		for (int height = 1; height < 20; height++) {
			auto_free char *text = top_view(&t, width, height);
			int lines = 0;

			for (char *s = text; *s; s = strchr(s, '\n') + 1, lines++)
				assert_true(strcspn(s, "\n") <= (size_t)(width < 40 ? 40 : width));
			assert_true(lines <= height);
		}
	auto_free char *text = top_view(&t, 80, 11);
	assert_non_null(strstr(text, "python"));
	assert_non_null(strstr(text, "2 more\n"));
	assert_null(strstr(text, "./b"));
}

static void a_broken_gpu_and_the_job_are_told(void **state)
{
	struct gpu_sample broken = { .trouble = "GPU is lost" };
	struct top_gpu one = { &gpus[0], &broken };
	struct top t = picture();

	t.gpus = &one;
	t.n_gpus = 1;
	t.scope = (char *)"1 of 2 GPUs: CUDA_VISIBLE_DEVICES=0";
	t.note = (char *)"a note";
	t.node.job = "job_1234";
	t.node.job_cores = 4;
	t.node.job_busy = 3.94;
	t.node.job_memory_used = 1000;
	t.node.job_memory_limit = 2000;
	auto_free char *text = top_view(&t, 80, 0);

	assert_non_null(strstr(text, "1 of 2 GPUs: CUDA_VISIBLE_DEVICES=0\na note\n"));
	assert_non_null(strstr(text, "job_1234 3.9 of 4 cores busy, memory 1.0 kB of 2.0 kB\n"));
	assert_non_null(strstr(text, "  0  H200            broken: GPU is lost\n"));
	one.sample = NULL;
	auto_free char *later = top_view(&t, 80, 0);
	assert_non_null(strstr(later, "  0  H200            nothing is known now\n"));
}

static void a_long_note_is_broken_at_its_blanks(void **state)
{
	struct top t = picture();

	t.note = (char *)"one two three four five six seven eight nine ten eleven "
			 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa end";
	auto_free char *text = top_view(&t, 40, 0);

	assert_non_null(strstr(text,
		"\none two three four five six seven eight\nnine ten eleven\n"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\naaaaaaaaaaaaaaaaaaaaaaa end\nCPU "));
}

static void the_log_has_a_line_a_gpu_and_nothing_for_what_is_not_told(void **state)
{
	struct top t = picture();
	auto_free char *lines = top_log_lines(&t);

	assert_string_equal(lines,
		"2023-11-14T22:13:20Z,gpu1,0,GPU-a,37,40000000000,150800000000,450.2,63,41,600\n"
		"2023-11-14T22:13:20Z,gpu1,1,GPU-b,,,,,,41,600\n");
	t.n_gpus = 0;
	auto_free char *without = top_log_lines(&t);
	assert_string_equal(without, "2023-11-14T22:13:20Z,gpu1,,,,,,,,41,600\n");
	/* As many fields as the header has. */
	for (const char *a = top_log_header, *b = without; *a || *b; a++, b++) {
		a += strcspn(a, ",\n");
		b += strcspn(b, ",\n");
		assert_int_equal(*a, *b);
	}
}

static char *read_log(const char *path)
{
	char *text;

	assert_int_equal(file_read(AT_FDCWD, path, 1 << 20, &text, NULL, NULL), 0);
	return text;
}

static void a_log_goes_on_where_it_ended_and_after_half_a_line(void **state)
{
	auto_free char *path = xasprintf("%s/log.csv", root);
	struct mlr_error err;
	struct top t = picture();

	t.n_gpus = 0;
	for (int i = 0; i < 2; i++) {
		auto_close int fd = top_log_open(path, &err);
		assert_true(fd >= 0);
		assert_int_equal(top_log_add(fd, path, &t, &err), 0);
	}
	auto_free char *two = read_log(path), *line = top_log_lines(&t);
	auto_free char *expected = xasprintf("%s%s%s", top_log_header, line, line);
	assert_string_equal(two, expected);

	auto_free char *cut = xasprintf("%shalf a li", top_log_header);
	put("/log.csv", cut);
	auto_close int fd = top_log_open(path, &err);
	assert_int_equal(top_log_add(fd, path, &t, &err), 0);
	auto_free char *mended = read_log(path), *after = xasprintf("%s\n%s", cut, line);
	assert_string_equal(mended, after);
}

static void many_writers_of_a_log_write_one_header_and_whole_lines(void **state)
{
	auto_free char *path = xasprintf("%s/shared.csv", root);
	struct top t = picture();
	struct mlr_error err;
	size_t lines = 0;

	for (int i = 0; i < 8; i++) {
		if (fork() == 0) {
			int fd = top_log_open(path, &err), r = fd < 0 ? fd : 0;

			for (int k = 0; r == 0 && k < 20; k++)
				r = top_log_add(fd, path, &t, &err);
			_exit(r < 0);
		}
	}
	for (int i = 0, status; i < 8; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	auto_free char *text = read_log(path);
	assert_int_equal(strncmp(text, top_log_header, strlen(top_log_header)), 0);
	assert_null(strstr(text + 1, "time,host"));
	for (char *s = text; *s; s = strchr(s, '\n') + 1, lines++)
		assert_true(lines == 0 || strncmp(s, "2023-11-14T22:13:20Z,gpu1,", 26) == 0);
	assert_int_equal(lines, 1 + 8 * 20 * 2);
}

/* As one that was stopped between lock and unlock does. */
static void a_lock_that_is_never_given_back_does_not_hold_others_for_long(void **state)
{
	auto_free char *path = xasprintf("%s/locked.csv", root);
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct mlr_error err;
	struct top t = picture();
	int pipes[2];
	pid_t holder;
	char word;

	auto_close int fd = top_log_open(path, &err);
	assert_true(fd >= 0);
	assert_int_equal(pipe(pipes), 0);
	holder = fork();
	if (holder == 0) {
		alarm(600);
		if (fcntl(fd, F_SETLK, &l) == 0 && write(pipes[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &word, 1), 1);
	alarm(300);
	assert_int_equal(top_log_add(fd, path, &t, &err), 0);
	alarm(0);
	kill(holder, SIGKILL);
	assert_int_equal(waitpid(holder, NULL, 0), holder);
	close(pipes[0]);
	close(pipes[1]);
}

static void a_log_that_cannot_be_written_is_an_error_that_names_it(void **state)
{
	struct mlr_error err;
	struct top t = picture();

	auto_free char *script = xasprintf("%s/train.py", root);
	put("/train.py", "import torch\n");
	assert_int_equal(top_log_open(script, &err), -EEXIST);
	assert_non_null(strstr(err.text, "train.py"));
	assert_int_equal(top_log_open("/nonexistent/gpu.csv", &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/nonexistent/gpu.csv'"));
	auto_close int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		assert_int_equal(top_log_add(fd, "gpu.csv", &t, &err), -ENOSPC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processors_are_busy_by_the_time_between_two_readings),
		cmocka_unit_test(a_machine_without_its_files_tells_nothing_and_harms_nobody),
		cmocka_unit_test(slurm_s_group_of_the_job_is_the_one_above_its_steps),
		cmocka_unit_test(groups_of_the_first_version_are_found_by_their_hierarchies),
		cmocka_unit_test(the_own_group_is_the_job_s_when_its_name_does_not_say_so),
		cmocka_unit_test(an_amd_gpu_is_read_from_sysfs),
		cmocka_unit_test(an_amd_gpu_that_tells_nothing_is_unknown),
		cmocka_unit_test(the_view_shows_node_gpus_and_processes),
		cmocka_unit_test(the_view_keeps_to_its_size),
		cmocka_unit_test(a_broken_gpu_and_the_job_are_told),
		cmocka_unit_test(a_long_note_is_broken_at_its_blanks),
		cmocka_unit_test(the_log_has_a_line_a_gpu_and_nothing_for_what_is_not_told),
		cmocka_unit_test(a_log_goes_on_where_it_ended_and_after_half_a_line),
		cmocka_unit_test(many_writers_of_a_log_write_one_header_and_whole_lines),
		cmocka_unit_test(a_lock_that_is_never_given_back_does_not_hold_others_for_long),
		cmocka_unit_test(a_log_that_cannot_be_written_is_an_error_that_names_it),
	};

	return cmocka_run_group_tests_name("gpu_top", tests, make, drop_root);
}
