/* Included before the files that lanes.h names when they are compiled for 8 floats a vector: their
 * functions get names of their own. */
#pragma once

#define WIDE_LANES 8

#define dense_packed       dense_packed_8
#define dense_pack         dense_pack_8
#define dense_forward      dense_forward_8
#define imageconv_fits     imageconv_fits_8
#define imageconv_work     imageconv_work_8
#define imageconv_forward  imageconv_forward_8
#define imageconv_backward imageconv_backward_8
