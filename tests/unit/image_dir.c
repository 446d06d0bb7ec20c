#include "unit.h"
#include "image_dir.h"

#include <dirent.h>

static int open_in(void *ctx, const char *path, int flags)
{
	auto_close int root = -1;

	if (!ctx)
		return -ENOTSUP;
	root = open(ctx, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	return file_open_in_root(root, path, flags, 0);
}

static int open_file(void *ctx, const char *path)
{
	return open_in(ctx, path, O_RDONLY);
}

static int list(void *ctx, const char *path, struct strv *ret)
{
	auto_close int fd = open_in(ctx, path, O_RDONLY | O_DIRECTORY);
	auto_dir DIR *d = fd < 0 ? NULL : file_open_dir(fd, ".", 0);
	struct dirent *e;

	if (!d)
		return fd < 0 ? fd : -errno;
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			strv_add(ret, e->d_name);
	return 0;
}

struct gpu_image image_dir(const char *root)
{
	return (struct gpu_image){ .open = open_file, .list = list, .ctx = (void *)root };
}

void image_dir_make(char root[64])
{
	strcpy(root, "/tmp/mlr-test-image.XXXXXX");
	assert_non_null(mkdtemp(root));
}

void image_dir_drop(const char *root)
{
	assert_int_equal(file_remove_tree(AT_FDCWD, root, NULL), 0);
}

void image_dir_mkdir(const char *root, const char *path)
{
	auto_free char *full = xasprintf("%s%s", root, path);

	assert_int_equal(file_mkdir_p(AT_FDCWD, full, 0755, NULL), 0);
}

void image_dir_put(const char *root, const char *path, const char *text)
{
	auto_free char *full = xasprintf("%s%s", root, path), *dir = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	image_dir_mkdir(root, dir);
	assert_int_equal(file_replace(AT_FDCWD, full, text, strlen(text), 0644, NULL), 0);
}
