#include "rootfs/choice.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "store/probe.h"

#include <fcntl.h>

#define TREES (STORE_FORMAT_DIR | STORE_FORMAT_LAYERS)

/* Has a pull found that overlayfs rejects trees on this file system? */
static int overlay_fails(struct store *st)
{
	struct filesystem_probe p;

	return store_probe_get(st, &p) == 0 && p.overlay == 0;
}

/* Open the device: access(2) does not see that a mount or a cgroup forbids it. */
static int fuse_opens(void)
{
	auto_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	return fd >= 0;
}

static char *tell(enum store_format choice, const char *why, unsigned formats)
{
	auto_free char *others = store_format_names(formats & ~choice, ", ");

	return xasprintf("format %s%s%s%s", store_format_name(choice), why,
		*others ? "; also there: " : "", others);
}

enum store_format rootfs_choose(struct store *st, unsigned formats, char **told)
{
	enum store_format choice = formats & STORE_FORMAT_DIR ? STORE_FORMAT_DIR
		: formats & STORE_FORMAT_LAYERS               ? STORE_FORMAT_LAYERS
							      : STORE_FORMAT_SQUASHFS;
	const char *why = "";

	if ((formats & TREES) && (formats & STORE_FORMAT_SQUASHFS) && overlay_fails(st)) {
		if (fuse_opens()) {
			choice = STORE_FORMAT_SQUASHFS;
			why = ", as the store's file system cannot be a layer of overlayfs";
		} else {
			why = ", as /dev/fuse is closed to this user";
		}
	}
	*told = tell(choice, why, formats);
	return choice;
}
