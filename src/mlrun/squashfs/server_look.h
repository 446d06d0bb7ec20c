/*
 * Answers requests about an image that is not mounted (squashfs/look.h). For mlrun-squashfuse's own
 * files.
 */
#pragma once

#include "squashfs/server_blocks.h"

/*
 * Answer requests from a socket until its other end is closed.
 *
 *   im      NULL if the file is not an image: every answer says so
 */
void look_serve(int sock, struct image *im, struct blocks *blocks);
