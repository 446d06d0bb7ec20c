#include "unit.h"
#include "gpu/choice/choice.h"
#include "gpu/choice/name.h"

/* GPU number i of a made-up machine, at bus 0000:<i+1>b:00.0. */
static struct gpu *add(struct gpu_machine *m, enum gpu_vendor vendor, unsigned minor)
{
	size_t i = m->n_gpus;
	struct gpu *g = gpu_machine_add_gpu(m);

	g->vendor = vendor;
	g->bus_id = xasprintf("0000:%zxb:00.0", i + 1);
	g->uuid = xasprintf("GPU-%zx2345678-aaaa-bbbb-cccc-dddddddddddd", 0xa + i);
	g->model = xstrdup(vendor == GPU_NVIDIA ? "NVIDIA H200" : "MI300X");
	g->minor = minor;
	g->node = (struct gpu_node){
		.path = vendor == GPU_NVIDIA ? xasprintf("/dev/nvidia%u", minor)
					     : xasprintf("/dev/dri/renderD%u", minor),
		.major = 195,
		.minor = minor,
		.gid = 44,
		.mode = 0666,
	};
	return g;
}

/* As gpu_machine_count() does. */
static void count(struct gpu_machine *m)
{
	int next[2] = { 0, 0 };

	for (size_t i = 0; i < m->n_gpus; i++)
		m->gpus[i].index = m->gpus[i].node.error ? -1 : next[m->gpus[i].vendor]++;
}

static void close_gpu(struct gpu_machine *m, size_t i, int error)
{
	m->gpus[i].node.error = error;
	m->gpus[i].node.mode = error == EACCES ? 0660 : 0666;
}

static void add_parts(struct gpu *g, size_t gpu, unsigned n, int with_uuid)
{
	g->mig = xcalloc(n, sizeof(*g->mig));
	g->n_mig = n;
	for (unsigned k = 0; k < n; k++) {
		g->mig[k].gi = k + 7;
		g->mig[k].gi_node.path = xasprintf("/dev/nvidia-caps/nvidia-cap%u", 10 * k);
		g->mig[k].ci_node.path = xasprintf("/dev/nvidia-caps/nvidia-cap%u", 10 * k + 1);
		if (with_uuid)
			g->mig[k].uuid = xasprintf("MIG-%zx%x45-6789", gpu, k + 1);
	}
}

enum made {
	NONE,
	FOUR,      /* of NVIDIA's */
	TURNED,    /* four whose minor numbers run against their places */
	CGROUP,    /* four; the job's cgroup denies 0 and 1 */
	CLOSED,    /* two that only group 44 may open */
	DENIED,    /* two that the job's cgroup denies */
	ASLEEP,    /* two whose uuids are not known, one has no node */
	MIG,       /* two; the first has three parts */
	MIG_BLIND, /* the same without the parts' uuids */
	MIG_JOB,   /* the same as MIG; the cgroup denies part 1 */
	MODELS,    /* three of two models */
	TWINS,     /* two whose uuids begin alike */
	AMD,       /* four of AMD's */
	BOTH,      /* two of NVIDIA's and two of AMD's */
	WSL,
};

static size_t count_of(enum made what)
{
	switch (what) {
	case NONE:
	case WSL:
		return 0;
	case MODELS:
		return 3;
	case FOUR:
	case TURNED:
	case CGROUP:
	case AMD:
	case BOTH:
		return 4;
	default:
		return 2;
	}
}

static enum gpu_driver driver_of(enum made what)
{
	if (what == WSL)
		return GPU_DRIVER_WSL;
	return what == NONE || what == AMD ? GPU_DRIVER_NONE : GPU_DRIVER_NVIDIA;
}

static void add_all(enum made what, struct gpu_machine *m)
{
	unsigned n = (unsigned)count_of(what);

	for (unsigned i = 0; i < n; i++) {
		if (what == AMD || (what == BOTH && i >= 2))
			add(m, GPU_AMD, 128 + i);
		else
			add(m, GPU_NVIDIA, what == TURNED ? n - 1 - i : i);
	}
}

static void rename_text(char **text, const char *other)
{
	free(*text);
	*text = other ? xstrdup(other) : NULL;
}

