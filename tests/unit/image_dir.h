/* An image that is a directory made by a test. */
#ifndef MLR_TESTS_IMAGE_DIR_H
#define MLR_TESTS_IMAGE_DIR_H

#include "gpu/gpu.h"

/* root is borrowed. NULL: an image that cannot be looked into. */
struct gpu_image image_dir(const char *root);

/* Make a directory of the test's own, and take it away. */
void image_dir_make(char root[64]);
void image_dir_drop(const char *root);

/* A file of this text, with its directories; the path is the image's. */
void image_dir_put(const char *root, const char *path, const char *text);
void image_dir_mkdir(const char *root, const char *path);

#endif
