/*
 * Where an image's file lies, for the room's own files.
 */
#ifndef MLR_STORE_IMAGE_FILE_H
#define MLR_STORE_IMAGE_FILE_H

#define STORE_IMAGE_PATH 96

/* "images/<sha256 of the canonical name>.json" */
void store_image_path(const char *name, char path[STORE_IMAGE_PATH]);

#endif