static void make(enum made what, struct gpu_machine *m)
{
	*m = (struct gpu_machine){ .driver = driver_of(what) };
	add_all(what, m);
	if (what == CGROUP || what == DENIED || what == CLOSED)
		for (size_t i = 0; i < 2; i++)
			close_gpu(m, i, what == CLOSED ? EACCES : EPERM);
	if (what == MIG || what == MIG_BLIND || what == MIG_JOB)
		add_parts(&m->gpus[0], 0, 3, what != MIG_BLIND);
	if (what == MIG_JOB)
		m->gpus[0].mig[1].gi_node.error = EPERM;
	if (what == MODELS)
		rename_text(&m->gpus[1].model, "NVIDIA T4");
	if (what == TWINS)
		rename_text(&m->gpus[1].uuid, "GPU-a2345999-aaaa-bbbb-cccc-dddddddddddd");
	count(m);
	if (what == ASLEEP) {
		rename_text(&m->gpus[0].uuid, NULL);
		rename_text(&m->gpus[1].uuid, NULL);
		rename_text(&m->gpus[1].node.path, NULL);
		m->gpus[1].index = -1;
	}
}

struct row {
	enum made machine;
	const char *env;   /* "K=V;K=V" of the caller's, or NULL */
	const char *word;  /* --gpu; NULL: auto */
	const char *image; /* its NVIDIA_VISIBLE_DEVICES; NULL: it has none and is no CUDA image */
	int r;
	const char *chosen;  /* places on the bus, "1 0:2": parts behind a colon */
	const char *visible; /* CUDA_VISIBLE_DEVICES inside, or "amd:" and ROCR_VISIBLE_DEVICES;
				NULL: none */
	const char *says;    /* of remarks, notes or the error; NULL */
};

static void split(const char *text, struct strv *ret)
{
	while (text && *text) {
		size_t len = strcspn(text, ";");

		strv_take(ret, xstrndup(text, len));
		text += len + (text[len] == ';');
	}
}

static void append(char **text, char *more)
{
	char *longer = xasprintf("%s%s%s", *text, **text ? " " : "", more);

	free(*text);
	free(more);
	*text = longer;
}

static char *print_chosen(const struct gpu_choice *c)
{
	char *text = xstrdup("");

	for (size_t i = 0; i < c->n; i++)
		append(&text,
			c->v[i].mig < 0 ? xasprintf("%zu", c->v[i].gpu)
					: xasprintf("%zu:%d", c->v[i].gpu, c->v[i].mig));
	return text;
}

static char *print_words(const struct gpu_wish *w, const struct gpu_allocation *a,
	const struct gpu_choice *c, const struct mlr_error *err)
{
	const struct strv *lists[] = { &w->remarks, &a->remarks, &c->remarks, &c->notes };
	char *text = xstrdup("");

	for (size_t k = 0; k < ARRAY_LEN(lists); k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			append(&text, xasprintf("%s%s.", k == 3 ? "NOTE " : "", lists[k]->v[i]));
	append(&text, xstrdup(err->text));
	return text;
}

static void check_row(const struct row *row, size_t number)
{
	auto_strv struct strv env = STRV_INIT, image = STRV_INIT;
	auto_call(gpu_machine_done) struct gpu_machine m;
	auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
	auto_call(gpu_allocation_done) struct gpu_allocation a = { 0 };
	auto_call(gpu_choice_done) struct gpu_choice c = { 0 };
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct gpu_request q = { .word = row->word, .image_env = &image };
	auto_free char *chosen = NULL, *words = NULL;
	const char *visible;
	int r;

	make(row->machine, &m);
	plan_init(&p);
	split(row->env, &env);
	if (row->image) {
		strv_addf(&image, "NVIDIA_VISIBLE_DEVICES=%s", row->image);
		plan_env_set(&p, "NVIDIA_VISIBLE_DEVICES", row->image, PLAN_FROM_IMAGE);
	}
	q.caller = strv_argv(&env);
	r = gpu_wish_read(&q, &p, &w, &err);
	gpu_allocation_read(q.caller, &m, &a);
	if (r == 0)
		r = gpu_choose(&w, &m, &a, &c, &err);
	chosen = print_chosen(&c);
	words = print_words(&w, &a, &c, &err);
	visible = c.visible[GPU_NVIDIA];
	if (row->visible && strncmp(row->visible, "amd:", 4) == 0)
		visible = c.visible[GPU_AMD] ? xasprintf("amd:%s", c.visible[GPU_AMD]) : NULL;
	if (r != row->r || strcmp(chosen, row->chosen ? row->chosen : "") != 0 ||
		strcmp(visible ? visible : "", row->visible ? row->visible : "") != 0 ||
		(row->says && !strstr(words, row->says)))
		fail_msg("row %zu: %d, chosen '%s', visible '%s', %s", number, r, chosen,
			visible ? visible : "", words);
	if (visible != c.visible[GPU_NVIDIA])
		free((char *)(uintptr_t)visible);
}

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_row(&rows[i], i);
}

