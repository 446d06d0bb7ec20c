/*
 * Writes the second half of a squashfs image, after the data: inodes, directories and tables. For
 * squashfs/writer.c.
 */
#pragma once

#include "layer/names.h"
#include "squashfs/writer_file.h"

#include <sqfs/frag_table.h>
#include <sqfs/super.h>
#include <sqfs/xattr_writer.h>

/* Clamp seconds since 1970 to the format's range, 0 to 2^32 - 1. */
uint32_t squashfs_table_time(int64_t seconds);

/* Write all but the data, and the super block again. Changes the nodes' order and inodes. */
int squashfs_table_write(struct squashfs_file *file, sqfs_compressor_t *compressor,
	sqfs_super_t *super, sqfs_frag_table_t *fragments, sqfs_xattr_writer_t *xattrs,
	struct layer_name *top, struct mlr_error *err);
