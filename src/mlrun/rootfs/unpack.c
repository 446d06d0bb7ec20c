#include "rootfs/rootfs.h"

#include "base/program.h"
#include "base/spawn.h"
#include "sif/sif.h"

int rootfs_unpack(const char *file, const char *dir, const int *cancel, struct mlr_error *err)
{
	auto_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	auto_free char *program = program_find("unsquashfs");
	auto_strv struct strv words = STRV_INIT;
	struct sif_place place = { 0 };
	struct spawn s = { program, .out = SPAWN_NOTHING, .flags = SPAWN_CLOSES | SPAWN_USUAL };
	pid_t child;
	int r;

	TRY(fd < 0 ? mlr_fail_errno(err, "'%s'", file) : sif_find(fd, file, &place, err));
	if (!program) {
		mlr_fail(err, ENOENT, "unsquashfs is not installed");
		return mlr_hint(err, "the package squashfs-tools has it");
	}
	strv_add(&words, "unsquashfs");
	strv_add(&words, "-no-progress");
	strv_add(&words, "-no-xattrs");
	strv_addf(&words, "-offset");
	strv_addf(&words, "%" PRIu64, place.at);
	strv_add(&words, "-dest");
	strv_add(&words, dir);
	strv_add(&words, file);
	s.argv = strv_argv(&words);
	r = spawn_start(&s, &child);
	r = r < 0 ? r : spawn_wait_unless(child, cancel);
	return r > 0 ? mlr_fail(err, EIO, "unsquashfs ended with status %d", r)
		     : mlr_result(err, r, "unsquashfs");
}