#define JOB   "SLURM_JOB_ID=1"
#define CVD   "CUDA_VISIBLE_DEVICES="
#define UUID0 "GPU-a2345678-aaaa-bbbb-cccc-dddddddddddd"
#define UUID1 "GPU-b2345678-aaaa-bbbb-cccc-dddddddddddd"
#define UUID3 "GPU-d2345678-aaaa-bbbb-cccc-dddddddddddd"

static void what_is_wanted_without_a_job_is_what_the_user_can_open(void **state)
{
	static const struct row rows[] = {
		{ FOUR, NULL, NULL, "all", 0, "0 1 2 3", NULL,
			"GPU 0 (NVIDIA H200, " UUID0 ") is chosen" },
		{ FOUR, NULL, "all", NULL, 0, "0 1 2 3", NULL, "is chosen: --gpu=all" },
		{ FOUR, NULL, NULL, NULL, 0, "", NULL, "carries no CUDA" },
		{ FOUR, NULL, "none", "all", 0, "", NULL, NULL },
		{ FOUR, NULL, NULL, "none", 0, "", NULL, NULL },
		{ FOUR, NULL, NULL, "void", 0, "", NULL, NULL },
		{ FOUR, NULL, "0", NULL, 0, "0", NULL,
			"omitted GPU 3 (NVIDIA H200, " UUID3 "): not of" },
		{ FOUR, NULL, "2,0", NULL, 0, "0 2", NULL, NULL },
		{ FOUR, NULL, NULL, "3", 0, "3", NULL, NULL },
		{ TURNED, NULL, "0", NULL, 0, "0", NULL, NULL },
		{ CGROUP, NULL, NULL, "all", 0, "2 3", NULL,
			"the job's cgroup denies /dev/nvidia0" },
		{ CGROUP, NULL, "0", NULL, 0, "2", NULL, NULL },
		{ CGROUP, NULL, "1", NULL, 0, "3", NULL, NULL },
		{ CGROUP, NULL, "2", NULL, -EACCES, "", NULL,
			"GPU '2' cannot be opened: of 4 here 2 cannot (the job's cgroup denies "
			"/dev/nvidia0)\nhint: available: 0 (NVIDIA H200, GPU-c" },
		{ CGROUP, NULL, "7", NULL, -ENODEV, "", NULL, "this machine has no GPU '7'" },
		{ CGROUP, NULL, UUID0, NULL, -EACCES, "", NULL,
			"the job's cgroup denies /dev/nvidia0" },
		{ CLOSED, NULL, "all", NULL, -EACCES, "", NULL,
			"--gpu=all: no GPU can be opened: only group '" },
		{ CLOSED, NULL, "0", NULL, -EACCES, "", NULL, "of 2 here 2 cannot" },
		{ CLOSED, NULL, NULL, "all", 0, "", NULL,
			"NOTE no GPU is in the container: only group '" },
		{ DENIED, NULL, NULL, "all", 0, "", NULL,
			"no GPU can be opened: the job's cgroup denies" },
		{ ASLEEP, NULL, NULL, "all", 0, "0", NULL,
			"it has no device node; nvidia-modprobe" },
		{ NONE, NULL, NULL, "all", 0, "", NULL, "this machine has no GPU" },
		{ NONE, NULL, "all", NULL, -ENODEV, "", NULL,
			"--gpu=all: this machine has no GPU\nhint: --gpu=auto" },
		{ NONE, NULL, "0", NULL, -ENODEV, "", NULL, "'0': this machine has no GPU" },
		{ NONE, NULL, NULL, "0", 0, "", NULL, NULL },
		{ NONE, JOB ";" CVD "0", NULL, NULL, 0, "", NULL, NULL },
		{ WSL, NULL, "all", NULL, 0, "", NULL, NULL },
		{ WSL, NULL, "0", NULL, -ENODEV, "", NULL, "all GPUs or none" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void every_name_of_a_gpu_finds_it(void **state)
{
	static const struct row rows[] = {
		{ FOUR, NULL, UUID1, NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "gpu-B2345678-AAAA-bbbb-cccc-dddddddddddd", NULL, 0, "1", NULL,
			NULL },
		{ FOUR, NULL, "GPU-b2", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "GPU-", NULL, -ENODEV, "", NULL, "this machine has no GPU 'GPU-'" },
		{ FOUR, NULL, "GPU-e", NULL, -ENODEV, "", NULL,
			"available: 0 (NVIDIA H200, " UUID0 "), 1 (" },
		{ TWINS, NULL, "GPU-a2345", NULL, -ENODEV, "", NULL,
			"the beginning of more than one uuid" },
		{ TWINS, NULL, "GPU-a23459", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "0000:2b:00.0", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "00000000:2B:00.0", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "2b:00.0", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "2b:0.0", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "0001:2b:00.0", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "2b:00.1", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "2b.0", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "x:2b:00.0", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "1,GPU-b2,2b:00.0", NULL, 0, "1", NULL, NULL },
		{ FOUR, NULL, "4", NULL, -ENODEV, "", NULL,
			"--gpu=4: this machine has no GPU '4'" },
		{ FOUR, NULL, "-1", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "0x1", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "99999999999999999999", NULL, -ENODEV, "", NULL, NULL },
		{ FOUR, NULL, "0,nonsense", NULL, -ENODEV, "", NULL,
			"this machine has no GPU 'nonsense'" },
		{ FOUR, NULL, NULL, "0,nonsense", 0, "0", NULL,
			"this machine has no GPU 'nonsense'" },
		{ FOUR, NULL, NULL, "nonsense", 0, "", NULL,
			"NOTE no GPU is in the container: the image's NVIDIA_VISIBLE_DEVICES=nonsense: "
			"this machine has no GPU 'nonsense'" },
		{ FOUR, NULL, "void", NULL, -ENODEV, "", NULL, "this machine has no GPU 'void'" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void cuda_visible_devices_is_read_as_cuda_reads_it(void **state)
{
	static const struct row rows[] = {
		{ FOUR, JOB ";" CVD "1", NULL, NULL, 0, "1", NULL,
			"--gpu=auto in a job, within " CVD "1" },
		{ FOUR, JOB ";" CVD "2,3", NULL, "all", 0, "2 3", NULL,
			"omitted GPU 0 (NVIDIA H200, " UUID0 "): not of " CVD "2,3" },
		{ FOUR, CVD "2,3", NULL, "all", 0, "2 3", NULL, NULL },
		{ FOUR, JOB ";" CVD "3,2", NULL, NULL, 0, "3 2", "1,0", NULL },
		{ FOUR, JOB ";" CVD "3,0,2", NULL, NULL, 0, "3 0 2", "2,0,1", NULL },
		{ FOUR, JOB ";" CVD " 2 , 3 ", NULL, NULL, 0, "2 3", NULL, NULL },
		{ FOUR, JOB ";" CVD "2,2,3", NULL, NULL, 0, "2 3", NULL, NULL },
		{ FOUR, JOB ";" CVD, NULL, NULL, 0, "", NULL, "the job has no GPU (" CVD ")" },
		{ FOUR, JOB ";" CVD "NoDevFiles", NULL, NULL, 0, "", NULL, "the job has no GPU" },
		{ FOUR, JOB ";" CVD "-1", NULL, NULL, 0, "", NULL, NULL },
		{ FOUR, JOB ";" CVD "1,-1,2", NULL, NULL, 0, "1", NULL, NULL },
		{ FOUR, JOB ";" CVD "1,7,2", NULL, NULL, 0, "1", NULL,
			"GPU '7' cannot be opened here; mlrun ignores it and those after it" },
		{ FOUR, JOB ";" CVD "1,,2", NULL, NULL, 0, "1", NULL, "''" },
		{ FOUR, JOB ";" CVD "0,", NULL, NULL, 0, "0", NULL, NULL },
		{ FOUR, JOB ";" CVD "all", NULL, NULL, 0, "", NULL, "GPU 'all' cannot be opened" },
		{ FOUR, JOB ";" CVD "1b:00.0", NULL, NULL, 0, "", NULL, NULL },
		{ FOUR, JOB ";" CVD UUID1, NULL, NULL, 0, "1", NULL, NULL },
		{ FOUR, JOB ";" CVD "GPU-b2", NULL, NULL, 0, "1", NULL, NULL },
		{ FOUR, JOB ";" CVD UUID3 "," UUID1, NULL, NULL, 0, "3 1", UUID3 "," UUID1, NULL },
		{ FOUR, JOB ";" CVD UUID1 "," UUID3, NULL, NULL, 0, "1 3", NULL, NULL },
		{ FOUR, JOB ";" CVD "GPU-b2,GPU-e2,GPU-a2", NULL, NULL, 0, "1", NULL, "'GPU-e2'" },
		{ TWINS, JOB ";" CVD "GPU-a2", NULL, NULL, 0, "", NULL, NULL },
		{ TURNED, JOB ";" CVD "0", NULL, NULL, 0, "0", NULL, NULL },
		/* Numbers count what the cgroup has left. */
		{ CGROUP, JOB ";" CVD "0,1", NULL, NULL, 0, "2 3", NULL, NULL },
		{ CGROUP, JOB ";" CVD "1", NULL, NULL, 0, "3", NULL, NULL },
		{ CGROUP, JOB ";" CVD "2,3", NULL, NULL, 0, "", NULL, "GPU '2' cannot be opened" },
		{ CGROUP, JOB ";" CVD UUID0, NULL, NULL, 0, "", NULL, NULL },
		{ MODELS, JOB ";" CVD "0", NULL, NULL, 0, "0", NULL,
			"CUDA counts the fastest first" },
		{ MODELS, JOB ";" CVD "2,1", NULL, NULL, 0, "2 1",
			"GPU-c2345678-aaaa-bbbb-cccc-dddddddddddd," UUID1, NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void slurms_variables_count_where_cuda_visible_devices_is_not_set(void **state)
{
	static const struct row rows[] = {
		{ FOUR, JOB ";SLURM_STEP_GPUS=2,3", NULL, NULL, 0, "2 3", NULL,
			"within SLURM_STEP_GPUS=2,3" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=0,1", NULL, NULL, 0, "0 1", NULL,
			"SLURM_JOB_GPUS=0,1" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=0,1;SLURM_STEP_GPUS=1", NULL, NULL, 0, "1", NULL,
			NULL },
		{ FOUR, JOB ";SLURM_JOB_GPUS=0,2-3", NULL, NULL, 0, "0 2 3", NULL, NULL },
		{ FOUR, JOB ";SLURM_JOB_GPUS=3,0", NULL, NULL, 0, "3 0", "1,0", NULL },
		{ FOUR, JOB ";SLURM_JOB_GPUS=0,9", NULL, NULL, 0, "0", NULL, "no GPU number 9" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=gpu:2", NULL, NULL, 0, "0 1 2 3", NULL,
			"ignoring SLURM_JOB_GPUS=gpu:2: not a list of numbers" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=3-1", NULL, NULL, 0, "0 1 2 3", NULL,
			"not a list of numbers" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=0-99999999", NULL, NULL, 0, "0 1 2 3", NULL,
			"not a list of numbers" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=0-4000,0-4000", NULL, NULL, 0, "0 1 2 3", NULL,
			"ignoring SLURM_JOB_GPUS=0-4000,0-4000: not a list" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=1,", NULL, NULL, 0, "0 1 2 3", NULL,
			"not a list of numbers" },
		{ FOUR, JOB ";SLURM_JOB_GPUS=", NULL, NULL, 0, "0 1 2 3", NULL, NULL },
		{ FOUR, JOB, NULL, NULL, 0, "0 1 2 3", NULL,
			"no variable says which GPUs are the job's" },
		{ CGROUP, JOB, NULL, NULL, 0, "2 3", NULL, NULL },
		/* srun --gres=none in a batch script. */
		{ FOUR, JOB ";SLURM_STEP_ID=0;SLURM_JOB_GPUS=0,1", NULL, "all", 0, "", NULL,
			"the job has no GPU (a step of Slurm's without SLURM_STEP_GPUS)" },
		{ FOUR, JOB ";SLURM_STEP_ID=0;SLURM_JOB_GPUS=0,1", "0", NULL, -EACCES, "", NULL,
			NULL },
		{ AMD, JOB ";SLURM_STEP_ID=0;SLURM_JOB_GPUS=0,1", NULL, NULL, 0, "", NULL, NULL },
		{ FOUR, JOB ";SLURM_STEP_ID=0", NULL, NULL, 0, "0 1 2 3", NULL, NULL },
		/* Their numbers are those of the nodes, and of all. */
		{ TURNED, JOB ";SLURM_STEP_GPUS=0", NULL, NULL, 0, "3", NULL, NULL },
		{ TURNED, JOB ";SLURM_STEP_GPUS=0,1", NULL, NULL, 0, "3 2", "1,0", NULL },
		{ CGROUP, JOB ";SLURM_STEP_GPUS=2,3", NULL, NULL, 0, "2 3", NULL, NULL },
		{ CGROUP, JOB ";SLURM_STEP_GPUS=1,2", NULL, NULL, 0, "2", NULL,
			"number 1 does not count: the job's cgroup denies /dev/nvidia1" },
		/* What the job has and the user cannot have is told to him. */
		{ CGROUP, JOB ";SLURM_STEP_GPUS=1", NULL, NULL, 0, "", NULL,
			"NOTE no GPU is in the container: SLURM_STEP_GPUS=1: number 1 does not count: the" },
		{ FOUR, JOB ";SLURM_STEP_GPUS=7", NULL, NULL, 0, "", NULL,
			"NOTE no GPU is in the container: SLURM_STEP_GPUS=7: this machine has no" },
		{ FOUR, JOB ";" CVD "9,1", NULL, NULL, 0, "", NULL,
			"NOTE no GPU is in the container: " CVD "9,1: GPU '9' cannot be opened" },
		/* Both: the narrower wins, and what contradicts it is told. */
		{ FOUR, JOB ";SLURM_JOB_GPUS=2,3;" CVD "3", NULL, NULL, 0, "3", NULL,
			"within " CVD "3" },
		{ FOUR, JOB ";SLURM_STEP_GPUS=2,3;" CVD "0,1", NULL, NULL, 0, "0 1", NULL,
			CVD "0,1 and SLURM_STEP_GPUS=2,3 contradict each other about 0 (" },
		{ CGROUP, JOB ";SLURM_STEP_GPUS=2,3;" CVD "0,1", NULL, NULL, 0, "2 3", NULL, NULL },
		{ FOUR, JOB ";SLURM_JOB_GPUS=2,3;" CVD "NoDevFiles", NULL, NULL, 0, "", NULL,
			NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void what_is_not_the_jobs_is_refused_when_it_is_named_and_told_else(void **state)
{
	static const struct row rows[] = {
		{ FOUR, JOB ";" CVD "0,1", "2", NULL, -EACCES, "", NULL,
			"--gpu=2: '2' is not one of the job's GPUs (" CVD "0,1)\nhint: " CVD
			"0,1: 0 (NVIDIA H200, " UUID0 "), 1 (" },
		{ FOUR, JOB ";" CVD "0,1", "1", NULL, 0, "1", NULL, NULL },
		{ FOUR, JOB ";" CVD "0,1", "0,2", NULL, -EACCES, "", NULL, "'2' is not one" },
		{ FOUR, JOB ";" CVD "0,1", "all", NULL, 0, "0 1", NULL, NULL },
		{ FOUR, JOB ";" CVD "1,0", "0,1", NULL, 0, "1 0", "1,0", NULL },
		{ FOUR, JOB ";" CVD "0,1", NULL, "2", 0, "", NULL,
			"NOTE no GPU is in the container: the image's NVIDIA_VISIBLE_DEVICES=2: '2' is not one of "
			"the job's GPUs (" CVD "0,1)" },
		{ FOUR, JOB ";" CVD "0,1", NULL, "1,2", 0, "1", NULL,
			"'2' is not one of the job's GPUs" },
		{ FOUR, JOB ";" CVD "0,1", NULL, "void", 0, "", NULL, NULL },
		{ FOUR, JOB ";" CVD "0,1", NULL, "none", 0, "", NULL, NULL },
		{ FOUR, JOB ";" CVD "0,1", "none", "all", 0, "", NULL, NULL },
		{ FOUR, JOB ";" CVD, "all", NULL, -EACCES, "", NULL,
			"--gpu=all: the job has no GPU (" CVD ")" },
		{ FOUR, JOB ";" CVD, "0", NULL, -EACCES, "", NULL, "ask for more GPUs" },
		{ FOUR, CVD "0", "1", NULL, -EACCES, "", NULL, "'1' is not of " CVD "0" },
		{ FOUR, CVD, "all", NULL, -EACCES, "", NULL, "the caller has no GPU" },
		{ CGROUP, JOB ";" CVD "0,1", "GPU-a2", NULL, -EACCES, "", NULL,
			"the job's cgroup denies" },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void parts_of_a_gpu_are_chosen_by_number_uuid_and_instance(void **state)
{
	static const struct row rows[] = {
		{ MIG, NULL, "0:1", NULL, 0, "0:1", NULL, "GPU 0:1 (MIG-0245-6789) is chosen" },
		{ MIG, NULL, "0:2,0:0", NULL, 0, "0:0 0:2", NULL, NULL },
		{ MIG, NULL, "0:3", NULL, -ENODEV, "", NULL,
			"0:2 (MIG-0345-6789), 1 (NVIDIA H200" },
		{ MIG, NULL, "1:0", NULL, -ENODEV, "", NULL, NULL },
		{ MIG, NULL, "0:", NULL, -ENODEV, "", NULL, NULL },
		{ MIG, NULL, ":0", NULL, -ENODEV, "", NULL, NULL },
		{ MIG, NULL, "MIG-0345-6789", NULL, 0, "0:2", NULL, NULL },
		{ MIG, NULL, "mig-0345-6789", NULL, 0, "0:2", NULL, NULL },
		{ MIG, NULL, "MIG-03", NULL, 0, "0:2", NULL, NULL },
		{ MIG, NULL, "MIG-0", NULL, -ENODEV, "", NULL, "more than one" },
		{ MIG, NULL, "MIG-" UUID0 "/8/0", NULL, 0, "0:1", NULL, NULL },
		{ MIG, NULL, "MIG-GPU-a2/9/0", NULL, 0, "0:2", NULL, NULL },
		{ MIG, NULL, "MIG-GPU-a2/9/1", NULL, -ENODEV, "", NULL, NULL },
		{ MIG, NULL, "MIG-GPU-a2/9", NULL, -ENODEV, "", NULL, NULL },
		{ MIG, NULL, "MIG-GPU-b2/9/0", NULL, -ENODEV, "", NULL, NULL },
		/* The whole is all its parts. */
		{ MIG, NULL, "0", NULL, 0, "0", NULL, NULL },
		{ MIG, NULL, "0,0:1", NULL, 0, "0", NULL, NULL },
		{ MIG, NULL, NULL, "all", 0, "0 1", NULL, NULL },
		/* Of a job that has parts. */
		{ MIG, JOB ";" CVD "MIG-0245-6789", NULL, NULL, 0, "0:1", NULL, NULL },
		{ MIG, JOB ";" CVD "MIG-GPU-a2/8/0", NULL, NULL, 0, "0:1", NULL, NULL },
		{ MIG, JOB ";" CVD "MIG-0345-6789,MIG-0145-6789", NULL, NULL, 0, "0:2 0:0",
			"MIG-0345-6789,MIG-0145-6789", NULL },
		{ MIG_BLIND, JOB ";" CVD "MIG-GPU-a2/9/0,MIG-GPU-a2/7/0", NULL, NULL, 0, "0:2 0:0",
			"MIG-" UUID0 "/9/0,MIG-" UUID0 "/7/0", NULL },
		{ MIG, JOB ";" CVD "MIG-0245-6789", "0", NULL, 0, "0:1", NULL, NULL },
		{ MIG, JOB ";" CVD "MIG-0245-6789", "0:1", NULL, 0, "0:1", NULL, NULL },
		{ MIG, JOB ";" CVD "MIG-0245-6789", "0:2", NULL, -EACCES, "", NULL,
			"'0:2' is not one of" },
		{ MIG, JOB ";" CVD "MIG-0245-6789", "1", NULL, -EACCES, "", NULL, NULL },
		{ MIG, JOB ";" CVD "0", "0:2", NULL, 0, "0:2", NULL, NULL },
		{ MIG, JOB ";SLURM_STEP_GPUS=1;" CVD "MIG-0245-6789", NULL, NULL, 0, "0:1", NULL,
			NULL },
		{ MIG_JOB, JOB, "0:1", NULL, -EACCES, "", NULL,
			"the job's cgroup denies /dev/nvidia-caps/nvidia-cap10" },
		{ MIG_JOB, JOB, "0:2", NULL, 0, "0:2", NULL, NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void amds_gpus_are_counted_by_their_own_variables(void **state)
{
	static const struct row rows[] = {
		{ AMD, JOB, NULL, NULL, 0, "0 1 2 3", NULL, NULL },
		{ AMD, NULL, "1", NULL, 0, "1", NULL, NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=2,3", NULL, NULL, 0, "2 3", NULL,
			"within ROCR_VISIBLE_DEVICES=2,3" },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=3,2", NULL, NULL, 0, "3 2", "amd:1,0", NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=", NULL, NULL, 0, "", NULL, NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=" UUID1, NULL, NULL, 0, "1", NULL, NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=2,3;HIP_VISIBLE_DEVICES=1", NULL, NULL, 0, "3",
			NULL, NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=2,3;HIP_VISIBLE_DEVICES=1,0", NULL, NULL, 0,
			"3 2", "amd:1,0", NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=2,3;HIP_VISIBLE_DEVICES=2", NULL, NULL, 0, "",
			NULL, "HIP_VISIBLE_DEVICES=2: GPU '2' cannot" },
		{ AMD, JOB ";HIP_VISIBLE_DEVICES=1", NULL, NULL, 0, "1", NULL, NULL },
		{ AMD, JOB ";HIP_VISIBLE_DEVICES=-1", NULL, NULL, 0, "", NULL, NULL },
		{ AMD, JOB ";HIP_VISIBLE_DEVICES=GPU-b2", NULL, NULL, 0, "1", NULL, NULL },
		/* As HIP does, and as Slurm sets all of them alike. */
		{ AMD, JOB ";" CVD "2", NULL, NULL, 0, "2", NULL, NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=2,3;" CVD "2,3", NULL, NULL, 0, "2 3", NULL,
			NULL },
		{ AMD, JOB ";SLURM_STEP_GPUS=1,2", NULL, NULL, 0, "1 2", NULL, NULL },
		{ AMD, JOB ";ROCR_VISIBLE_DEVICES=0", "1", NULL, -EACCES, "", NULL,
			"not one of the job's" },
		/* A machine with both: each by its own; numbers of --gpu are NVIDIA's. */
		{ BOTH, JOB ";" CVD "1;ROCR_VISIBLE_DEVICES=0", NULL, NULL, 0, "1 2", NULL, NULL },
		{ BOTH, JOB ";" CVD "1", NULL, NULL, 0, "1 2 3", NULL, NULL },
		{ BOTH, NULL, "1", NULL, 0, "1", NULL, NULL },
		{ BOTH, NULL, "4b:00.0", NULL, 0, "3", NULL, NULL },
	};

	check_rows(rows, ARRAY_LEN(rows));
}

static void nvml_is_needed_for_uuids_that_are_not_known_alone(void **state)
{
	static const struct {
		enum made machine;
		const char *device, *env;
		int needed;
	} rows[] = {
		{ MIG, "MIG-0245-6789", NULL, 0 },
		{ MIG, "MIG-nothing", NULL, 0 },
		{ MIG_BLIND, "MIG-0245-6789", NULL, 1 },
		{ MIG_BLIND, "MIG-GPU-a2/8/0", NULL, 0 },
		{ MIG_BLIND, "0:1", NULL, 0 },
		{ MIG_BLIND, "0", NULL, 0 },
		{ MIG_BLIND, NULL, CVD "0,1", 0 },
		{ MIG_BLIND, NULL, CVD "MIG-0245-6789", 1 },
		{ MIG_BLIND, NULL, CVD "1, MIG-0245-6789", 1 },
		{ MIG_BLIND, NULL, CVD ",,", 0 },
		{ FOUR, "GPU-nothing", NULL, 0 },
		{ ASLEEP, "GPU-a2", NULL, 1 },
		{ ASLEEP, "0", NULL, 0 },
		{ ASLEEP, NULL, CVD "GPU-a2", 1 },
		{ ASLEEP, NULL, "OTHER=GPU-a2", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_call(gpu_machine_done) struct gpu_machine m;
		auto_call(gpu_wish_done) struct gpu_wish w = GPU_WISH_INIT;
		auto_strv struct strv env = STRV_INIT;

		make(rows[i].machine, &m);
		split(rows[i].env, &env);
		if (rows[i].device)
			strv_add(&w.devices, rows[i].device);
		if (gpu_choice_needs_nvml(&w, strv_argv(&env), &m) != rows[i].needed)
			fail_msg("row %zu", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wanted_without_a_job_is_what_the_user_can_open),
		cmocka_unit_test(every_name_of_a_gpu_finds_it),
		cmocka_unit_test(cuda_visible_devices_is_read_as_cuda_reads_it),
		cmocka_unit_test(slurms_variables_count_where_cuda_visible_devices_is_not_set),
		cmocka_unit_test(what_is_not_the_jobs_is_refused_when_it_is_named_and_told_else),
		cmocka_unit_test(parts_of_a_gpu_are_chosen_by_number_uuid_and_instance),
		cmocka_unit_test(amds_gpus_are_counted_by_their_own_variables),
		cmocka_unit_test(nvml_is_needed_for_uuids_that_are_not_known_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
