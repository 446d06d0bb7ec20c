#include "base/filesystem.h"

#include "base/cleanup.h"

#include <linux/magic.h>
#include <sys/vfs.h>

/* Types from linux/magic.h, and from the vendors' own sources. */
static const struct filesystem rows[] = {
	{ EXT4_SUPER_MAGIC, "ext4", FILESYSTEM_LOCAL },
	{ 0x58465342, "xfs", FILESYSTEM_LOCAL },
	{ BTRFS_SUPER_MAGIC, "btrfs", FILESYSTEM_LOCAL | FILESYSTEM_SYNCS_ALONE },
	{ F2FS_SUPER_MAGIC, "f2fs", FILESYSTEM_LOCAL },
	{ 0x2fc12fc1, "zfs", FILESYSTEM_LOCAL },
	{ TMPFS_MAGIC, "tmpfs", FILESYSTEM_LOCAL },
	{ OVERLAYFS_SUPER_MAGIC, "overlay", 0 },
	{ NFS_SUPER_MAGIC, "nfs", FILESYSTEM_SERVERS },
	{ 0x0bd00bd0, "lustre", FILESYSTEM_SERVERS },
	{ 0x47504653, "gpfs", FILESYSTEM_SERVERS },
	{ 0x19830326, "beegfs", FILESYSTEM_SERVERS },
	{ CEPH_SUPER_MAGIC, "ceph", FILESYSTEM_SERVERS },
	{ FUSE_SUPER_MAGIC, "fuse", FILESYSTEM_SERVERS },
	{ 0x517b, "smb", FILESYSTEM_SERVERS },
	{ 0xfe534d42, "smb2", FILESYSTEM_SERVERS },
	{ 0xff534d42, "cifs", FILESYSTEM_SERVERS },
	{ 0x01021997, "9p", FILESYSTEM_SERVERS },
	{ 0x5346414f, "afs", FILESYSTEM_SERVERS },
	{ 0x6b414653, "afs", FILESYSTEM_SERVERS },
	{ 0xaad7aaea, "panfs", FILESYSTEM_SERVERS },
	{ 0x20030528, "orangefs", FILESYSTEM_SERVERS },
	{ 0x01161970, "gfs2", FILESYSTEM_SERVERS },
	{ 0x19800202, "wekafs", FILESYSTEM_SERVERS },
};

struct filesystem filesystem_of_type(unsigned long type)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].type == type)
			return rows[i];
	return (struct filesystem){ .type = type };
}

int filesystem_read(int fd, struct filesystem *ret)
{
	struct statfs fs;

	*ret = (struct filesystem){ 0 };
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	*ret = filesystem_of_type((unsigned long)fs.f_type & 0xffffffff);
	return 0;
}

int filesystem_room(int fd, struct statvfs *ret)
{
	if (fstatvfs(fd, ret) < 0)
		return -1;
	if (ret->f_blocks == 0)
		ret->f_blocks = ret->f_bfree = ret->f_bavail = FILESYSTEM_NO_SIZE / ret->f_frsize;
	return 0;
}
