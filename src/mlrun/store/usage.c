#include "store/usage.h"

static uint64_t usage_at(int dir, const char *name);

static uint64_t usage_below(int dir, const char *name)
{
	DIR *d = file_open_dir(dir, name, O_NOFOLLOW);
	struct dirent *e;
	uint64_t sum = 0;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			sum += usage_at(dirfd(d), e->d_name);
	if (d)
		closedir(d);
	return sum;
}

/* Recursion is as deep as a layer, at most LAYER_DEPTH_MAX. */
static uint64_t usage_at(int dir, const char *name)
{
	struct stat sb;
	uint64_t own;

	if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	own = (uint64_t)sb.st_blocks * 512;
	if (S_ISDIR(sb.st_mode))
		return own + usage_below(dir, name);
	return sb.st_nlink > 1 ? own / sb.st_nlink : own;
}

uint64_t store_usage(struct store *st, const char *path)
{
	return usage_at(store_fd(st), path);
}
