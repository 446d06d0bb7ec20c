#include "unit.h"
#include "outer.h"

#include <dirent.h>
#include <sys/mman.h>

char outer[PATH_MAX];
int tree, record;
struct layer_result result;
struct mlr_error err;
const char *trying = "layer";

static int outer_fd;
static struct stat outside_was, target_was;

int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(outer, sizeof(outer), "%s/mlr-test-layer.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(outer));
	outer_fd = open(outer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(file_replace(outer_fd, "outside", "safe", 4, 0600, NULL), 0);
	assert_int_equal(mkdirat(outer_fd, "target", 0700), 0);
	assert_int_equal(mkdirat(outer_fd, "tree", 0755), 0);
	tree = openat(outer_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	record = memfd_create("record", MFD_CLOEXEC);
	assert_int_equal(fstatat(outer_fd, "outside", &outside_was, 0), 0);
	assert_int_equal(fstatat(outer_fd, "target", &target_was, 0), 0);
	memset(&err, 0, sizeof(err));
	memset(&result, 0, sizeof(result));
	trying = "layer";
	return tree < 0 || record < 0;
}

static void same(const char *name, const struct stat *was)
{
	struct stat now;

	if (fstatat(outer_fd, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_ino != was->st_ino ||
		now.st_mode != was->st_mode || now.st_nlink != was->st_nlink ||
		now.st_size != was->st_size ||
		memcmp(&now.st_ctim, &was->st_ctim, sizeof(now.st_ctim)) != 0)
		fail_msg("%s: '%s' was touched", trying, name);
}

static void only_ours(void)
{
	DIR *d = file_open_dir(outer_fd, ".", 0);
	struct dirent *e;

	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, "outside") != 0 &&
			strcmp(e->d_name, "target") != 0 && strcmp(e->d_name, "tree") != 0)
			fail_msg("%s: made '%s'", trying, e->d_name);
	closedir(d);
}

int teardown(void **state)
{
	same("outside", &outside_was);
	same("target", &target_was);
	only_ours();
	layer_result_done(&result);
	close(tree);
	close(record);
	close(outer_fd);
	return file_remove_tree(AT_FDCWD, outer, NULL);
}

void start_again(void)
{
	assert_int_equal(teardown(NULL), 0);
	assert_int_equal(setup(NULL), 0);
}

static void rebuilds(void)
{
	char diff_id[8 + HASH_HEX_SIZE];
	uint64_t bytes;

	if (layer_rebuild(record, tree, NULL, NULL, diff_id, &bytes, &err) < 0)
		fail_msg("%s: %s", trying, err.text);
	if (bytes != result.bytes || strcmp(diff_id, result.diff_id) != 0)
		fail_msg("%s: is rebuilt to other bytes", trying);
}

int unpack_as(struct tar *t, enum oci_compression comp)
{
	int r;

	t->at = 0;
	assert_int_equal(ftruncate(record, 0), 0);
	assert_int_equal(lseek(record, 0, SEEK_SET), 0);
	r = layer_unpack(tar_read, t, comp, tree, record, &result, &err);
	if (r == 0)
		rebuilds();
	return r;
}

void says(const char *words)
{
	if (!strstr(err.text, words))
		fail_msg("%s: '%s' does not say '%s'", trying, err.text, words);
}
