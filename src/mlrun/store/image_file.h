/* The path of an image's file, for the files of this room. */
#ifndef MLR_STORE_IMAGE_FILE_H
#define MLR_STORE_IMAGE_FILE_H

#define STORE_IMAGE_PATH 96

/* "images/<sha256 of the canonical name>.json" */
void store_image_path(const char *name, char path[STORE_IMAGE_PATH]);

#endif
