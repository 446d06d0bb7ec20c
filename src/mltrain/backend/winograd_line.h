/*
 * The transforms of winograd.h in one dimension, of a vector of channels at once; two dimensions
 * are lines down, then lines across. Arrays are read and written every so many elements (ds, ts,
 * …). Files that include this are compiled for each size of kernel, WINOGRAD_KERNEL:
 *
 *   line_input         t = B'd   of inputs, to points
 *   line_input_back    d = Bt
 *   line_output        y = A'm   of points, to outputs
 *   line_output_back   m = Ay
 *   line_weights       u = Gw    of a kernel, to points
 *   line_weights_back  w = G'u
 */
#ifndef MLT_BACKEND_WINOGRAD_LINE_H
#define MLT_BACKEND_WINOGRAD_LINE_H

#include "backend/winograd.h"
#include "tensor/wide.h"

#define KERNEL WINOGRAD_KERNEL
#define PAD    (KERNEL / 2)
#define TILE   WINOGRAD_TILE
#define INPUT  (TILE + KERNEL - 1) /* inputs of a tile, and points */
#define POINTS (INPUT * INPUT)

#if KERNEL == 3
#include "backend/winograd_line_3.h"
#else
#include "backend/winograd_line_5.h"
#endif

#endif
