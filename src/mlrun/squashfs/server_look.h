/*
 * Looking into an image that is not mounted (squashfs/look.h). For mlrun-squashfuse's own files.
 */
#ifndef MLR_SQUASHFS_SERVER_LOOK_H
#define MLR_SQUASHFS_SERVER_LOOK_H

#include "squashfs/server_blocks.h"

/*
 * Answer what comes by a socket, until its other end is closed.
 *
 *   im      NULL: the file is no image, which is what each answer is
 */
void look_serve(int sock, struct image *im, struct blocks *blocks);

#endif
