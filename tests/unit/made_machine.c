#include "unit.h"
#include "made_machine.h"

char root[PATH_MAX];

int make_root(void **state)
{
	strcpy(root, "/tmp/mlr-test.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

int drop_root(void **state)
{
	return file_remove_tree(AT_FDCWD, root, NULL);
}

char *place(const char *path)
{
	char *full = xasprintf("%s%s", root, path);
	auto_free char *dir = xstrdup(full);

	*strrchr(dir, '/') = '\0';
	assert_int_equal(file_mkdir_p(AT_FDCWD, dir, 0755, NULL), 0);
	return full;
}

void put(const char *path, const char *text)
{
	put_mode(path, text, 0644);
}

void put_mode(const char *path, const char *text, mode_t mode)
{
	auto_free char *full = place(path);

	assert_int_equal(file_replace(AT_FDCWD, full, text, strlen(text), 0644, NULL), 0);
	assert_int_equal(chmod(full, mode), 0);
}

void put_link(const char *path, const char *to)
{
	auto_free char *full = place(path);

	assert_int_equal(symlink(to, full), 0);
}

void drop(const char *path)
{
	auto_free char *full = xasprintf("%s%s", root, path);

	assert_int_equal(file_remove_tree(AT_FDCWD, full, NULL), 0);
}
