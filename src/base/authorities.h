/* Finds the machine's certificates of authorities. */
#pragma once

/* The first file that can be read of those where distributions keep the certificates (PEM), a
 * static string; NULL if there is none. */
const char *authorities_file(void);

/*
 * The file to name to a libcurl that was built elsewhere, as in a tarball that runs on many
 * systems.
 *
 *   usual  where that libcurl looks by itself, NULL if nowhere
 *
 * Returns NULL if usual is there, so that libcurl needs no help, else as authorities_file().
 */
const char *authorities_instead_of(const char *usual);
